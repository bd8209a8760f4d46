"""Batches that do not fit on the device: computed in parts, each half as large as the one that failed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .call import Call, Runner
from .types import OutOfDeviceMemory, is_out_of_memory

Free = Callable[[], None]


class PartSizes:
    """How many trajectories of a kind fit, learned from failures, and the loop over such parts.

    Args:
        device: its name, for the error.
        free: frees all memory on the device.

    """

    def __init__(self, device: str, free: Free) -> None:
        self._device = device
        self._free = free
        self._fitting: dict[object, int] = {}

    def run(self, kind: object, batch: int, part: Callable[[int, int], None]) -> None:
        """Call `part(begin, end)` until all of `batch` is done.

        Raises:
            OutOfDeviceMemory: not even one trajectory fits.

        """
        size = min(self._fitting.get(kind, batch), batch)
        begin = 0
        while begin < batch:
            end = min(begin + size, batch)
            try:
                part(begin, end)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                self._free()
                if end - begin == 1:
                    message = f"out of memory on {self._device}: {str(error).splitlines()[0]}"
                    raise OutOfDeviceMemory(message) from error
                size = self._fitting[kind] = (end - begin) // 2
                continue
            begin = end

    def forget(self) -> None:
        """Try whole batches again."""
        self._fitting.clear()


def run(call: Call, runner: Runner, sizes: PartSizes) -> None:
    """Compute a call, in parts if the whole does not fit; gradients of shared rows are summed in float64."""
    batch = call.shape[0]
    sums: list[_Sums] = []

    def part(begin: int, end: int) -> None:
        if end - begin == batch:
            return runner.run(call)
        if not sums:
            rows = () if call.upstream is None else call.results[1:]
            sums.append(_Sums(rows[:3], call.start.are_shared(batch)))
            sums.append(_Sums(rows[3:], call.goal.are_shared(batch)))
        runner.run(call.part(begin, end, tuple(of_end.of_part() for of_end in sums)))
        for of_end in sums:
            of_end.add()

    sizes.run(call.kind, batch, part)
    for of_end in sums:
        of_end.finish()


class _Sums:
    """Gradients of rows that several parts share, summed in float64; empty if no rows are shared."""

    def __init__(self, rows: tuple[Tensor, ...], are_shared: bool) -> None:
        self._rows = rows if are_shared else ()
        self._part: tuple[Tensor, ...] = ()
        self._totals: list[Tensor] = []

    def of_part(self) -> tuple[Tensor, ...]:
        """Memory for the sums of one part."""
        if not self._part:
            self._part = tuple(torch.empty_like(rows) for rows in self._rows)
            self._totals = [torch.zeros_like(rows, dtype=torch.float64) for rows in self._rows]
        return self._part

    def add(self) -> None:
        """Add the sums of one part."""
        for total, rows in zip(self._totals, self._part, strict=True):
            total += rows

    def finish(self) -> None:
        """Write the sums of all parts to the results, if there were several."""
        for rows, total in zip(self._rows, self._totals, strict=False):
            rows.copy_(total)
