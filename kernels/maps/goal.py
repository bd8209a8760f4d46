"""A goal position in place of an action, in front of the maps of positions."""

from __future__ import annotations

import torch
from torch import Tensor

from ..arguments import promoted
from ..types import End
from ..validation import check_action, check_goal


def with_goal(action: Tensor, goal_position: Tensor | None, goal_index: Tensor | None, place: int) -> Tensor:
    """Return the actions with the goal at `place`, counted from the end (-1: the last)."""
    action, goal_position = promoted((action, goal_position))
    check_action(action, "action")
    (rows,), index = check_goal(End((goal_position,), goal_index), action)
    if action.shape[1] < -place:
        raise ValueError(f"action: expected a horizon >= {-place} with a goal, got {action.shape[1]}")
    # Indexing sums gradients in the same order in every run; index_select does not on CUDA.
    row = rows.expand(action.shape[0], -1) if index is None else rows[index.long()]
    return _with_row(action, row, place)


def goal_vjp(grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int) -> tuple[Tensor, Tensor]:
    """Vjp of `with_goal`: gradients of the actions, and of the goal rows."""
    batch, _, dof = grad_action.shape
    row = grad_action[:, place]
    action = _with_row(grad_action, torch.zeros_like(row), place)
    if goal_index is not None:
        return action, row.new_zeros(goal_rows, dof).index_put((goal_index.long(),), row, accumulate=True)
    return action, row.clone() if goal_rows == batch else row.sum(0, keepdim=True)


def _with_row(action: Tensor, row: Tensor, place: int) -> Tensor:
    """The actions with a different one at `place`, counted from the end."""
    return torch.cat([action[:, :place], row[:, None], action[:, action.shape[1] + place + 1 :]], 1)
