"""Batches that do not fit on the device: done in parts, each half as large as the one that failed."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from .types import OutOfDeviceMemory, is_out_of_memory
from .work import Executor, ForwardWork, VjpWork

Free = Callable[[], None]


class PartSizes:
    """How many trajectories of a kind fit, learned by failing, and the loop that goes by it.

    Args:
        device: its name, for the error.
        free: lets go of all memory on the device.

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


def forward(work: ForwardWork, executor: Executor, sizes: PartSizes) -> None:
    """Integrate, in parts where the whole does not fit."""
    kind = ("forward", work.kernel.name, work.out.shape[2])

    def part(begin: int, end: int) -> None:
        executor.forward(work if end - begin == work.batch else work.part(begin, end))

    sizes.run(kind, work.batch, part)


def vjp(work: VjpWork, executor: Executor, sizes: PartSizes) -> None:
    """Pull back, in parts where the whole does not fit; the gradients of shared start rows are summed in float64."""
    kind = ("vjp", work.kernel.name, work.action.shape[1])
    totals: list[Tensor] = []
    sums: tuple[Tensor, ...] | None = None

    def part(begin: int, end: int) -> None:
        nonlocal sums
        if end - begin == work.batch:
            return executor.vjp(work)
        if work.sums_rows and sums is None:
            sums = tuple(torch.empty_like(rows) for rows in work.start)
            totals.extend(torch.zeros_like(rows, dtype=torch.float64) for rows in work.start)
        executor.vjp(work.part(begin, end, sums))
        for total, rows in zip(totals, sums or (), strict=True):
            total += rows

    sizes.run(kind, work.batch, part)
    for rows, total in zip(work.start, totals, strict=False):
        rows.copy_(total)
