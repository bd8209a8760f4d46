"""Triton's interpreter with the rules of a device: what a device would not forgive is a `Fault`.

An access lies in a tensor of the launch, at a multiple of its size. No program reads what another one wrote, and no two
threads write different values to one place. New memory is NaN, and fused products and sums are rounded once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from triton.runtime.interpreter import InterpreterBuilder, TensorHandle

ROOM = "traj_integrator_ros.kernels.triton"
MOST_TRACKED = 2**24
"""Elements of the largest tensor of which is kept who wrote them."""
NOBODY = -1


class Fault(Exception):
    """An access that a device would not forgive."""


class _Memory:
    """The tensors of a launch."""

    def __init__(self, tensors: list[Tensor]) -> None:
        self._tensors = sorted((one for one in tensors if one.numel()), key=Tensor.data_ptr)
        if not all(one.is_contiguous() for one in self._tensors):
            raise Fault("a tensor is not contiguous")
        self._begins = np.array([one.data_ptr() for one in self._tensors], np.int64)
        sizes = [one.numel() if one.numel() <= MOST_TRACKED else 0 for one in self._tensors]
        self._writers = [np.full(size, NOBODY) for size in sizes]

    def read(self, addresses: np.ndarray, size: int, program: int) -> None:
        """Check what a program reads."""
        for writers, places in self._accessed(addresses, size):
            if (~np.isin(writers[places], (NOBODY, program))).any():
                raise Fault("reads what another program wrote")

    def write(self, addresses: np.ndarray, values: np.ndarray, program: int) -> None:
        """Check what a program writes."""
        order = np.argsort(addresses, kind="stable")
        bits = values.view(f"u{values.itemsize}")[order]
        if ((bits[1:] != bits[:-1]) & (np.diff(addresses[order]) == 0)).any():
            raise Fault("writes different values to one place")
        for writers, places in self._accessed(addresses, values.itemsize):
            if (~np.isin(writers[places], (NOBODY, program))).any():
                raise Fault("writes where another program wrote")
            writers[places] = program

    def _accessed(self, addresses: np.ndarray, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Who wrote to each tensor, and its elements that are accessed."""
        which = np.searchsorted(self._begins, addresses, "right") - 1
        for one in np.unique(which):
            offset = addresses[which == one] - self._begins[max(one, 0)]
            if one < 0 or (offset + size > self._tensors[one].nbytes).any():
                raise Fault(f"takes {size} bytes outside of every tensor")
            if (offset % size).any():
                raise Fault(f"takes {size} bytes from an address that is no multiple of {size}")
            if len(self._writers[one]):
                yield self._writers[one], offset // self._tensors[one].element_size()


@contextmanager
def guarded(size: int = 1024, groups: Callable[[int], Sequence[int]] = range, *, nan: bool = True) -> Iterator[None]:
    """Interpret what launchers launch.

    Args:
        size: elements of a program; few, so that a trajectory has several chunks.
        groups: which programs run along the first axis of a launch, from their number.
        nan: whether new memory is NaN.

    """
    load, store = InterpreterBuilder.create_masked_load, InterpreterBuilder.create_masked_store
    memory, chosen = _Memory([]), range(0)

    def launch(kernel: object, programs: tuple[int, ...], arguments: dict[str, object], warps: int) -> None:
        nonlocal memory, chosen
        memory, chosen = _Memory([one for one in arguments.values() if isinstance(one, Tensor)]), groups(programs[0])
        kernel[(len(chosen), *programs[1:])](**arguments)

    def place(self: InterpreterBuilder, x: int, y: int, z: int) -> None:
        self.grid_idx = (chosen[x], y, z)

    def program(self: InterpreterBuilder) -> int:
        return self.grid_idx[0] * self.grid_dim[1] + self.grid_idx[1]

    def loaded(self: InterpreterBuilder, pointers: TensorHandle, mask: TensorHandle, *options: object) -> TensorHandle:
        addresses = pointers.data[mask.data.astype(bool)].astype(np.int64)
        memory.read(addresses, pointers.get_element_ty().primitive_bitwidth // 8, program(self))
        return load(self, pointers, mask, *options)

    def stored(
        self: InterpreterBuilder, pointers: TensorHandle, value: TensorHandle, mask: TensorHandle, *options: object
    ) -> None:
        addresses = pointers.data[mask.data.astype(bool)].astype(np.int64)
        memory.write(addresses, np.broadcast_to(value.data, mask.data.shape)[mask.data.astype(bool)], program(self))
        store(self, pointers, value, mask, *options)

    def fused(self: InterpreterBuilder, x: TensorHandle, y: TensorHandle, z: TensorHandle) -> TensorHandle:
        exact = x.data.astype(np.float64) * y.data + z.data
        return TensorHandle(exact.astype(x.data.dtype), x.dtype.scalar)

    parts = {"set_grid_idx": place, "create_masked_load": loaded, "create_masked_store": stored, "create_fma": fused}
    torch.use_deterministic_algorithms(nan)
    try:
        with mock.patch.multiple(InterpreterBuilder, **parts):
            with mock.patch.multiple(f"{ROOM}.launch", launch=launch, program_size=lambda device: size):
                yield
    finally:
        torch.use_deterministic_algorithms(False)
