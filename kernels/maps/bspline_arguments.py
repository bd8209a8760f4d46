"""The arguments of the spline functions that are not operators: checked, and converted to float64."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..reference_backend import start_rows
from ..validation import prepare_step
from .bspline import BSPLINE
from .goal import goal_or_rest


class SplineArguments(NamedTuple):
    """What `splines.composition` takes, in float64."""

    action: Tensor
    start: list[Tensor]
    goal: list[Tensor] | None
    dt: Tensor  # [1 or B, 1, 1]
    dtype: torch.dtype
    """That of the result: of the rows or control points, float32 where autocast widens them."""


def spline_arguments(
    rows: Tensor,
    start: Sequence[Tensor | None],
    goal: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    goal_index: Tensor | None,
    dt_per: str,
    goal_mask: Tensor | None = None,
    name: str = "control_points",
) -> SplineArguments:
    """Check the arguments as `bspline_step` does; `rows` are control points, or what `name` calls them in errors."""
    if goal_mask is not None:
        goal, goal_index = goal_or_rest(rows, goal, goal_index, goal_mask, name), None
    inputs = prepare_step(BSPLINE, rows, start, dt, start_index, dt_per, goal, goal_index, name)
    begin = start_rows(inputs.start, inputs.start_index, inputs.action)
    end = None if inputs.goal[0] is None else start_rows(inputs.goal, inputs.goal_index, inputs.action)
    return SplineArguments(inputs.action.double(), begin, end, inputs.dt.double()[..., None], inputs.action.dtype)
