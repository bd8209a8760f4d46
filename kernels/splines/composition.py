"""The B-spline map and its vjp in plain torch: the oracle for the faster kernels.

Compositions of differentiable torch operations in the dtype of their arguments, like `reference` and `vjps`: the
actions are the control points `[B, n, D]`, start and goal four rows each, `[1 or B, D]` (goal None: rest at the last
control point), dt is `[1 or B, 1, 1]` seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from ..types import Trajectory
from .form import SplineForm
from .weights import ORDERS, STATE_WEIGHTS, row_weights

Upstream = Sequence[Tensor | None]


class SplinePoint(NamedTuple):
    """Arguments at which the map is differentiated with respect to dt."""

    action: Tensor
    start: Sequence[Tensor]
    goal: Sequence[Tensor] | None


def bspline(
    action: Tensor, start: Sequence[Tensor], goal: Sequence[Tensor] | None, dt: Tensor, form: SplineForm
) -> Trajectory:
    """Return the rows of the spline of these control points between start and goal."""
    length = form.steps * dt
    points = extended_points(action, start, goal, length, form)
    outputs = []
    for order, table in enumerate(row_weights(form.degree, form.steps)):
        weights = _like(table, action)[..., None]
        count = weights.shape[1]
        segments = points.shape[1] - count + 1
        # One after the other instead of a matrix product: a row is the same to the last bit in any batch.
        body = sum(weights[:-1, m] * points[:, m : m + segments, None] for m in range(count))
        end = sum(weights[-1, m] * points[:, segments - 1 + m, None] for m in range(count))
        outputs.append(torch.cat([body.flatten(1, 2), end], 1) / length**order)
        points = points.diff(dim=1)
    return Trajectory(*outputs)


def extended_points(
    action: Tensor, start: Sequence[Tensor], goal: Sequence[Tensor] | None, length: Tensor, form: SplineForm
) -> Tensor:
    """All control points: those of the start, the given ones, and those that represent the goal or repeat the last."""
    batch, count, _ = action.shape
    used = action[:, : form.used(count, goal is not None)]
    if goal is None:
        tail = action[:, -1:].expand(-1, form.degree, -1)
    else:
        tail = _state_points(goal, length, form).expand(batch, -1, -1)
    return torch.cat([_state_points(start, length, form).expand(batch, -1, -1), used, tail], 1)


def bspline_vjp(
    upstream: Upstream,
    dt: Tensor,
    count: int,
    form: SplineForm,
    has_goal: bool,
    at: SplinePoint | None = None,
) -> tuple[Tensor | None, ...]:
    """Vjp of `bspline`: gradients of the `count` control points, four start and four goal rows `[B, D]`, and dt.

    The gradients of the goal rows are None without a goal, and that of dt, `[B, 1]`, is None without `at`.
    """
    length = form.steps * dt
    gradient = _points_vjp(upstream, length, form)
    used, tail = form.used(count, has_goal), form.tail(has_goal)
    by_start, middle, by_tail = gradient.split([form.head, used, tail], 1)
    if has_goal:
        by_action = pad(middle, (0, 0, 0, count - used))
    else:
        by_action = torch.cat([middle[:, :-1], middle[:, -1:] + by_tail.sum(1, True)], 1)
    ends = [_state_vjp(by_start, length, form), _state_vjp(by_tail, length, form) if has_goal else [None] * ORDERS]
    by_dt = None
    if at is not None:
        by_dt = _length_vjp(upstream, length, form, at, ends) * form.steps
    return by_action, *ends[0], *ends[1], by_dt


def _state_points(state: Sequence[Tensor], length: Tensor, form: SplineForm) -> Tensor:
    """The points that represent a state, `[1 or B, K or K + 1, D]`."""
    weights = _like(STATE_WEIGHTS[form.degree, form.head, form.has_jerk], length)
    terms = [weights[:, k, None] * length**k * row[:, None] for k, row in enumerate(state)]
    return terms[0] + terms[1] + terms[2] + terms[3]


def _state_vjp(gradient: Tensor, length: Tensor, form: SplineForm) -> list[Tensor]:
    """Gradients of the four rows of a state from those of the points that represent it."""
    weights = _like(STATE_WEIGHTS[form.degree, form.head, form.has_jerk], length)
    return [(weights[:, k, None] * length**k * gradient).sum(1) for k in range(ORDERS)]


def _points_vjp(upstream: Upstream, length: Tensor, form: SplineForm) -> Tensor:
    """Gradient of all control points."""
    total = None
    for order in reversed(range(ORDERS)):
        if total is not None:  # the gradient of the differences becomes that of the points
            framed = pad(total, (0, 0, 1, 1))
            total = framed[:, :-1] - framed[:, 1:]
        gradient = upstream[order]
        if gradient is None:
            continue
        weights = _like(row_weights(form.degree, form.steps)[order], length)[..., None]
        scaled = gradient / length**order
        batch, rows, dof = scaled.shape  # not unflatten, which the vmap of is_grads_batched does not support
        body, end = scaled[:, :-1].reshape(batch, (rows - 1) // form.steps, form.steps, dof), scaled[:, -1:]
        last = weights.shape[1] - 1
        for m in range(last + 1):
            part = pad((weights[:-1, m] * body).sum(2), (0, 0, m, last - m))
            part = part + pad(weights[-1, m] * end, (0, 0, part.shape[1] - 1 - last + m, last - m))
            total = part if total is None else total + part
    return total


def _length_vjp(
    upstream: Upstream, length: Tensor, form: SplineForm, at: SplinePoint, ends: Sequence[Sequence[Tensor | None]]
) -> Tensor:
    """Gradient of the segments' length, `[B, 1]`, by which derivatives are divided and on which state points depend."""
    outputs = bspline(at.action, at.start, at.goal, length / form.steps, form)
    total = length.new_zeros(outputs[0].shape[0], 1)
    for order, (gradient, output) in enumerate(zip(upstream, outputs, strict=True)):
        if order and gradient is not None:
            total = total - order * (gradient * output).sum((1, 2))[:, None]
    for state, gradients in zip((at.start, at.goal), ends, strict=True):
        if state is None:
            continue
        for order in range(1, ORDERS):
            total = total + order * (gradients[order] * state[order]).sum(1, True)
    return total / length[..., 0]


def _like(table: object, tensor: Tensor) -> Tensor:
    return torch.tensor(table, dtype=tensor.dtype, device=tensor.device)
