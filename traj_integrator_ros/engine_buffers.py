"""Named buffers that the engine reuses from call to call."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor


class Buffers:
    """Flat storage by name, grown to the largest size seen and viewed in the shape of each call.

    Inputs lie on the device in the engine's dtype; outputs lie on the host, in pinned memory where the device is CUDA.
    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device = device
        self._dtype = dtype
        self._storage: dict[tuple[str, str], Tensor] = {}

    def device_input(self, name: str, value: np.ndarray | Tensor, dtype: torch.dtype | None = None) -> Tensor:
        """Copy `value` into its device buffer, converting to the engine's dtype (or `dtype`)."""
        if isinstance(value, np.ndarray) and not value.flags.writeable:
            value = value.copy()  # torch has no read-only tensors
        source = torch.as_tensor(value)
        target = self._view("input", name, source.shape, dtype or self._dtype)
        return target.copy_(source, non_blocking=self._device.type == "cuda" and source.is_pinned())

    def device_zeros(self, name: str, shape: tuple[int, ...]) -> Tensor:
        """Return the device buffer of `name` filled with 0."""
        return self._view("input", name, shape, self._dtype).zero_()

    def host_outputs(self, names: Iterable[str], values: Iterable[Tensor]) -> list[Tensor]:
        """Copy device tensors into host buffers and wait until they have arrived."""
        outputs = [
            self._view("output", name, value.shape, value.dtype).copy_(value.detach(), non_blocking=True)
            for name, value in zip(names, values, strict=True)
        ]
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        return outputs

    def clear(self) -> None:
        """Free every buffer, and return cached device memory to the device."""
        self._storage.clear()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def _view(self, side: str, name: str, shape: Iterable[int], dtype: torch.dtype) -> Tensor:
        shape = tuple(shape)
        size = math.prod(shape)
        held = self._storage.get((side, name))
        if held is None or held.dtype != dtype or held.numel() < size:
            self._storage[side, name] = held = self._allocate(side, size, dtype)
        return held[:size].view(shape)

    def _allocate(self, side: str, size: int, dtype: torch.dtype) -> Tensor:
        if side == "input":
            return torch.empty(size, dtype=dtype, device=self._device)
        return torch.empty(size, dtype=dtype, pin_memory=self._device.type == "cuda")
