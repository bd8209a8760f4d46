"""The runner of a device with memory of its own: inputs in through pinned memory, kernels, results out.

One copy takes all inputs to the device and one takes the results back. On CUDA, each kind and shape of call is one
graph, unless it moves much. The runner also works on the CPU, where nothing is recorded.
"""

from __future__ import annotations

import logging
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..kernels import Backend, ControlMap, default_backend
from ..kernels.backends import launcher
from ..kernels.signature import four
from ..kernels.types import Inputs, VjpInputs
from .call import STARTS, Array, Call
from .runners import Buffers, is_out_of_memory

# Calls that move more bytes than this run eagerly in common memory: their launches take little time compared with the
# work, and separate memory for each kind would be too much.
MOST_RECORDED_BYTES = 32 << 20
# Dtypes of inputs whose dtype is not the engine's.
_DTYPES = {"start_index": torch.int64, "goal_index": torch.int64, "dt": torch.float64}
_ALIGNMENT = 64

Replay = Callable[[], None]
Place = tuple[int, tuple[int, ...], torch.dtype]
"""First byte, shape and dtype of an input."""

logger = logging.getLogger(__name__)


class CudaRecorder:
    """Captures kernels and copies in CUDA graphs, which repeat them on the same memory at a lower cost."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def record(self, run: Callable[[], None]) -> Replay:
        """Capture what `run` launches, which must have run once before; RuntimeError if that cannot be captured.

        Memory that it allocates belongs to the graph and is freed with it.
        """
        graph = torch.cuda.CUDAGraph()
        # Other threads may continue with operations that are forbidden in a capture.
        capture = torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local")
        with torch.cuda.device(self._device), capture:
            run()
        return graph.replay


class StagedRunner:
    """Copies in, computes and copies out, with all memory allocated once.

    A kind of call is recorded when it occurs for the second time: recording one that occurs only once does not pay.

    Args:
        device: where the kernels run.
        dtype: of inputs and results.
        max_graphs: number of kinds of calls that are recorded and kept, the latest used; 0 records nothing.

    """

    def __init__(self, device: torch.device, dtype: torch.dtype, max_graphs: int) -> None:
        self._device, self._dtype, self._max_graphs = device, dtype, max_graphs
        self._recorder = CudaRecorder(device) if device.type == "cuda" and max_graphs > 0 else None
        self._buffers = Buffers(device, dtype)
        self.kept: OrderedDict[Hashable, _StagedCall] = OrderedDict()
        """Kinds of calls with memory of their own, the most recently used one at the end."""

    def run(self, call: Call) -> None:
        """Compute a call."""
        inputs = call.inputs
        moved = sum(array.nbytes for array in (*inputs.values(), *call.results) if array is not None)
        with torch.no_grad():
            if self._recorder is not None and moved <= MOST_RECORDED_BYTES:
                staged = self._kept(call, inputs)
            else:
                staged = _StagedCall(call, inputs, self._buffers)
            staged.inputs.fill(inputs)
            (staged.replay or staged.enqueue)()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()

    def release(self) -> None:
        """Free all memory on the device, including the graphs'."""
        self._buffers.release()
        self.kept.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _kept(self, call: Call, inputs: Mapping[str, Array | None]) -> _StagedCall:
        """Memory and work of this kind of call: new at first, recorded from its second occurrence on."""
        key = _key(call, inputs)
        staged = self.kept.get(key)
        if staged is None:
            while len(self.kept) >= self._max_graphs:
                self.kept.popitem(last=False)
            staged = self.kept[key] = _StagedCall(call, inputs, Buffers(self._device, self._dtype))
            return staged
        self.kept.move_to_end(key)
        if staged.replay is None:
            try:
                staged.replay = self._recorder.record(staged.enqueue)
            except RuntimeError as error:
                if is_out_of_memory(error):
                    raise
                self._recorder = None
                self.kept.clear()
                reason = str(error).splitlines()[0]
                logger.warning("the engine continues without CUDA graphs, since one could not be captured: %s", reason)
        return staged


class _StagedCall:
    """Memory and work of one kind of call."""

    def __init__(self, call: Call, inputs: Mapping[str, Array | None], buffers: Buffers) -> None:
        self.inputs = PackedInputs(inputs, buffers)
        self._results = PackedResults(call.results, buffers)
        self._kernel, self._is_forward = call.kernel, call.upstream is None
        self.replay: Replay | None = None
        """Repeats `enqueue` from its recording."""

    def enqueue(self) -> None:
        """Copy in, compute, copy out: always on the same memory."""
        self.inputs.upload()
        given = self.inputs.device
        if self._is_forward:
            launch_forward(self._kernel, given, *self._results.device)
        else:
            launch_vjp(self._kernel, given, self._results.device)
        self._results.download()


def _key(call: Call, inputs: Mapping[str, Array | None]) -> Hashable:
    """The key of a recording: map, shapes, which inputs are given, and where the results go."""
    shapes = tuple(None if value is None else tuple(value.shape) for value in inputs.values())
    places = tuple((result.data_ptr(), tuple(result.shape)) for result in call.results)
    return call.kind, shapes, places


# Launchers: those of the device write into the caller's tensors.


