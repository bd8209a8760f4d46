"""Evaluates a B-spline trajectory at any times, and returns the polynomials of its segments."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from .. import reference
from ..splines.form import SplineForm
from ..splines.weights import ORDERS, POLYNOMIALS, basis
from ..types import BsplineLayout, Inputs, Trajectory
from ..validation import check_device
from .bspline import spline_arguments


class SplineSegments(NamedTuple):
    """The `S` segments of `[B]` splines, in float64."""

    time: np.ndarray
    """Ends of the segments, s since the start, `[S + 1]`, or `[B, S + 1]` if dt differs by trajectory."""
    position: np.ndarray
    """Positions at the ends of the segments, `[B, S + 1, D]`."""
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    """Jerk at the ends, where it may jump: that of the segment that begins there; at the last end, of the last segment.
    """
    coefficients: np.ndarray
    """`[B, S, K + 1, D]`: position is `sum_k coefficients[:, i, k] tau^k`, tau in s since segment i began."""


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
    goal_mask: Tensor | None = None,
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
    points, start, goal, step, dtype = spline_arguments(given, dt_per, goal_mask)
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


def bspline_segments(
    control_points: ArrayLike,
    start_position: ArrayLike,
    start_velocity: ArrayLike | None = None,
    start_acceleration: ArrayLike | None = None,
    start_jerk: ArrayLike | None = None,
    *,
    goal_position: ArrayLike | None = None,
    goal_velocity: ArrayLike | None = None,
    goal_acceleration: ArrayLike | None = None,
    goal_jerk: ArrayLike | None = None,
    dt: ArrayLike,
    degree: int = 3,
    steps: int = 4,
    layout: BsplineLayout | str = BsplineLayout.TIGHT,
    start_index: ArrayLike | None = None,
    goal_index: ArrayLike | None = None,
    goal_mask: ArrayLike | None = None,
) -> SplineSegments:
    """Split the spline of `bspline_step` into its polynomials.

    A controller that interpolates points by quintics through position, velocity and acceleration reproduces a spline of
    degree 3, 4 or 5 exactly from these ends: `(n + K) + 1` points instead of `(n + K) steps + 1`.

    The arguments are those of `bspline_step`, as tensors or as arrays of any real dtype.

    Returns:
        SplineSegments of numpy arrays.

    Raises:
        ValueError: an argument of a wrong shape or value, named.

    """
    form = SplineForm(degree, steps, layout)
    start = (control_points, start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    values = [None if rows is None else _real(rows) for rows in (*start, *goal)]
    picks = (start_index, goal_index, goal_mask)
    *indices, mask = (one.detach().cpu() if isinstance(one, Tensor) else one for one in picks)
    given = Inputs(values, indices, _real(dt) if np.ndim(dt) else float(dt))
    points, start, goal, step, _ = spline_arguments(given, "step", mask)
    length, count = form.steps * step, form.segments(points.shape[1])
    with torch.no_grad():
        states = reference.bspline(points, start, goal, length, SplineForm(form.degree, 1, form.layout))
        points = reference.extended_points(points, start, goal, length, form)
    h = length.numpy()  # [1 or B, 1, 1]
    time = np.arange(count + 1) * h[:, :, 0]
    return SplineSegments(
        time if time.shape[0] > 1 else time[0],
        *(output.numpy() for output in states),
        _coefficients(points.numpy(), h[..., None], form.degree),
    )


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


def _coefficients(points: np.ndarray, length: np.ndarray, degree: int) -> np.ndarray:
    """Taylor coefficients at the beginning of each segment, from differences of the control points, as for the rows."""
    pieces = points.shape[1] - degree
    terms = []
    for order in range(degree + 1):
        weights = basis(degree - order, 0, 1)
        near = sum(weight * points[:, m : m + pieces] for m, weight in enumerate(weights))
        terms.append(near / math.factorial(order))
        points = np.diff(points, axis=1)
    powers = length ** np.arange(degree + 1)[:, None]
    return np.stack(terms, axis=2) / powers


def _real(value: ArrayLike) -> Tensor:
    value = value.detach().cpu() if isinstance(value, Tensor) else np.array(value, dtype=np.float64)
    return torch.as_tensor(value).double()
