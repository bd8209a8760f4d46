"""The runner of a device with memory of its own: inputs in through pinned memory, kernels, results out.

One copy takes all inputs to the device and one takes the results back; in the smallest calls there are none, and the
kernels access the host's memory (`mapped`). On CUDA, each kind and shape of small call is one graph; a large call is
computed in parts, whose copies overlap with the kernels of other parts. The runner also works on the CPU, where nothing
is recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Hashable, Mapping
from typing import NamedTuple

import torch
from torch import Tensor

from .buffers import Buffers
from .graphs import CudaRecorder, GraphCache, Recorder
from .kernel_calls import launch_forward, launch_vjp
from .mapped import most_mapped_bytes
from .packing import PackedInputs, PackedResults, packed_size
from .types import Array
from .work import ForwardWork, VjpWork

# Calls that move more bytes than this run eagerly in common memory: their launches take little time compared with the
# work, and separate memory for each kind would be too much.
MOST_RECORDED_BYTES = 32 << 20
PART_BYTES = 16 << 20
"""Bytes of results in each part of such calls."""
_STATE = ("position", "velocity", "acceleration")


class StagedRunner:
    """Copies in, computes and copies out, with all memory allocated once.

    Args:
        device: where the kernels run.
        dtype: of inputs and results.
        max_graphs: number of kinds of calls that are recorded and kept; 0 records nothing.
        recorder: records calls; the default is CUDA graphs on CUDA, and none elsewhere.
        mapped_bytes: calls with at most so many bytes of inputs and results are not copied; None: see `mapped`.

    """

    def __init__(
        self,
        device: torch.device,
        dtype: torch.dtype,
        max_graphs: int,
        recorder: Recorder | None = None,
        mapped_bytes: int | None = None,
    ) -> None:
        self._device = device
        self._dtype = dtype
        self._mapped_bytes = most_mapped_bytes(device) if mapped_bytes is None else mapped_bytes
        if recorder is None and device.type == "cuda" and max_graphs > 0:
            recorder = CudaRecorder(device)
        self._lanes = [_Lane.on(device, dtype) for _ in range(2)]
        self.graphs = GraphCache(recorder, max_graphs) if max_graphs > 0 and recorder is not None else None

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""
        with torch.no_grad():
            moved = work.out.nbytes
            if self._is_recorded(moved, work.out):
                self._run_recorded(_ForwardCall, work, _forward_inputs(work))
            else:
                for lane, begin, end in self._parts(work.batch, moved):
                    part = work if end - begin == work.batch else work.part(begin, end)
                    self._run_on(lane, _ForwardCall, part, _forward_inputs(part))
        self._wait()

    def vjp(self, work: VjpWork) -> None:
        """Compute the vector-Jacobian product."""
        with torch.no_grad():
            moved = sum(gradient.nbytes for gradient in work.upstream if gradient is not None)
            if self._is_recorded(moved, work.action):
                self._run_recorded(_VjpCall, work, _vjp_inputs(work))
                self._wait()
                return
            parts = self._parts(work.batch, moved)
            starts = self._summands("start summands", work.start, parts, work.sums_rows)
            goals = self._summands("goal summands", work.goal, parts, work.sums_goals)
            for i, (lane, begin, end) in enumerate(parts):
                part = work
                if len(parts) > 1:
                    part = work.part(
                        begin, end, *(None if rows is None else rows[i].unbind() for rows in (starts, goals))
                    )
                self._run_on(lane, _VjpCall, part, _vjp_inputs(part))
            self._wait()
            for results, summands in ((work.start, starts), (work.goal, goals)):
                if summands is not None:
                    for rows, total in zip(results, summands.double().sum(0), strict=True):
                        rows.copy_(total)

    def release(self) -> None:
        """Free all memory on the device, including that of the graphs."""
        for lane in self._lanes:
            lane.buffers.clear()
        if self.graphs is not None:
            self.graphs.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _is_recorded(self, moved: int, result: Tensor) -> bool:
        return self.graphs is not None and moved <= MOST_RECORDED_BYTES and result.is_contiguous()

    def _run_recorded(
        self,
        call_type: type[_ForwardCall] | type[_VjpCall],
        work: ForwardWork | VjpWork,
        inputs: dict[str, Array | None],
    ) -> None:
        def make() -> _ForwardCall | _VjpCall:
            return self._call(call_type, work, inputs, Buffers(self._device, self._dtype))

        call, do_work = self.graphs.find(_key(call_type, work, inputs), make)
        call.inputs.fill(inputs)
        do_work()

    def _parts(self, batch: int, moved: int) -> list[tuple[_Lane, int, int]]:
        """Trajectories of each part, and the lane that computes it, in turn."""
        count = min(max(moved // PART_BYTES, 1), batch)
        size = -(-batch // count)
        places = range(0, batch, size)
        return [(self._lanes[i % 2], begin, min(begin + size, batch)) for i, begin in enumerate(places)]

    def _summands(
        self, name: str, results: tuple[Tensor, ...], parts: list[tuple[_Lane, int, int]], are_summed: bool
    ) -> Tensor | None:
        """Host memory for each part's summands of rows that several parts share, `[parts, 3, S, dof]`."""
        if not are_summed or len(parts) == 1:
            return None
        return self._lanes[0].buffers.view("output", name, (len(parts), len(results), *results[0].shape))

    def _run_on(
        self,
        lane: _Lane,
        call_type: type[_ForwardCall] | type[_VjpCall],
        work: ForwardWork | VjpWork,
        inputs: dict[str, Array | None],
    ) -> None:
        lane.wait()  # until then its host memory may still be read
        with lane.at_work():
            call = self._call(call_type, work, inputs, lane.buffers)
            call.inputs.fill(inputs)
            call.enqueue()

    def _call(
        self,
        call_type: type[_ForwardCall] | type[_VjpCall],
        work: ForwardWork | VjpWork,
        inputs: dict[str, Array | None],
        buffers: Buffers,
    ) -> _ForwardCall | _VjpCall:
        moved = packed_size(inputs, self._dtype) + sum(result.nbytes for result in call_type.results_of(work))
        mapped = moved <= self._mapped_bytes
        packed = PackedInputs(inputs, buffers, self._device, self._dtype, mapped=mapped)
        return call_type(work, packed, PackedResults(call_type.results_of(work), buffers, self._device, mapped=mapped))

    def _wait(self) -> None:
        for lane in self._lanes:
            lane.wait()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()


