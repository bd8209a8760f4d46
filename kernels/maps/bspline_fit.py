"""Control points from the positions of a trajectory."""

from __future__ import annotations

import functools

import torch
from torch import Tensor

from ..splines import composition
from ..splines.form import SplineForm
from ..splines.weights import ORDERS
from ..types import BsplineLayout
from .bspline_arguments import spline_arguments


def fit_bspline(
    position: Tensor,
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
    start_index: Tensor | None = None,
    goal_index: Tensor | None = None,
    dt_per: str = "step",
) -> Tensor:
    """Fit the control points whose trajectory comes closest to the positions at every row, by least squares.

    For positions of a spline with the same form, start and goal, these are its own control points. Computed in float64
    on any device; differentiable in every tensor argument.

    `position` is `[B, H, D]`, rad, with H = `(n + K) steps + 1` rows for n control points, and one segment more for
    "curobo". All other arguments are those of `bspline_step`.

    Returns:
        Control points, `[B, n, D]` in the dtype of the positions. The one that "curobo" ignores before a goal is set to
        the goal position.

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape, device or value, named; a number of rows that no spline has.

    """
    form = SplineForm(degree, steps, layout)
    start = (start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    spline = spline_arguments(position, start, goal, dt, start_index, goal_index, dt_per, "position")
    points, left = divmod(position.shape[1] - 1, form.steps)
    points -= form.head
    if left or points < 1:
        wanted = ", ".join(str(form.rows(n)) for n in (1, 2, 3))
        raise ValueError(
            f"position: expected {wanted}, ... rows for degree {form.degree}, {form.steps} steps and layout "
            f"{form.layout.value!r}, got {position.shape[1]}"
        )
    batch, _, dof = position.shape
    still = spline.action.new_zeros(batch, points, dof)
    offset = composition.bspline(still, spline.start, spline.goal, spline.dt, form).position
    solution = _solution(points, form, spline.goal is not None).to(position.device)
    fitted = solution @ (spline.action - offset)
    if fitted.shape[1] < points:
        fitted = torch.cat([fitted, spline.goal[0].expand(batch, -1)[:, None]], 1)
    return fitted.to(position.dtype)


@functools.lru_cache(maxsize=32)
def _solution(points: int, form: SplineForm, has_goal: bool) -> Tensor:
    """`[used, H]`: maps positions, less the part of start and goal, to the control points that have an effect."""
    used = form.used(points, has_goal)
    zero = [torch.zeros(1, points, dtype=torch.float64)] * ORDERS
    each = torch.eye(points, dtype=torch.float64)[None]
    step = torch.ones(1, 1, 1, dtype=torch.float64)
    positions = composition.bspline(each, zero, zero if has_goal else None, step, form).position[0, :, :used]
    orthogonal, triangle = torch.linalg.qr(positions)
    return torch.linalg.solve_triangular(triangle, orthogonal.T, upper=True)
