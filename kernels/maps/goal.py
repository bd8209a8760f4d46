"""Goals in front of the maps: a goal position in place of an action, and goals that hold for some trajectories only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..arguments import promoted
from ..leading import Leading
from ..types import End
from ..validation import check_action, check_goal, check_goal_mask


def with_goal(
    action: Tensor, goal_position: Tensor | None, goal_index: Tensor | None, place: int, goal_mask: Tensor | None = None
) -> Tensor:
    """Return the actions with the goal at `place`, counted from the end (-1: the last), where `goal_mask` is true."""
    leading = Leading.of(action)
    if leading is not None:
        goal = leading.rows(goal_position, goal_index), leading.index(goal_index), place, leading.index(goal_mask)
        return with_goal(leading.action(action), *goal).reshape(action.shape)

    def replaced(action: Tensor, rows: Sequence[Tensor], index: Tensor | None, mask: Tensor | None) -> list[Tensor]:
        if action.shape[1] < -place:
            raise ValueError(f"action: expected a horizon >= {-place} with a goal, got {action.shape[1]}")
        row = _of_each(rows[0], index, action.shape[0])
        if mask is not None:
            row = torch.where(_of_each(mask, index, action.shape[0])[:, None], row, action[:, place])
        return [_with_row(action, row, place)]

    return _checked(replaced, action, (goal_position,), goal_index, goal_mask, "action")[0]


def goal_or_rest(
    control_points: Tensor,
    goal: Sequence[Tensor | None],
    goal_index: Tensor | None,
    goal_mask: Tensor,
    name: str = "control_points",
) -> tuple[Tensor | None, ...]:
    """Return the goal state of each trajectory, `[B, D]`: rest at the last control point where `goal_mask` is false.

    To rest at the last control point is what splines do without a goal, in every layout: the points that represent this
    state are that control point, repeated. Leading dimensions of the control points become one.
    """
    leading = Leading.of(control_points)
    if leading is not None:
        rows = tuple(leading.rows(row, goal_index) for row in goal)
        given = rows, leading.index(goal_index), leading.index(goal_mask)
        return goal_or_rest(leading.action(control_points), *given, name)

    def chosen(
        points: Tensor, rows: Sequence[Tensor | None], index: Tensor | None, mask: Tensor
    ) -> list[Tensor | None]:
        batch = points.shape[0]
        holds = _of_each(mask, index, batch)[:, None]
        rest = [points[:, -1], *[points.new_zeros(()) for _ in rows[1:]]]
        return [
            row if row is None else torch.where(holds, _of_each(row, index, batch), still)
            for row, still in zip(rows, rest, strict=True)
        ]

    return tuple(_checked(chosen, control_points, goal, goal_index, goal_mask, name))


def goal_vjp(
    grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int, goal_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Vjp of `with_goal`: gradients of the actions, and of the goal rows."""
    batch, _, dof = grad_action.shape
    row = grad_action[:, place]
    kept = torch.zeros_like(row)
    if goal_mask is not None:
        holds = mask_of_each(goal_mask, goal_rows, goal_index, grad_action)
        kept, row = torch.where(holds, kept, row), torch.where(holds, row, kept)
    action = _with_row(grad_action, kept, place)
    if goal_index is not None:
        return action, row.new_zeros(goal_rows, dof).index_put((goal_index.long(),), row, accumulate=True)
    return action, row.clone() if goal_rows == batch else row.sum(0, keepdim=True)


def goal_or_rest_vjp(
    grad_goal: Sequence[Tensor | None], points: int, goal_rows: int, goal_index: Tensor | None, goal_mask: Tensor
) -> tuple[Tensor, ...]:
    """Vjp of `goal_or_rest`: gradients of the control points, `[B, n, D]`, and of the goal rows; not all are None."""
    kinds = [kind for kind, gradient in enumerate(grad_goal) if gradient is not None]
    like = grad_goal[kinds[0]]
    batch, dof = like.shape

    def chosen(control_points: Tensor, *goal: Tensor) -> list[Tensor]:
        rows = goal_or_rest(control_points, goal, goal_index, goal_mask)
        return [rows[kind] for kind in kinds]

    zero = like.new_zeros(goal_rows, dof)
    _, pull = torch.func.vjp(chosen, like.new_zeros(batch, points, dof), *[zero] * len(grad_goal))
    return pull([grad_goal[kind] for kind in kinds])


def mask_of_each(goal_mask: Tensor, goal_rows: int, goal_index: Tensor | None, like: Tensor) -> Tensor:
    """Return whether the goal holds for each trajectory, `[B, 1]`."""
    mask = check_goal_mask(goal_mask, goal_rows, goal_index, like)
    return _of_each(mask, goal_index, like.shape[0])[:, None]


def _checked(compute, action, goal, goal_index, goal_mask, name: str) -> list[Tensor | None]:
    """Check the arguments, and compute on them: `[B, ...]` results."""
    action, *rows = promoted((action, *goal))
    check_action(action, name)
    if rows[0] is None and goal_index is None:
        raise ValueError("goal_position: expected a tensor with goal_mask, got None")
    goal = check_goal(End(rows, goal_index), action)
    mask = check_goal_mask(goal_mask, goal.count, goal.index, action)
    return compute(action, goal.rows, goal.index, mask)


def _of_each(rows: Tensor, goal_index: Tensor | None, batch: int) -> Tensor:
    """Return the row that each trajectory has."""
    # Indexing sums gradients in the same order in every run; index_select does not on CUDA.
    return rows.expand(batch, *rows.shape[1:]) if goal_index is None else rows[goal_index.long()]


def _with_row(action: Tensor, row: Tensor, place: int) -> Tensor:
    """The actions with a different one at `place`, counted from the end."""
    return torch.cat([action[:, :place], row[:, None], action[:, action.shape[1] + place + 1 :]], 1)
