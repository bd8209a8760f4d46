"""The segments of a spline, for controllers and files: states at their ends, and polynomials between them."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike

from ..splines import composition
from ..splines.form import SplineForm
from ..splines.weights import basis
from ..types import BsplineLayout
from .bspline import spline_arguments


class SplineSegments(NamedTuple):
    """Pieces of `[B]` splines in float64; `S` segments."""

    time: np.ndarray
    """`[S + 1]` s since the start, `[B, S + 1]` where dt differs by trajectory."""
    position: np.ndarray
    """`[B, S + 1, D]`: the ends of the segments."""
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    """Continuous from the right, at the last end from the left."""
    coefficients: np.ndarray
    """`[B, S, K + 1, D]`: position is `sum_k coefficients[:, i, k] tau^k`, tau in s since segment i began."""


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

    A controller that joins points by quintics through position, velocity and acceleration reproduces a spline of degree
    3, 4 or 5 exactly from these ends: `(n + K) + 1` points instead of `(n + K) steps + 1`.

    The arguments are those of `bspline_step`, as tensors or as arrays of any real dtype.

    Returns:
        SplineSegments of numpy arrays.

    Raises:
        ValueError: an argument of a wrong shape or value, named.

    """
    form = SplineForm(degree, steps, layout)
    start = (start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    spline = spline_arguments(
        _real(control_points),
        [_real(rows) for rows in start],
        [_real(rows) for rows in goal],
        _real(dt) if np.ndim(dt) else float(dt),
        _whole(start_index),
        _whole(goal_index),
        "step",
        goal_mask.detach().cpu() if isinstance(goal_mask, torch.Tensor) else goal_mask,
    )
    length = form.steps * spline.dt
    with torch.no_grad():
        at_ends = SplineForm(form.degree, 1, form.layout)
        states = composition.bspline(spline.action, spline.start, spline.goal, length, at_ends)
        points = composition.extended_points(spline.action, spline.start, spline.goal, length, form)
    h = length.numpy()  # [1 or B, 1, 1]
    count = form.segments(spline.action.shape[1])
    time = np.arange(count + 1) * h[:, :, 0]
    return SplineSegments(
        time if time.shape[0] > 1 else time[0],
        *(output.numpy() for output in states),
        _coefficients(points.numpy(), h[..., None], form.degree),
    )


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


def _real(value: ArrayLike | None) -> torch.Tensor | None:
    if value is None:
        return None
    value = value.detach().cpu() if isinstance(value, torch.Tensor) else np.array(value, dtype=np.float64)
    return torch.as_tensor(value).double()


def _whole(value: ArrayLike | None) -> torch.Tensor | None:
    if value is None or isinstance(value, torch.Tensor):
        return None if value is None else value.detach().cpu().long()
    return torch.as_tensor(np.array(value, dtype=np.int64))
