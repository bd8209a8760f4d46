"""The runner of a device with memory of its own: inputs in through pinned memory, kernels, results out.

On CUDA all of it is one graph for each kind and shape of call; it serves the CPU too, where nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers
from .graphs import CudaRecorder, GraphCache, Recorder
from .kernel_calls import launch_forward, launch_vjp
from .types import Array
from .work import ForwardWork, VjpWork

# Calls that move more bytes than this run eagerly in shared memory: their launches cost nothing beside the work, and
# memory of their own for each kind would be too much.
MOST_RECORDED_BYTES = 32 << 20

# Of the inputs that do not have the engine's dtype.
_DTYPES = {"start_index": torch.int64, "goal_index": torch.int64, "dt": torch.float64}
_STATE = ("position", "velocity", "acceleration")


class StagedRunner:
    """Copies in, computes and copies out, with all memory made once.

    Args:
        device: where the kernels run.
        dtype: of inputs and results.
        max_graphs: kinds of call that are recorded and kept; 0 records nothing.
        recorder: what records; by default CUDA graphs on CUDA, nothing elsewhere.

    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, max_graphs: int, recorder: Recorder | None = None
    ) -> None:
        self._device = device
        self._dtype = dtype
        if recorder is None and device.type == "cuda" and max_graphs > 0:
            recorder = CudaRecorder(device)
        self._shared = Buffers(device, dtype)
        self.graphs = GraphCache(recorder, max_graphs) if max_graphs > 0 and recorder is not None else None

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""
        inputs = {
            "actions": work.actions,
            **dict(zip(_STATE, work.start, strict=True)),
            **{f"goal_{kind}": rows for kind, rows in zip(_STATE, work.goal, strict=False)},
            "start_index": work.start_index,
            "goal_index": work.goal_index,
            "dt": work.dt,
        }
        self._run(_ForwardCall, work, inputs, (work.out,))

    def vjp(self, work: VjpWork) -> None:
        """Pull back."""
        names = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")
        inputs = {
            **dict(zip(names, work.upstream, strict=True)),
            "start_index": work.start_index,
            "goal_index": work.goal_index,
            "dt": work.dt,
        }
        self._run(_VjpCall, work, inputs, (work.action, *work.start, *work.goal))

    def release(self) -> None:
        """Let go of all memory on the device, the graphs' too."""
        self._shared.clear()
        if self.graphs is not None:
            self.graphs.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _run(
        self,
        call_type: type[_ForwardCall] | type[_VjpCall],
        work: ForwardWork | VjpWork,
        inputs: dict[str, Array | None],
        results: tuple[Tensor, ...],
    ) -> None:
        def make(buffers: Buffers | None = None) -> _ForwardCall | _VjpCall:
            memory = _Memory(buffers or Buffers(self._device, self._dtype), self._device)
            return call_type(work, {name: memory.input(name, value) for name, value in inputs.items()}, memory)

        moved = sum(result.numel() for result in results) * results[0].element_size()
        with torch.no_grad():
            if self.graphs is None or moved > MOST_RECORDED_BYTES or not results[0].is_contiguous():
                call = make(self._shared)
                do_work: Callable[[], None] = call.enqueue
            else:
                call, do_work = self.graphs.find(_key(call_type, work, inputs, results), make)
            for name, value in inputs.items():
                call.inputs[name].fill(value)
            do_work()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()


class _Input:
    """Memory of one input, on the host and on the device, which are the same on the CPU; None if it is absent."""

    def __init__(self, host: Tensor | None, device: Tensor | None) -> None:
        self.host = host
        self.device = device
        self._array = None if host is None else host.numpy()

    def fill(self, value: Array | None) -> None:
        """Copy a value into the host's memory."""
        if value is None:
            return
        if isinstance(value, np.ndarray):
            np.copyto(self._array, value, casting="same_kind")
        else:
            self.host.copy_(value.detach())

    def upload(self) -> None:
        """Start the copy to the device."""
        if self.host is not self.device:
            self.device.copy_(self.host, non_blocking=True)


class _Memory:
    """Makes the memory of a call out of named buffers."""

    def __init__(self, buffers: Buffers, device: torch.device) -> None:
        self._buffers = buffers
        self._same = device.type == "cpu"

    def input(self, name: str, value: Array | None) -> _Input:
        """Memory for an input like `value`."""
        if value is None:
            return _Input(None, None)
        shape, dtype = tuple(value.shape), _DTYPES.get(name)
        device = self._buffers.view("input", name, shape, dtype)
        return _Input(device if self._same else self._buffers.view("output", name, shape, dtype), device)

    def result(self, name: str, host: Tensor) -> Tensor:
        """Device memory for a result that goes to `host`: that itself, where the device can write it."""
        return host if self._same and host.is_contiguous() else self._buffers.view("input", name, tuple(host.shape))


class _ForwardCall:
    """Memory and work of one kind of forward call."""

    def __init__(self, work: ForwardWork, inputs: dict[str, _Input], memory: _Memory) -> None:
        self.inputs = inputs
        self._kernel = work.kernel
        self._host = work.out
        self._out = memory.result("out", work.out)
        self._start = [inputs[name].device for name in _STATE]
        self._goal = [inputs[f"goal_{kind}"].device for kind in _STATE[: len(work.goal)]]

    def enqueue(self) -> None:
        """Copy in, integrate, copy out."""
        for value in self.inputs.values():
            value.upload()
        names = ("actions", "start_index", "goal_index", "dt")
        actions, index, goal_index, dt = (self.inputs[name].device for name in names)
        launch_forward(self._kernel, actions, self._start, index, dt, self._out, self._goal, goal_index)
        _download(self._out, self._host)


class _VjpCall:
    """Memory and work of one kind of transposed call."""

    def __init__(self, work: VjpWork, inputs: dict[str, _Input], memory: _Memory) -> None:
        self.inputs = inputs
        self._kernel = work.kernel
        self._host = (work.action, *work.start, *work.goal)
        self._starts = 1 + len(work.start)
        names = ["action", *(f"start_{kind}" for kind in _STATE)]
        names += [f"goal_{kind}" for kind in _STATE[: len(work.goal)]]
        self._results = [memory.result(name, host) for name, host in zip(names, self._host, strict=True)]

    def enqueue(self) -> None:
        """Copy in, pull back, copy out."""
        for value in self.inputs.values():
            value.upload()
        *upstream, index, goal_index, dt = (value.device for value in self.inputs.values())
        action, start, goal = self._results[0], self._results[1 : self._starts], self._results[self._starts :]
        launch_vjp(self._kernel, upstream, index, dt, action, start, goal, goal_index)
        for result, host in zip(self._results, self._host, strict=True):
            _download(result, host)


def _download(result: Tensor, host: Tensor) -> None:
    if result is host:
        return
    if host.is_contiguous():
        host.copy_(result, non_blocking=True)
        return
    for part, target in zip(result, host, strict=True):  # some of the trajectories of each output
        target.copy_(part, non_blocking=True)


def _key(
    call_type: type, work: ForwardWork | VjpWork, inputs: dict[str, Array | None], results: tuple[Tensor, ...]
) -> Hashable:
    """What has to be the same for the same recording: map, shapes, what is given, and where the results go."""
    shapes = tuple(None if value is None else tuple(value.shape) for value in inputs.values())
    places = tuple((result.data_ptr(), tuple(result.shape)) for result in results)
    return call_type, work.kernel.name, shapes, places