class _Lane(NamedTuple):
    """Memory for one part of a call, and the stream that works on it; there is no stream on the CPU."""

    buffers: Buffers
    stream: torch.cuda.Stream | None

    @classmethod
    def on(cls, device: torch.device, dtype: torch.dtype) -> _Lane:
        stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        return cls(Buffers(device, dtype), stream)

    def at_work(self) -> contextlib.AbstractContextManager:
        """Run the context's work on this lane's stream, after the work on the current one."""
        if self.stream is None:
            return contextlib.nullcontext()
        self.stream.wait_stream(torch.cuda.current_stream(self.stream.device))
        return torch.cuda.stream(self.stream)

    def wait(self) -> None:
        """Wait for all work on this lane."""
        if self.stream is not None:
            self.stream.synchronize()


class _ForwardCall:
    """Memory and work of one kind of forward call."""

    def __init__(self, work: ForwardWork, inputs: PackedInputs, results: PackedResults) -> None:
        self.inputs = inputs
        self._results = results
        self._kernel = work.kernel
        self._goals = len(work.goal)

    @staticmethod
    def results_of(work: ForwardWork) -> tuple[Tensor, ...]:
        """Where the results go."""
        return (work.out,)

    def enqueue(self) -> None:
        """Copy in, integrate, copy out."""
        self.inputs.upload()
        given = self.inputs.device
        start = [given[kind] for kind in _STATE]
        goal = [given[f"goal_{kind}"] for kind in _STATE[: self._goals]]
        actions, index, goal_index, dt = (given[name] for name in ("actions", "start_index", "goal_index", "dt"))
        (out,) = self._results.device
        launch_forward(self._kernel, actions, start, index, dt, out, goal, goal_index)
        self._results.download()


class _VjpCall:
    """Memory and work of one kind of vjp call."""

    def __init__(self, work: VjpWork, inputs: PackedInputs, results: PackedResults) -> None:
        self.inputs = inputs
        self._results = results
        self._kernel = work.kernel
        self._first_goal = len(work.start)

    @staticmethod
    def results_of(work: VjpWork) -> tuple[Tensor, ...]:
        """Where the results go."""
        return (work.action, *work.start, *work.goal)

    def enqueue(self) -> None:
        """Copy in, compute the vjp, copy out."""
        self.inputs.upload()
        *upstream, index, goal_index, dt = self.inputs.device.values()
        action, *rows = self._results.device
        start, goal = rows[: self._first_goal], rows[self._first_goal :]
        launch_vjp(self._kernel, upstream, index, dt, action, start, goal, goal_index)
        self._results.download()


def _forward_inputs(work: ForwardWork) -> dict[str, Array | None]:
    return {
        "actions": work.actions,
        **dict(zip(_STATE, work.start, strict=True)),
        **{f"goal_{kind}": rows for kind, rows in zip(_STATE, work.goal, strict=False)},
        "start_index": work.start_index,
        "goal_index": work.goal_index,
        "dt": work.dt,
    }


def _vjp_inputs(work: VjpWork) -> dict[str, Array | None]:
    names = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")
    return {
        **dict(zip(names, work.upstream, strict=True)),
        "start_index": work.start_index,
        "goal_index": work.goal_index,
        "dt": work.dt,
    }


def _key(
    call_type: type[_ForwardCall] | type[_VjpCall], work: ForwardWork | VjpWork, inputs: Mapping[str, Array | None]
) -> Hashable:
    """The key of a recording: map, shapes, which inputs are given, and where the results go."""
    shapes = tuple(None if value is None else tuple(value.shape) for value in inputs.values())
    places = tuple((result.data_ptr(), tuple(result.shape)) for result in call_type.results_of(work))
    return call_type, work.kernel.name, shapes, places
