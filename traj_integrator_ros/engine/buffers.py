"""Named memory that the engine reuses from call to call."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Tensor

from .types import Array, GradientArrays

# Number of views that are kept, so that a call of a known shape creates none.
_MOST_VIEWS = 256

Made = TypeVar("Made")


class Buffers:
    """Flat storage by side and name, grown to the largest size seen and viewed in the shape of each call.

    The side "input" is on the device; "output" is on the host, in pinned memory if the device is CUDA.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self.dtype = dtype
        self._storage: dict[tuple[str, str], Tensor] = {}
        self._views: dict[tuple[object, ...], object] = {}

    def view(self, side: str, name: str, shape: tuple[int, ...], dtype: torch.dtype | None = None) -> Tensor:
        """Return the memory of `name` as a contiguous tensor of `shape`, in the engine's dtype or `dtype`.

        Raises:
            RuntimeError: there is no memory left; see `is_out_of_memory`.

        """
        return self.cached(side, name, shape, math.prod(shape), lambda flat: flat.view(shape), dtype or self.dtype)

    def cached(
        self,
        side: str,
        name: str,
        shape: tuple[int, ...],
        size: int,
        make: Callable[[Tensor], Made],
        dtype: torch.dtype | None = None,
    ) -> Made:
        """Return what `make` creates from `size` elements of `name`; it is called once for each `shape`.

        Raises:
            RuntimeError: there is no memory left; see `is_out_of_memory`.

        """
        dtype = dtype or self.dtype
        key = (side, name, shape, dtype)
        known = self._views.get(key)
        if known is not None:
            return known
        held = self._storage.get((side, name))
        if held is None or held.dtype != dtype or held.numel() < size:
            del held  # free the old memory before the new memory is allocated
            self._views.clear()
            self._storage.pop((side, name), None)
            self._storage[side, name] = held = self._allocate(side, size, dtype)
        if len(self._views) >= _MOST_VIEWS:
            self._views.clear()
        self._views[key] = result = make(held[:size])
        return result

    def clear(self) -> None:
        """Let go of all memory."""
        self._views.clear()
        self._storage.clear()

    def _allocate(self, side: str, size: int, dtype: torch.dtype) -> Tensor:
        if side == "input":
            return torch.empty(size, dtype=dtype, device=self._device)
        return torch.empty(size, dtype=dtype, pin_memory=self._device.type == "cuda")


def fitting(buffers: Buffers, name: str, value: Array, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array into the memory of a name, in its dtype or `dtype`; a tensor on the CPU that fits stays itself."""
    dtype = dtype or buffers.dtype
    if isinstance(value, np.ndarray):
        target = buffers.view("input", name, value.shape, dtype)
        np.copyto(target.numpy(), value, casting="same_kind")
        return target
    if value.dtype == dtype and value.is_contiguous() and value.device.type == "cpu":
        return value.detach()
    return buffers.view("input", name, tuple(value.shape), dtype).copy_(value.detach())


class Results(NamedTuple):
    """Host memory for the results of a call, as tensors for the runners and as arrays for the caller."""

    tensors: tuple[Tensor, ...]
    """As `Call.results` has them."""
    arrays: np.ndarray | GradientArrays


def trajectory_memory(shape: tuple[int, ...], flat: Tensor) -> Results:
    """View flat memory as trajectories `[4, B, H, dof]`."""
    tensor = flat.view(shape)
    return Results((tensor,), tensor.numpy())


def gradient_memory(shape: tuple[int, ...], flat: Tensor) -> Results:
    """View flat memory as gradients; `shape` is that of `gradient_size`."""
    rows, batch, horizon, dof, goal_rows, goals = shape
    parts = flat.split([batch * horizon * dof, *[rows * dof] * 3, *[goal_rows * dof] * goals])
    views = (parts[0].view(batch, horizon, dof), *(part.view(-1, dof) for part in parts[1:]))
    arrays = [view.numpy() for view in views]
    return Results(views, GradientArrays(*arrays[:4], None, flat.numpy(), *arrays[4:]))


def gradient_size(shape: tuple[int, ...]) -> int:
    """Size of all gradients except that of dt: `shape` is start rows, B, Ha, dof, goal rows, and kinds of goal row."""
    rows, batch, horizon, dof, goal_rows, goals = shape
    return (batch * horizon + 3 * rows + goals * goal_rows) * dof
