"""Velocity, acceleration and jerk of a motion given as positions at arbitrary times."""

from __future__ import annotations

import torch
from torch import Tensor

from .types import Trajectory


def differentiate_positions(
    position: Tensor,
    time: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
) -> Trajectory:
    """Differentiate one trajectory on non-uniform times by divided differences that look back from each point.

    Unlike the recursive form of `clique_step` (which divides every difference by its last step, and so is consistent
    only while dt changes slowly), each difference is divided by the distance between the midpoints it belongs to:
    a quadratic motion's acceleration is exact from row 1 on, for any times.

    Args:
        position: `[N, D]`, rad. Row 0 is the start.
        time: `[N]`, s, strictly increasing.
        start_velocity: `[D]`, rad/s; None means at rest.
        start_acceleration: `[D]`, rad/s^2; None means 0.

    Returns:
        Trajectory of `[N, D]`; row 0 is the start state with jerk 0.

    Raises:
        ValueError: shapes that do not fit, or times that do not increase.

    """
    if position.dim() != 2 or position.shape[0] < 1:
        raise ValueError(f"position: expected shape [N >= 1, D], got {list(position.shape)}")
    rows = position.shape[0]
    if tuple(time.shape) != (rows,):
        raise ValueError(f"time: expected shape [{rows}], one for each row of position, got {list(time.shape)}")
    v0 = _start_row("start_velocity", start_velocity, position)
    a0 = _start_row("start_acceleration", start_acceleration, position)
    step = time.diff()[:, None].to(position.dtype)
    if not bool((step > 0).all()):
        row = int((step[:, 0] > 0).logical_not().nonzero()[0]) + 1
        raise ValueError(
            f"time: expected strictly increasing values, got {time[row - 1]} then {time[row]} at row {row}"
        )
    # The points before the start are assumed to lie on its constant-acceleration arc, spaced by the first step.
    before = step[:1]
    to_midpoint = (torch.cat([before, step[:-1]]) + step) / 2
    to_second = (torch.cat([before, before, step[:-2]])[: rows - 1] + torch.cat([before, step[:-1]]) + step) / 3
    velocity = position.diff(dim=0) / step
    acceleration = torch.cat([v0 - before.sum() * a0 / 2, velocity]).diff(dim=0) / to_midpoint
    jerk = torch.cat([a0, acceleration]).diff(dim=0) / to_second
    return Trajectory(
        position,
        torch.cat([v0, velocity]),
        torch.cat([a0, acceleration]),
        torch.cat([torch.zeros_like(v0), jerk]),
    )


def _start_row(name: str, value: Tensor | None, position: Tensor) -> Tensor:
    dof = position.shape[1]
    if value is None:
        return position.new_zeros(1, dof)
    if tuple(value.shape) != (dof,):
        raise ValueError(f"{name}: expected shape [{dof}], one value for each joint, got {list(value.shape)}")
    return value.to(position)[None]
