"""Evaluates a B-spline trajectory at any times."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .. import reference
from ..splines.form import SplineForm
from ..splines.weights import ORDERS, POLYNOMIALS
from ..types import BsplineLayout, Inputs, Trajectory
from ..validation import check_device
from .bspline import spline_arguments


def evaluate_bspline(
    control_points: Tensor,
    start_position: Tensor,
    start_velocity: Tensor | None = None,
    start_acceleration: Tensor | None = None,
    start_jerk: Tensor | None = None,
    *,
    goal_position: Tensor | None = None,
    goal_velocity: Tensor | None = None,
    goal_acceleration: Tensor | None = None,
    goal_jerk: Tensor | None = None,
    dt: float | Tensor,
    degree: int = 3,
    steps: int = 4,
    layout: BsplineLayout | str = BsplineLayout.TIGHT,
    times: Tensor | Sequence[float],
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    dt_per: str = "step",
) -> Trajectory:
    """Evaluate the spline of `bspline_step` at any times; computed in float64, and differentiable in the times as well.

    `times` are s since the first row, `[T]`, or one list for each trajectory, `[B, T]`, in any order; those outside of
    the spline give the state at its nearest end. All other arguments are those of `bspline_step`.

    Returns:
        Trajectory of `[B, T, D]` tensors in the dtype of the control points.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named.

    """
    form = SplineForm(degree, steps, layout)
    start = (control_points, start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    given = Inputs((*start, *goal), (start_index, goal_index), dt)
    points, start, goal, step, dtype = spline_arguments(given, dt_per)
    batch, points_given, dof = points.shape
    times = _check_times(times, control_points)
    length = form.steps * step
    points = reference.extended_points(points, start, goal, length, form)

    place = times.double() / length[..., 0]  # [1 or B, T], in segments
    # A time that equals a row's except for rounding belongs to the segment that begins there, because jerk may jump.
    rounding = 8 * torch.finfo(times.dtype).eps * form.segments(points_given)
    # A time that is NaN has no segment, and makes its results NaN.
    segment = (place.detach() + rounding).nan_to_num(0.0).floor().clamp(0, form.segments(points_given) - 1)
    within = (place - segment).clamp(0, 1)
    first = segment.long().expand(batch, -1)
    outputs = []
    for order in range(ORDERS):
        count = form.degree - order + 1
        table = place.new_tensor(POLYNOMIALS[form.degree - order])  # [powers, points]
        powers = torch.stack([within**k for k in range(count)], -1)
        reach = torch.arange(count, device=place.device)
        rows = (first[..., None] + reach).flatten(1)  # [B, T count]
        near = points.gather(1, rows[..., None].expand(-1, -1, dof)).unflatten(1, (-1, count))
        value = ((powers @ table)[..., None] * near).sum(2) / length**order
        outputs.append(value.to(dtype))
        points = points.diff(dim=1)
    return Trajectory(*outputs)


def _check_times(times: Tensor | Sequence[float], control_points: Tensor) -> Tensor:
    if not isinstance(times, Tensor):
        times = torch.tensor(times, dtype=torch.float64, device=control_points.device)
    if not times.dtype.is_floating_point:
        raise TypeError(f"times: expected a floating-point tensor, got {times.dtype}")
    check_device("times", times, control_points, "control points'")
    batch = control_points.shape[0]
    if times.dim() not in (1, 2) or (times.dim() == 2 and times.shape[0] not in (1, batch)):
        raise ValueError(f"times: expected shape [times] or [batch = {batch}, times], got {list(times.shape)}")
    return times if times.dim() == 2 else times[None]