def launch_forward(kernel: ControlMap, given: Mapping[str, Tensor | None], out: Tensor) -> None:
    """Integrate into `out`, contiguous `[4, B, H, dof]`; `given` are the inputs of a call by name, on the device."""
    operator, inputs = kernel.operator, inputs_of(kernel, given)
    launch = launcher(operator.name, "forward", None, inputs.action.device.type)
    scheme = operator.scheme((*kernel.scheme, None))
    outputs = out.unbind()
    if _writes_into(inputs.action.device):
        launch(inputs, out=outputs, **scheme)
        return
    for target, output in zip(outputs, launch(inputs, **scheme), strict=True):
        target.copy_(output)


def launch_vjp(kernel: ControlMap, given: Mapping[str, Tensor | None], into: Sequence[Tensor]) -> None:
    """Compute the vjp of upstream gradients: gradients of the actions, of three start rows and of the goal rows."""
    operator, (action, *ends) = kernel.operator, into
    start, goal = ends[:STARTS], ends[STARTS:] if operator.goals else []
    launch = launcher(operator.name, "vjp", None, action.device.type)
    out = (action, *four(start), *four(goal))
    needs = [target is not None for target in out]
    counts = start[0].shape[0], goal[0].shape[0] if goal else -1
    _, indices, dt = inputs_of(kernel, given)
    inputs = VjpInputs(rows_of(given, "upstream"), indices, dt, counts, action.shape[1], needs)
    scheme = operator.scheme((*kernel.scheme, None), vjp=True)
    if _writes_into(action.device):
        launch(inputs, out=out, **scheme)
        return
    for target, gradient in zip(out, launch(inputs, **scheme), strict=True):
        if target is not None:
            target.copy_(gradient)


def inputs_of(kernel: ControlMap, given: Mapping[str, Tensor | None]) -> Inputs:
    """Return the inputs of a call by name, as the map takes them. A goal that replaces an action is left out."""
    goal, goal_index = (rows_of(given, "goal"), given["goal_index"]) if kernel.operator.goals else (four(()), None)
    return Inputs((given["actions"], *rows_of(given, "start"), *goal), (given["start_index"], goal_index), given["dt"])


def rows_of(given: Mapping[str, Tensor | None], name: str) -> tuple[Tensor | None, ...]:
    """Return the four rows of a kind among inputs by name."""
    return tuple(given.get(f"{name}_{place}") for place in range(4))


def _writes_into(device: torch.device) -> bool:
    return default_backend(device) is Backend.TRITON


# Memory


class PackedInputs:
    """Named inputs, stored one after the other, on the host (pinned) and on the device.

    Args:
        values: inputs with the shapes and dtypes of all that follow; None for absent ones.
        buffers: where the memory comes from, in the engine's dtype.

    """

    def __init__(self, values: Mapping[str, Array | None], buffers: Buffers) -> None:
        places: dict[str, Place] = {}
        size = 0
        for name, value in values.items():
            if value is not None:
                shape, dtype = tuple(value.shape), _DTYPES.get(name, buffers.dtype)
                places[name] = (size, shape, dtype)
                size += -(-math.prod(shape) * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._on_host = buffers.view("output", "inputs", (size,), torch.uint8)
        is_on_host = buffers.device.type == "cpu"
        self._on_device = self._on_host if is_on_host else buffers.view("input", "inputs", (size,), torch.uint8)
        self.device = {name: _view(self._on_device, places.get(name)) for name in values}
        self._host = {name: _view(self._on_host, place) for name, place in places.items()}
        self._arrays = {name: tensor.numpy() for name, tensor in self._host.items()}

    def fill(self, values: Mapping[str, Array | None]) -> None:
        """Copy values into the host's memory."""
        for name, value in values.items():
            if isinstance(value, np.ndarray):
                np.copyto(self._arrays[name], value, casting="same_kind")
            elif value is not None:
                self._host[name].copy_(value.detach())

    def upload(self) -> None:
        """Start the one copy to the device."""
        self._on_device.copy_(self._on_host, non_blocking=True)


class PackedResults:
    """Device memory for results that go to `hosts`.

    Args:
        hosts: adjacent memory for the results, in the engine's dtype: one copy serves all.
        buffers: where the device's memory comes from.

    """

    def __init__(self, hosts: Sequence[Tensor], buffers: Buffers) -> None:
        size = sum(host.numel() for host in hosts)
        self._flat = buffers.view("input", "results", (size,))
        pieces = self._flat.split([host.numel() for host in hosts])
        self.device = [piece.view(host.shape) for piece, host in zip(pieces, hosts, strict=True)]
        self._host = torch.as_strided(hosts[0], (size,), (1,))

    def download(self) -> None:
        """Start the copy to the host."""
        self._host.copy_(self._flat, non_blocking=True)


def to_device(values: Mapping[str, Array | None], buffers: Buffers) -> dict[str, Tensor | None]:
    """Return inputs as tensors on the device, in the memory of `buffers`: valid until it is called again."""
    inputs = PackedInputs(values, buffers)
    inputs.fill(values)
    inputs.upload()
    return inputs.device


def _view(memory: Tensor, place: Place | None) -> Tensor | None:
    if place is None:
        return None
    offset, shape, dtype = place
    return memory[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)
