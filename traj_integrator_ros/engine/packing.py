"""Inputs and results of a call, each in one block of memory, so that one copy moves all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers, fitting
from .types import Array

# Dtypes of the inputs that do not have the engine's dtype.
_DTYPES = {"start_index": torch.int64, "goal_index": torch.int64, "dt": torch.float64}
_ALIGNMENT = 64

Places = dict[str, tuple[int, tuple[int, ...], torch.dtype]]
"""First byte, shape and dtype of each input that is there."""


class PackedInputs:
    """Named inputs, one after the other, on the host (pinned) and on the device.

    Args:
        values: inputs with the shapes and dtypes of all that follow; None for absent ones.
        buffers: where the memory comes from, in the engine's dtype.

    """

    def __init__(self, values: Mapping[str, Array | None], buffers: Buffers) -> None:
        places, size = _places(values, buffers.dtype)
        self._on_host = buffers.view("output", "inputs", (size,), torch.uint8)
        self._on_device = buffers.view("input", "inputs", (size,), torch.uint8)
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
        hosts: memory for the results, in the engine's dtype; one copy serves those that are adjacent.
        buffers: where the device's memory comes from.

    """

    def __init__(self, hosts: Sequence[Tensor], buffers: Buffers) -> None:
        self._copied: list[tuple[Tensor, Tensor]] = []
        size = sum(host.numel() for host in hosts)
        flat = buffers.view("input", "results", (size,))
        pieces = flat.split([host.numel() for host in hosts])
        self.device = [piece.view(host.shape) for piece, host in zip(pieces, hosts, strict=True)]
        if _in_one_piece(hosts):
            self._copied = [(flat, torch.as_strided(hosts[0], (size,), (1,)))]
            return
        for result, host in zip(self.device, hosts, strict=True):
            # Of some of the trajectories of each output, the outputs lie apart.
            self._copied += [(result, host)] if host.is_contiguous() else zip(result, host, strict=True)

    def download(self) -> None:
        """Start the copies to the host."""
        for result, host in self._copied:
            host.copy_(result, non_blocking=True)


def to_device(values: Mapping[str, Array | None], buffers: Buffers, device: torch.device) -> dict[str, Tensor | None]:
    """Return inputs as tensors on a device, in the memory of `buffers`: valid until it is called again."""
    if device.type == "cpu":
        kinds = {name: _DTYPES.get(name, buffers.dtype) for name in values}
        return {
            name: None if value is None else fitting(buffers, name, value, kinds[name])
            for name, value in values.items()
        }
    inputs = PackedInputs(values, buffers)
    inputs.fill(values)
    inputs.upload()
    return inputs.device


def packed_size(values: Mapping[str, Array | None], dtype: torch.dtype) -> int:
    """Bytes of inputs that are packed; `dtype` is the engine's."""
    return _places(values, dtype)[1]


def _places(values: Mapping[str, Array | None], dtype: torch.dtype) -> tuple[Places, int]:
    places: Places = {}
    size = 0
    for name, value in values.items():
        if value is not None:
            shape, kind = tuple(value.shape), _DTYPES.get(name, dtype)
            places[name] = (size, shape, kind)
            size += -(-math.prod(shape) * kind.itemsize // _ALIGNMENT) * _ALIGNMENT
    return places, size


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
