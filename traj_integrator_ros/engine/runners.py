"""Runners of calls: memory that is reused, and the C++ loops of the CPU."""

from __future__ import annotations

import math
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from ..kernels.call import fast_map
from ..kernels.reference_backend import collect_rows
from .call import NO_ENDS, STARTS, Array, Call, Ends

# Words in errors of the CPU's allocator, which differ on arm64, and of CUDA's allocator for pinned memory.
_HOST_IS_FULL = ("can't allocate memory", "DefaultCPUAllocator: not enough memory", "CUDA error: out of memory")
DTYPES = {"float32": torch.float32, "float64": torch.float64}
# Number of views that are kept, so that a call with a known shape creates none.
_MOST_VIEWS = 256

Kept = TypeVar("Kept")


class Pieces(NamedTuple):
    """Memory on the host, in adjacent pieces."""

    tensors: tuple[Tensor, ...]
    arrays: tuple[np.ndarray, ...]
    """The same memory as numpy arrays."""
    whole: np.ndarray
    """The whole memory, flat."""


class Buffers:
    """Flat storage by side and name, grown to the largest size seen and viewed in the shape of each call.

    The side "input" is on the device; "output" is on the host, in pinned memory if the device is CUDA. Where no memory
    is left, a RuntimeError is raised (see `is_out_of_memory`).
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self.device = device
        self.dtype = dtype
        self._storage: dict[tuple[str, str], Tensor] = {}
        self._views: dict[tuple[object, ...], object] = {}

    def view(self, side: str, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        """Return the memory of `name` as a contiguous tensor of `shape`, in the engine's dtype or `dtype`."""
        key = side, name, shape, dtype
        known = self._views.get(key)
        if known is not None:
            return known
        return self._keep(key, self._flat(side, name, math.prod(shape), dtype or self.dtype).view(shape))

    def pieces(self, name: str, shapes: tuple[tuple[int, ...], ...]) -> Pieces:
        """Return the memory of `name` on the host in pieces of these shapes, in the engine's dtype."""
        key = name, shapes
        known = self._views.get(key)
        if known is not None:
            return known
        sizes = [math.prod(shape) for shape in shapes]
        flat = self._flat("output", name, sum(sizes), self.dtype)
        tensors = tuple(piece.view(shape) for piece, shape in zip(flat.split(sizes), shapes, strict=True))
        return self._keep(key, Pieces(tensors, tuple(tensor.numpy() for tensor in tensors), flat.numpy()))

    def release(self) -> None:
        """Release all memory."""
        self._views.clear()
        self._storage.clear()

    def _flat(self, side: str, name: str, size: int, dtype: torch.dtype) -> Tensor:
        held = self._storage.get((side, name))
        if held is None or held.dtype != dtype or held.numel() < size:
            del held  # free the old memory before the new memory is allocated
            self._views.clear()
            self._storage.pop((side, name), None)
            self._storage[side, name] = held = self._allocate(side, size, dtype)
        return held[:size]

    def _keep(self, key: tuple[object, ...], view: Kept) -> Kept:
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        self._views[key] = view
        return view

    def _allocate(self, side: str, size: int, dtype: torch.dtype) -> Tensor:
        if side == "input":
            return torch.empty(size, dtype=dtype, device=self.device)
        return torch.empty(size, dtype=dtype, pin_memory=self.device.type == "cuda")


class DirectRunner:
    """The runner of the CPU: the C++ loops read the caller's arrays and write the results, without copies.

    Only arrays with another dtype, or not contiguous, are converted.

    Raises:
        ImportError: there is no C++ extension.

    """

    def __init__(self, dtype: torch.dtype) -> None:
        from ..kernels.native.extension import UNFIT, extension

        self._loops, self._unfit, self._dtype = extension, UNFIT, dtype

    def run(self, call: Call) -> None:
        """Compute a call."""
        given, upstream = call.of_map, call.upstream
        try:
            self._compute(call, given, upstream)
        except self._unfit:  # nothing was written: repeat the call with converted arrays
            try:
                values, indices, dt = given
                given = self._converted(values), indices, np.ascontiguousarray(dt)
                self._compute(call, given, upstream and self._converted(upstream))
            except self._unfit:
                raise ValueError(unfit(call)) from None

    def release(self) -> None:
        """Do nothing: no memory is kept."""

    def _compute(self, call: Call, given: tuple[object, ...], upstream: object) -> None:
        kind = fast_map(call.kernel.operator, *call.kernel.scheme).kind
        if upstream is None:
            self._loops.forward(kind, *given, *call.results)
            return
        starts, goals = call.results[: 1 + STARTS], call.results[1 + STARTS :]
        self._loops.vjp(kind, upstream, *given[1:], False, bool(goals), (*starts, None, *goals))

    def _converted(self, arrays: tuple[Array | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(on_host(array, self._dtype) for array in arrays)


def unfit(call: Call) -> str:
    """Words for a call whose arrays the C++ loops do not take."""
    given = ", ".join(f"{name} {list(np.shape(value))}" for name, value in call.inputs.items() if value is not None)
    return f"arrays: expected real numbers in shapes that belong together, got {given}"


def on_host(value: Array | None, dtype: torch.dtype) -> Tensor | None:
    """Return an array of real numbers as a tensor on the host, in the same memory if it has that dtype already."""
    if value is None:
        return None
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.require(value, requirements=("C", "W")))
    if value.is_complex():
        raise TypeError("arrays: expected real numbers, got complex ones")
    return value.detach().to("cpu", dtype)


# Goals in position control take the place of one of the actions.


def without_goal(call: Call, buffers: Buffers) -> Call:
    """Return a call whose goal is copied into its actions if it takes the place of one."""
    if not replaces_action(call):
        return call
    copy = buffers.view("output", "actions to the goal", call.shape)
    copy.copy_(on_host(call.actions, copy.dtype))
    rows, index = on_host(call.goal.rows[0], copy.dtype), call.goal.index
    copy[:, call.kernel.goal_place] = rows if index is None else rows[torch.from_numpy(index)]
    return call._replace(actions=copy, goal=NO_ENDS)


def replaces_action(call: Call) -> bool:
    """Return whether the goal of a call takes the place of an action."""
    return call.goal.count is not None and call.kernel.goal_place != 0


def goal_gradient(action: np.ndarray, goal: Ends, place: int) -> np.ndarray:
    """Return the gradient of the goal rows: that of the actions they replace, whose own gradient is set to 0."""
    found = summed(action[:, place], goal)
    action[:, place] = 0
    return found


def summed(rows: np.ndarray, ends: Ends) -> np.ndarray:
    """Return new gradients: those of `rows` `[B, dof]`, summed in float64 over the trajectories that share one."""
    index, gradients = None if ends.index is None else torch.from_numpy(ends.index), torch.from_numpy(rows)
    return collect_rows(gradients.double(), index, ends.count, gradients).numpy()


# Devices


class OutOfDeviceMemory(RuntimeError):
    """A batch does not fit on the device, or its results do not fit on the host; the engine remains usable."""


def resolve_device(name: str) -> torch.device:
    """Return the device that `name` ("auto", "cpu", "cuda", "cuda:N") means here.

    Raises:
        ValueError: an unknown name, or a device that does not exist.

    """
    if name == "auto":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device: got {name!r}, but torch {torch.__version__} sees {count} CUDA devices")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else torch.device("cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an allocation failed: torch has an error type for devices only; on the host, the text decides."""
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return any(text in str(error) for text in _HOST_IS_FULL)
