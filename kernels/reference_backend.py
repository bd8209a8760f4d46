"""The REFERENCE backend: `reference` and `vjps` in float64 behind the launcher interface of `backends`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import reference, vjps
from .splines import composition
from .splines.form import SplineForm
from .types import End, Trajectory


def _forward(composition: Callable[..., Trajectory]) -> Callable[..., tuple[Tensor, ...]]:
    def forward(action: Tensor, *start_index_dt: Tensor | None, **scheme: object) -> tuple[Tensor, ...]:
        *start, start_index, dt = start_index_dt
        rows = start_rows(start, start_index, action)
        trajectory = composition(action.double(), *rows, dt.double()[..., None], **scheme)
        return tuple(output.to(action.dtype) for output in trajectory)

    return forward


def _vjp(composition: Callable[..., vjps.Gradients]) -> Callable[..., tuple[Tensor | None, ...]]:
    def vjp(
        *upstream_indices_dt: Tensor | None,
        start_rows: int,
        goal_rows: int | None = None,
        action_horizon: int,
        needs: Sequence[bool],
        **scheme: object,
    ) -> tuple[Tensor | None, ...]:
        upstream, indices, dt = upstream_indices_dt[:4], upstream_indices_dt[4:-1], upstream_indices_dt[-1]
        like = next(gradient for gradient in upstream if gradient is not None)
        batch, _, dof = like.shape
        widened = tuple(None if gradient is None else gradient.double() for gradient in upstream)
        if goal_rows is not None:
            scheme["has_goal"] = goal_rows >= 0
        action, *rows, _ = composition(widened, dt.double()[..., None], action_horizon, **scheme)
        results: list[Tensor | None] = [None] * len(needs)
        if needs[0]:
            results[0] = like.new_zeros(batch, action_horizon, dof) if action is None else action.to(like.dtype)
        starts = len(rows) // len(indices)
        for i, row in enumerate(rows, start=1):
            if needs[i]:
                index, count = (indices[0], start_rows) if i <= starts else (indices[1], goal_rows)
                results[i] = like.new_zeros(count, dof) if row is None else collect_rows(row, index, count, like)
        return tuple(results)

    return vjp


def bspline_forward(action: Tensor, *ends_dt: Tensor | None, form: SplineForm) -> tuple[Tensor, ...]:
    """Evaluate a B-spline between start and goal; see `splines.composition`."""
    start, start_index, goal, goal_index, dt = ends_dt[:4], ends_dt[4], ends_dt[5:9], ends_dt[9], ends_dt[10]
    rows = start_rows(start, start_index, action)
    goal_rows = None if goal[0] is None else start_rows(goal, goal_index, action)
    trajectory = composition.bspline(action.double(), rows, goal_rows, dt.double()[..., None], form)
    return tuple(output.to(action.dtype) for output in trajectory)


def dt_gradient(
    name: str,
    upstream: tuple[Tensor | None, ...],
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    **scheme: object,
) -> Tensor | None:
    """Return the gradient of dt, `[B, Ha]` or `[B, 1]`, from upstream gradients, all in float64; None if it is zero."""
    rows = [start_rows(end.rows, end.index, action) for end in ends]
    if name == "bspline":
        form, has_goal = scheme["form"], ends[1].rows[0] is not None
        spline = composition.SplinePoint(action.double(), rows[0], rows[1] if has_goal else None)
        return composition.bspline_vjp(upstream, dt, action.shape[1], form, has_goal, at=spline)[-1]
    point = vjps.Point(action.double(), rows[0])
    return getattr(vjps, name)(upstream, dt, action.shape[1], at=point, **scheme)[-1]


def start_rows(start: Sequence[Tensor | None], start_index: Tensor | None, action: Tensor) -> list[Tensor]:
    """Return the start rows of every trajectory in float64, `[1 or B, D]`; zero where None was given."""
    rows = [row if row is None or start_index is None else row.index_select(0, start_index) for row in start]
    zero = None
    for i, row in enumerate(rows):
        if row is None:
            zero = action.new_zeros(1, action.shape[2], dtype=torch.float64) if zero is None else zero
            rows[i] = zero
        else:
            rows[i] = row.double()
    return rows


def collect_rows(gradient: Tensor, start_index: Tensor | None, pool: int, like: Tensor) -> Tensor:
    """Sum the rows `[B, D]` of all trajectories that start from the same row of the pool, always in the same order."""
    if start_index is None:
        total = gradient if gradient.shape[0] == pool else gradient.sum(0, keepdim=True)
        # A copy, because the argument may be a view of an upstream gradient.
        return total.to(like.dtype, copy=True, memory_format=torch.contiguous_format)
    total = gradient.new_zeros(pool, gradient.shape[1])
    if gradient.device.type == "cpu":
        total.index_add_(0, start_index, gradient)
    else:  # index_add_ adds in the order in which the threads arrive; an accumulating index_put_ sorts first
        total.index_put_((start_index.long(),), gradient, accumulate=True)
    return total.to(like.dtype)


clique_forward = _forward(reference.clique)
clique_vjp = _vjp(vjps.clique)
clique_central_forward = _forward(reference.clique_central)
clique_central_vjp = _vjp(vjps.clique_central)
acceleration_forward = _forward(reference.acceleration)
acceleration_vjp = _vjp(vjps.acceleration)
velocity_forward = _forward(reference.velocity)
velocity_vjp = _vjp(vjps.velocity)
jerk_forward = _forward(reference.jerk)
jerk_vjp = _vjp(vjps.jerk)
bspline_vjp = _vjp(composition.bspline_vjp)
