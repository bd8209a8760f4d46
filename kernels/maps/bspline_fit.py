"""Control points from the positions of a trajectory."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import torch
from torch import Tensor

from ..arguments import values_hidden
from ..backends import Backend
from ..splines.form import SplineForm
from ..splines.weights import ORDERS
from ..types import BsplineLayout, Inputs
from .bspline import BSPLINE, spline_arguments


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
    start = (position, start_position, start_velocity, start_acceleration, start_jerk)
    goal = (goal_position, goal_velocity, goal_acceleration, goal_jerk)
    given = Inputs((*start, *goal), (start_index, goal_index), dt)
    wanted, start, goal, steps, dtype = spline_arguments(given, dt_per, "position")
    pieces = position.shape[1] - 1  # not divmod, which torch.compile cannot trace for a symbolic size
    points = pieces // form.steps - form.head
    if pieces % form.steps != 0 or points < 1:
        known = ", ".join(str(form.rows(n)) for n in (1, 2, 3))
        raise ValueError(
            f"position: expected {known}, ... rows for degree {form.degree}, {form.steps} steps and layout "
            f"{form.layout.value!r}, got {position.shape[1]}"
        )
    batch, _, dof = position.shape
    still = wanted.new_zeros(batch, points, dof)
    offset = _positions(still, start, goal, steps, form)
    # A traced graph computes its own solution: a cached one may have another number of points.
    solve = _new_solution if values_hidden() else _kept_solution
    fitted = solve(points, form.scheme, goal is not None).to(position.device) @ (wanted - offset)
    if fitted.shape[1] < points:
        fitted = torch.cat([fitted, goal[0].expand(batch, -1)[:, None]], 1)
    return fitted.to(dtype)


def _positions(
    points: Tensor, start: Sequence[Tensor], goal: Sequence[Tensor] | None, dt: Tensor, form: SplineForm
) -> Tensor:
    """Positions of splines by the operator, which is one node for torch."""
    batch = points.shape[0]
    rows = [row if row is None else row.expand(batch, -1) for row in (*start, *(goal or [None] * ORDERS))]
    inputs = Inputs((points, *rows), (None, None), dt[..., 0])
    return BSPLINE.forward(*inputs.arguments, *form.scheme, Backend.REFERENCE.value)[0]


def _new_solution(points: int, scheme: tuple[int, int, str], has_goal: bool) -> Tensor:
    """`[used, H]`: maps positions, less the part of start and goal, to the control points that have an effect."""
    form = SplineForm(*scheme)
    zero = [torch.zeros(1, points, dtype=torch.float64)] * ORDERS
    each = torch.eye(points, dtype=torch.float64)[None]
    step = torch.ones(1, 1, 1, dtype=torch.float64)
    positions = _positions(each, zero, zero if has_goal else None, step, form)[0, :, : form.used(points, has_goal)]
    orthogonal, triangle = torch.linalg.qr(positions)
    return torch.linalg.solve_triangular(triangle, orthogonal.T, upper=True)


@functools.lru_cache(maxsize=32)
def _kept_solution(points: int, scheme: tuple[int, int, str], has_goal: bool) -> Tensor:
    with torch.inference_mode(False), torch.no_grad():
        return _new_solution(points, scheme, has_goal)
