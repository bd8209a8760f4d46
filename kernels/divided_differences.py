"""Velocity, acceleration and jerk of motions given as positions at arbitrary times."""

from __future__ import annotations

import torch
from torch import Tensor

from .arguments import promoted, values_hidden
from .types import Trajectory
from .validation import check_tensor


def differentiate_positions(
    position: Tensor, time: Tensor, start_velocity: Tensor | None = None, start_acceleration: Tensor | None = None
) -> Trajectory:
    """Differentiate trajectories on non-uniform times by divided differences that look back from each point.

    Unlike the recursive form of `clique_step` (which divides every difference by its last step, and so is consistent
    only while dt changes slowly), each difference is divided by the distance between the midpoints it belongs to:
    a quadratic motion's acceleration is exact from row 1 on, for any times. Differentiable in every argument.

    Args:
        position: `[N, D]`, or `[B, N, D]` and any further dimensions before them, rad. Row 0 is the start.
        time: `[N]`, or one list for each trajectory, `[B, N]`, s, strictly increasing. Not checked while torch traces
            or transforms the function, which hides the values.
        start_velocity: `[D]`, or `[B, D]`, rad/s; None means at rest.
        start_acceleration: like `start_velocity`, rad/s^2; None means 0.

    Returns:
        Trajectory in the shape and dtype of position, computed in float32 at least; row 0 is the start state with
        jerk 0.

    Raises:
        TypeError: an argument that is not a floating-point tensor, named.
        ValueError: shapes that do not fit, or times that do not increase.

    """
    position = promoted((position, time, start_velocity, start_acceleration))[0]
    check_tensor("position", position)
    if position.dim() < 2 or position.shape[-2] < 1:
        raise ValueError(f"position: expected shape [..., N >= 1, D], got {list(position.shape)}")
    wide = position if position.dtype in (torch.float64, torch.float32) else position.float()
    moment = _times(time, position)
    v0 = _start_row("start_velocity", start_velocity, wide)
    a0 = _start_row("start_acceleration", start_acceleration, wide)
    step = moment.diff(dim=-1).unsqueeze(-1).to(wide.dtype)
    # The points before the start are assumed to lie on its constant-acceleration arc, spaced by the first step.
    before = step[..., :1, :]
    last = torch.cat([before, step[..., :-1, :]], -2)
    last_but_one = torch.cat([before, last[..., :-1, :]], -2)
    to_midpoint = (last + step) / 2
    to_second = (last_but_one + last + step) / 3
    velocity = wide.diff(dim=-2) / step
    ghost = v0 - before.sum(-2, keepdim=True) * a0 / 2
    acceleration = torch.cat([ghost, velocity], -2).diff(dim=-2) / to_midpoint
    jerk = torch.cat([a0, acceleration], -2).diff(dim=-2) / to_second
    outputs = (
        wide,
        torch.cat([v0, velocity], -2),
        torch.cat([a0, acceleration], -2),
        torch.cat([torch.zeros_like(v0), jerk], -2),
    )
    return Trajectory(*(output.to(position.dtype) for output in outputs))


def _times(time: Tensor, position: Tensor) -> Tensor:
    """Return the times as they are, after checking that they fit the positions and increase."""
    if not isinstance(time, Tensor) or time.dtype.is_complex or time.dtype is torch.bool:
        got = time.dtype if isinstance(time, Tensor) else type(time).__name__
        raise TypeError(f"time: expected a tensor of real numbers, got {got}")
    *batch, rows, _ = position.shape
    if list(time.shape) != [rows] and list(time.shape) != [*batch, rows]:
        own = f" or {[*batch, rows]}" if batch else ""
        raise ValueError(f"time: expected shape [{rows}]{own}, one for each row of position, got {list(time.shape)}")
    if not values_hidden() and not bool((time.diff(dim=-1) > 0).all()):
        *place, row = (time.diff(dim=-1) > 0).logical_not().nonzero()[0].tolist()
        before, after = time[tuple(place)][row : row + 2]
        of = f" of trajectory {place}" if place else ""
        raise ValueError(f"time: expected strictly increasing values, got {before} then {after} at row {row + 1}{of}")
    return time


def _start_row(name: str, value: Tensor | None, position: Tensor) -> Tensor:
    """`[..., 1, D]` in the dtype of position; zeros for None."""
    *batch, _, dof = position.shape
    shape = [*batch, dof]
    if value is None:
        return position.new_zeros(shape).unsqueeze(-2)
    if list(value.shape) != [dof] and list(value.shape) != shape:
        own = f" or {shape}" if batch else ""
        raise ValueError(f"{name}: expected shape [{dof}]{own}, one value for each joint, got {list(value.shape)}")
    return value.to(position).expand(shape).unsqueeze(-2)
