"""Inputs and results of a call, each in one block of memory, so that one copy moves all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers
from .types import Array

# Dtypes of the inputs that do not have the engine's dtype.
_DTYPES = {"start_index": torch.int64, "goal_index": torch.int64, "dt": torch.float64}
_ALIGNMENT = 64


class PackedInputs:
    """Named inputs, one after the other, on the host (pinned) and on the device; on the CPU both are the same.

    Args:
        values: inputs with the shapes and dtypes of all that follow; None for absent ones.
        buffers: where the memory comes from.
        device: the kernels'.
        dtype: the engine's.

    """

    def __init__(
        self, values: Mapping[str, Array | None], buffers: Buffers, device: torch.device, dtype: torch.dtype
    ) -> None:
        places: dict[str, tuple[int, tuple[int, ...], torch.dtype]] = {}
        size = 0
        for name, value in values.items():
            if value is not None:
                shape, kind = tuple(value.shape), _DTYPES.get(name, dtype)
                places[name] = (size, shape, kind)
                size += -(-math.prod(shape) * kind.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._on_device = buffers.view("input", "inputs", (size,), torch.uint8)
        on_host = device.type == "cpu"
        self._on_host = self._on_device if on_host else buffers.view("output", "inputs", (size,), torch.uint8)
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
        if self._on_host is not self._on_device:
            self._on_device.copy_(self._on_host, non_blocking=True)


class PackedResults:
    """Device memory for results that go to `hosts`: `hosts` themselves, if the device can write to them.

    Args:
        hosts: memory for the results, in the engine's dtype; one copy serves those that are adjacent.
        buffers: where the device's memory comes from.
        device: the kernels'.

    """

    def __init__(self, hosts: Sequence[Tensor], buffers: Buffers, device: torch.device) -> None:
        self._hosts = hosts
        self._packed: tuple[Tensor, Tensor] | None = None
        if device.type == "cpu" and all(host.is_contiguous() for host in hosts):
            self.device = list(hosts)
            return
        size = sum(host.numel() for host in hosts)
        flat = buffers.view("input", "results", (size,))
        pieces = flat.split([host.numel() for host in hosts])
        self.device = [piece.view(host.shape) for piece, host in zip(pieces, hosts, strict=True)]
        if _in_one_piece(hosts):
            self._packed = flat, torch.as_strided(hosts[0], (size,), (1,))

    def download(self) -> None:
        """Start the copy to the host."""
        if self._packed is not None:
            flat, host = self._packed
            host.copy_(flat, non_blocking=True)
            return
        for result, host in zip(self.device, self._hosts, strict=True):
            if result is host:
                continue
            if host.is_contiguous():
                host.copy_(result, non_blocking=True)
                continue
            for part, target in zip(result, host, strict=True):  # some of the trajectories of each output
                target.copy_(part, non_blocking=True)


def _view(memory: Tensor, place: tuple[int, tuple[int, ...], torch.dtype] | None) -> Tensor | None:
    if place is None:
        return None
    offset, shape, dtype = place
    return memory[offset : offset + math.prod(shape) * dtype.itemsize].view(dtype).view(shape)


def _in_one_piece(tensors: Sequence[Tensor]) -> bool:
    address = tensors[0].data_ptr()
    for tensor in tensors:
        if not tensor.is_contiguous() or tensor.data_ptr() != address:
            return False
        address += tensor.nbytes
    return True
