"""The gradient of the step lengths: needs the actions, and allocates memory in each call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap, dt_derivatives
from ..kernels.types import End
from .packing import Pack
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


def vjp_dt(work: DtWork, pack: Pack, sizes: PartSizes) -> Tensor:
    """Return the gradient of dt, float64, `[1 or B, 1 or Ha]`, on the CPU; in parts if the whole does not fit."""
    total = torch.zeros(work.dt.shape, dtype=torch.float64)

    def part(begin: int, end: int) -> None:
        start = part_of_rows(work.start, work.start_index, begin, end)
        goal = part_of_rows(work.goal, work.goal_index, begin, end)
        given = pack(
            {
                **{f"grad_{i}": _some(gradient, begin, end) for i, gradient in enumerate(work.upstream)},
                "actions": work.actions[begin:end],
                **{f"start_{i}": rows for i, rows in enumerate(start)},
                **{f"goal_{i}": rows for i, rows in enumerate(goal)},
                "start_index": _some(work.start_index, begin, end),
                "goal_index": _some(work.goal_index, begin, end),
                "dt": part_of_dt(work.dt, begin, end),
            }
        )
        gradient = _differentiate(
            work.kernel,
            [given[f"grad_{i}"] for i in range(len(work.upstream))],
            given["actions"],
            [
                End([given[f"start_{i}"] for i in range(len(start))], given["start_index"]),
                End([given[f"goal_{i}"] for i in range(len(goal))], given["goal_index"]),
            ],
            given["dt"],
        )
        part_of_total = total if total.shape[0] == 1 else total[begin:end]
        part_of_total += gradient.cpu()

    sizes.run(("dt", work.kernel.name, work.actions.shape[1]), work.actions.shape[0], part)
    return total


def _some(value: Array | None, begin: int, end: int) -> Array | None:
    return None if value is None else value[begin:end]


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
