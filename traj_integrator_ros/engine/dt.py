"""The gradient of the step lengths: needs the actions, and allocates memory in each call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap, dt_derivatives
from ..kernels.types import End
from .split import PartSizes
from .types import Array
from .work import part_of_dt, part_of_rows


class DtWork(NamedTuple):
    """The inputs of the gradient of dt; shapes as in `work`."""

    kernel: ControlMap
    upstream: tuple[Array | None, ...]
    actions: Array
    start: tuple[Array | None, ...]
    start_index: np.ndarray | None
    dt: np.ndarray
    goal: tuple[Array | None, ...] = ()
    goal_index: np.ndarray | None = None


def vjp_dt(work: DtWork, device: torch.device, dtype: torch.dtype, sizes: PartSizes) -> Tensor:
    """Return the gradient of dt, float64, `[1 or B, 1 or Ha]`, on the CPU; in parts if the whole does not fit."""
    total = torch.zeros(work.dt.shape, dtype=torch.float64)
    batch = work.actions.shape[0]

    def real(value: Array | None, begin: int, end: int | None) -> Tensor | None:
        return None if value is None else _to_device(value[begin:end], device, dtype)

    def rows_of(rows: tuple[Array | None, ...], index: np.ndarray | None, begin: int, end: int) -> End:
        taken = [real(row, 0, None) for row in part_of_rows(rows, index, begin, end)]
        return End(taken, None if index is None else _to_device(index[begin:end], device, torch.int64))

    def part(begin: int, end: int) -> None:
        gradient = _differentiate(
            work.kernel,
            [real(value, begin, end) for value in work.upstream],
            real(work.actions, begin, end),
            [rows_of(work.start, work.start_index, begin, end), rows_of(work.goal, work.goal_index, begin, end)],
            _to_device(part_of_dt(work.dt, begin, end), device, torch.float64),
        )
        part_of_total = total if total.shape[0] == 1 else total[begin:end]
        part_of_total += gradient.cpu()

    sizes.run(("dt", work.kernel.name, work.actions.shape[1]), batch, part)
    return total


def _differentiate(
    kernel: ControlMap,
    upstream: list[Tensor | None],
    actions: Tensor,
    ends: list[End],
    dt: Tensor,
) -> Tensor:
    operator = kernel.operator
    wanted = (operator.starts, operator.goals)[: 2 if operator.goals else 1]
    filled = [
        end._replace(rows=[*end.rows, *[None] * (count - len(end.rows))])
        for end, count in zip(ends, wanted, strict=False)
    ]
    scheme = operator.scheme(kernel.scheme)
    with torch.no_grad():
        return dt_derivatives.vjp(operator.name, actions, filled, dt, upstream, scheme)


def _to_device(value: Array, device: torch.device, dtype: torch.dtype) -> Tensor:
    # Arrays are copied, because they may be read-only, and torch has no read-only tensors.
    source = torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value.detach()
    return source.to(device, dtype)
