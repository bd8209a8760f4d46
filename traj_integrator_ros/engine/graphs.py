"""A cache of recorded work, least recently used first out: on CUDA one graph for each kind and shape of call."""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

import torch

from .types import is_out_of_memory

Replay = Callable[[], None]

logger = logging.getLogger(__name__)


class Recorder(Protocol):
    """Records work so that it can be repeated on the same memory at a lower cost."""

    def record(self, run: Callable[[], None]) -> Replay:
        """Record `run` without doing its work.

        Raises:
            RuntimeError: it cannot be recorded.

        """


class CudaRecorder:
    """Captures the kernels and copies that `run` launches in a CUDA graph.

    Kernels must be compiled beforehand: `run` must have run once.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def record(self, run: Callable[[], None]) -> Replay:
        """Capture `run`; memory that it allocates belongs to the graph and is freed with it."""
        graph = torch.cuda.CUDAGraph()
        # Other threads may continue with operations that are forbidden in a capture.
        capture = torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local")
        with torch.cuda.device(self._device), capture:
            run()
        return graph.replay


class RepeatedCall(Protocol):
    """Memory for calls of one kind and shape, and the work on it."""

    def enqueue(self) -> None:
        """Copy in, compute, copy out: always the same, on the same memory."""


AnyCall = TypeVar("AnyCall", bound=RepeatedCall)


class GraphCache:
    """The latest kinds of calls with their memory, and their recordings.

    A kind of call is recorded when it occurs for the second time: recording one that occurs only once does not pay.

    Args:
        recorder: records calls; None to record nothing.
        capacity: how many kinds of calls are kept.

    """

    def __init__(self, recorder: Recorder | None, capacity: int) -> None:
        self._recorder = recorder
        self._capacity = capacity
        self._calls: OrderedDict[Hashable, RepeatedCall] = OrderedDict()
        self._replays: dict[Hashable, Replay] = {}

    def find(self, key: Hashable, make: Callable[[], AnyCall]) -> tuple[AnyCall, Replay]:
        """Return the memory and work of `key`, created if necessary, and a function that does the work this time."""
        call = self._calls.get(key)
        if call is None:
            self._make_room()
            call = self._calls[key] = make()
            return call, call.enqueue
        self._calls.move_to_end(key)
        replay = self._replays.get(key)
        if replay is None:
            replay = self._replays[key] = self._record(call)
        return call, replay

    def clear(self) -> None:
        """Drop all memory and recordings."""
        self._calls.clear()
        self._replays.clear()

    def __len__(self) -> int:
        """Number of kinds of calls."""
        return len(self._calls)

    def _make_room(self) -> None:
        while len(self._calls) >= self._capacity:
            oldest, _ = self._calls.popitem(last=False)
            self._replays.pop(oldest, None)

    def _record(self, call: RepeatedCall) -> Replay:
        if self._recorder is None:
            return call.enqueue
        try:
            return self._recorder.record(call.enqueue)
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise
            self._recorder = None
            reason = str(error).splitlines()[0]
            logger.warning("the engine continues without CUDA graphs, since one could not be captured: %s", reason)
            return call.enqueue
