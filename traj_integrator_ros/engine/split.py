"""Batches that do not fit on the device: computed in parts, each half as large as the one that failed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .types import OutOfDeviceMemory, is_out_of_memory
from .work import ForwardWork, Runner, VjpWork

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


def forward(work: ForwardWork, runner: Runner, sizes: PartSizes) -> None:
    """Integrate, in parts if the whole does not fit."""
    kind = ("forward", work.kernel.name, work.out.shape[2])

    def part(begin: int, end: int) -> None:
        runner.forward(work if end - begin == work.batch else work.part(begin, end))

    sizes.run(kind, work.batch, part)


def vjp(work: VjpWork, runner: Runner, sizes: PartSizes) -> None:
    """Compute the vjp, in parts if the whole does not fit; gradients of shared start rows are summed in float64."""
    kind = ("vjp", work.kernel.name, work.action.shape[1])
    start, goal = _Sums(work.start, work.sums_rows), _Sums(work.goal, work.sums_goals)

    def part(begin: int, end: int) -> None:
        if end - begin == work.batch:
            return runner.vjp(work)
        runner.vjp(work.part(begin, end, start.of_part(), goal.of_part()))
        start.add()
        goal.add()

    sizes.run(kind, work.batch, part)
    start.finish()
    goal.finish()


class _Sums:
    """Gradients of rows that several parts share, summed in float64; empty if no rows are shared."""

    def __init__(self, rows: tuple[Tensor, ...], are_shared: bool) -> None:
        self._rows = rows if are_shared else ()
        self._are_shared = are_shared
        self._part: tuple[Tensor, ...] = ()
        self._totals: list[Tensor] = []

    def of_part(self) -> tuple[Tensor, ...] | None:
        """Memory for the sums of one part; None if each part has rows of its own."""
        if not self._are_shared:
            return None
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
