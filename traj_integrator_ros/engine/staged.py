"""The runner of a device with memory of its own: inputs in through pinned memory, kernels, results out.

One copy takes all inputs to the device and one takes the results back. On CUDA, each kind and shape of call is one
graph, unless it moves much. The runner also works on the CPU, where nothing is recorded.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import torch

from .buffers import Buffers
from .call import Call
from .graphs import CudaRecorder, GraphCache, Recorder
from .kernel_calls import launch_forward, launch_vjp
from .packing import PackedInputs, PackedResults, packed_size
from .types import Array

# Calls that move more bytes than this run eagerly in common memory: their launches take little time compared with the
# work, and separate memory for each kind would be too much.
MOST_RECORDED_BYTES = 32 << 20
_STARTS = 3


class StagedRunner:
    """Copies in, computes and copies out, with all memory allocated once.

    Args:
        device: where the kernels run.
        dtype: of inputs and results.
        max_graphs: number of kinds of calls that are recorded and kept; 0 records nothing.
        recorder: records calls; the default is CUDA graphs on CUDA, and none elsewhere.

    """

    def __init__(
        self, device: torch.device, dtype: torch.dtype, max_graphs: int, recorder: Recorder | None = None
    ) -> None:
        self._device, self._dtype = device, dtype
        if recorder is None and device.type == "cuda" and max_graphs > 0:
            recorder = CudaRecorder(device)
        self._buffers = Buffers(device, dtype)
        self.graphs = GraphCache(recorder, max_graphs) if max_graphs > 0 and recorder is not None else None

    def run(self, call: Call) -> None:
        """Compute a call."""
        inputs = call.inputs
        moved = packed_size(inputs, self._dtype) + sum(result.nbytes for result in call.results)
        with torch.no_grad():
            is_recorded = self.graphs is not None and moved <= MOST_RECORDED_BYTES
            if is_recorded and all(result.is_contiguous() for result in call.results):
                staged, do_work = self.graphs.find(
                    _key(call, inputs), lambda: _StagedCall(call, inputs, Buffers(self._device, self._dtype))
                )
            else:
                staged = _StagedCall(call, inputs, self._buffers)
                do_work = staged.enqueue
            staged.inputs.fill(inputs)
            do_work()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def release(self) -> None:
        """Free all memory on the device, including that of the graphs."""
        self._buffers.clear()
        if self.graphs is not None:
            self.graphs.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


class _StagedCall:
    """Memory and work of one kind of call."""

    def __init__(self, call: Call, inputs: Mapping[str, Array | None], buffers: Buffers) -> None:
        self.inputs = PackedInputs(inputs, buffers)
        self._results = PackedResults(call.results, buffers)
        self._call = call.without_arrays()

    def enqueue(self) -> None:
        """Copy in, compute, copy out."""
        self.inputs.upload()
        given, kernel = self.inputs.device, self._call.kernel
        index, goal_index, dt = given["start_index"], given["goal_index"], given["dt"]

        def rows(end: str) -> list[torch.Tensor | None]:
            return [values for name, values in given.items() if name.startswith(end) and name[-1].isdigit()]

        if self._call.upstream is None:
            (out,) = self._results.device
            launch_forward(kernel, given["actions"], rows("start"), index, dt, out, rows("goal"), goal_index)
        else:
            action, *ends = self._results.device
            start, goal = ends[:_STARTS], ends[_STARTS:]
            launch_vjp(kernel, rows("upstream"), index, dt, action, start, goal, goal_index)
        self._results.download()


def _key(call: Call, inputs: Mapping[str, Array | None]) -> Hashable:
    """The key of a recording: map, shapes, which inputs are given, and where the results go."""
    shapes = tuple(None if value is None else tuple(value.shape) for value in inputs.values())
    places = tuple((result.data_ptr(), tuple(result.shape)) for result in call.results)
    return call.kind, shapes, places
