"""Memory that compiled kernels see: addresses of tensors, and what is wrong to do with them.

An address must lie in a tensor, as must the whole access, and be a multiple of its size. Two threads never write
different values to one place, and none reads what another warp wrote, or writes what another warp reads, unless a
barrier of its program lies between.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

FIRST, GAP = 0x7F00_0000_0000, 1 << 20
WARP, SEVERAL = 32, -2
UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}


class Fault(Exception):
    """A kernel does what a device does not allow, or what no order of its threads makes right."""


class Lanes(NamedTuple):
    """The threads that execute an instruction, and where they belong."""

    index: np.ndarray
    program: np.ndarray
    warp: np.ndarray
    epoch: np.ndarray
    """Number of barriers that each one's program has passed."""
    threads: int
    """Of a program."""

    def of(self, which: np.ndarray) -> Lanes:
        """Some of them."""
        return Lanes(*(one[which] for one in self[:4]), self.threads)


class Cells:
    """Numbers in memory, with who wrote and who read them.

    Args:
        data: their bytes.
        size: of a number, bytes.
        is_shared: of the threads of a program, which read what others wrote.

    """

    def __init__(self, data: np.ndarray, size: int, *, is_shared: bool = False) -> None:
        self._numbers, self._size, self._is_shared = data.view(UNSIGNED[size]), size, is_shared
        count = len(self._numbers)
        self._writer, self._written = np.full(count, -1, np.int64), np.zeros(count, np.int64)
        self._reader, self._read = np.full(count, -1, np.int64), np.full(count, -1, np.int64)

    def load(self, first: np.ndarray, size: int, lanes: Lanes) -> np.ndarray:
        """Bits of accesses that begin at these bytes."""
        at, writer = self._places(first, size)
        if (self._unsettled(at, writer, lanes) & (writer // WARP != lanes.warp[:, None])).any():
            raise Fault("reads without a barrier what another warp wrote")
        if self._is_shared:
            if (writer < 0).any():
                raise Fault("reads shared memory that nothing has written")
            again = (self._read[at] == lanes.epoch[:, None]) & (self._reader[at] != lanes.warp[:, None])
            self._reader[at] = np.where(again, SEVERAL, lanes.warp[:, None])
            self._reader[at] = np.where(self._reader[at] == lanes.warp[:, None], lanes.warp[:, None], SEVERAL)
            self._read[at] = lanes.epoch[:, None]
        return np.ascontiguousarray(self._numbers[at]).view(UNSIGNED[size])[:, 0]

    def store(self, first: np.ndarray, bits: np.ndarray, lanes: Lanes) -> None:
        """Write bits to these bytes on."""
        at, writer = self._places(first, bits.dtype.itemsize)
        parts = bits[:, None].view(self._numbers.dtype)
        differs = self._numbers[at] != parts
        if (self._unsettled(at, writer, lanes) & (writer != lanes.index[:, None]) & differs).any():
            raise Fault("writes another value where another thread has written")
        read = self._read[at] == lanes.epoch[:, None]
        if self._is_shared and (read & (self._reader[at] != lanes.warp[:, None])).any():
            raise Fault("writes without a barrier what another warp reads")
        self._numbers[at] = parts
        if (self._numbers[at] != parts).any():
            raise Fault("writes different values to one place")
        self._writer[at], self._written[at] = lanes.index[:, None], lanes.epoch[:, None]

    def _places(self, first: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of accesses, and who wrote them last."""
        if size % self._size:
            raise Fault(f"takes {size} bytes of numbers of {self._size}")
        at = (first // self._size)[:, None] + np.arange(size // self._size)
        return at, self._writer[at]

    def _unsettled(self, at: np.ndarray, writer: np.ndarray, lanes: Lanes) -> np.ndarray:
        """Whether somebody wrote, and no barrier of the same program lies between."""
        settled = (writer // lanes.threads == lanes.program[:, None]) & (self._written[at] < lanes.epoch[:, None])
        return (writer >= 0) & ~settled


class Simulated:
    """A tensor of which only the range of addresses exists: its numbers follow from their index, and stores are kept.

    Args:
        value: numbers from their indices, as bits.

    """

    def __init__(self, value: Callable[[np.ndarray], np.ndarray]) -> None:
        self.value, self.stored = value, []

    def load(self, first: np.ndarray, size: int, lanes: Lanes) -> np.ndarray:
        return self.value(first // size)

    def store(self, first: np.ndarray, bits: np.ndarray, lanes: Lanes) -> None:
        self.stored.append((first // bits.dtype.itemsize, bits.copy()))


class Memory:
    """The tensors of a launch at addresses of a device, each aligned to the size of its numbers and not to more.

    Args:
        tensors: that kernels may access; all others have no address.
        simulated: in place of tensors without memory, by their name.

    """

    def __init__(self, tensors: dict[str, Tensor], simulated: dict[str, Simulated]) -> None:
        self.address: dict[str, int] = {}
        self._begins, self._ends, self._cells = [], [], []
        address, seen = FIRST, {}
        for name, tensor in tensors.items():
            if tensor.numel() and not tensor.is_contiguous():
                raise Fault(f"{name}: expected a contiguous tensor")
            same = id(tensor) if name in simulated else (tensor.data_ptr(), tensor.numel(), tensor.dtype)
            if tensor.numel() and same in seen:
                self.address[name] = seen[same]
                continue
            address += GAP - address % GAP + tensor.element_size()
            self.address[name] = seen[same] = address
            if tensor.numel():
                self._begins.append(address)
                address += tensor.numel() * tensor.element_size()
                self._ends.append(address)
                size = tensor.element_size()
                self._cells.append(simulated[name] if name in simulated else Cells(_bytes_of(tensor), size))
        self._begins, self._ends = np.array(self._begins, np.int64), np.array(self._ends, np.int64)

    def load(self, address: np.ndarray, size: int, lanes: Lanes) -> np.ndarray:
        """Bits at addresses."""
        tensor, offset = self._places(address, size)
        bits = np.zeros(len(address), UNSIGNED[size])
        for one in np.unique(tensor):
            here = tensor == one
            bits[here] = self._cells[one].load(offset[here], size, lanes.of(here))
        return bits

    def store(self, address: np.ndarray, bits: np.ndarray, lanes: Lanes) -> None:
        """Write bits to addresses."""
        tensor, offset = self._places(address, bits.dtype.itemsize)
        for one in np.unique(tensor):
            here = tensor == one
            self._cells[one].store(offset[here], bits[here], lanes.of(here))

    def _places(self, address: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
        address = address.astype(np.int64)
        tensor = np.searchsorted(self._begins, address, "right") - 1
        offset = address - self._begins[np.maximum(tensor, 0)]
        outside = (tensor < 0) | (address + size > self._ends[np.maximum(tensor, 0)])
        if outside.any():
            raise Fault(f"takes {size} bytes outside of every tensor, {int(offset[outside][0])} after the begin of one")
        if (address % size).any():
            raise Fault(f"takes {size} bytes from an address that is no multiple of {size}")
        return tensor, offset


def _bytes_of(tensor: Tensor) -> np.ndarray:
    return tensor.detach().as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()
