"""A goal position in position control: it replaces the last action that affects the trajectory."""

from __future__ import annotations

import torch
from torch import Tensor

from ..arguments import promoted
from ..sharding import is_sharded, rules, shards
from ..types import own_rows
from ..validation import check_action, check_goal


def with_goal(action: Tensor, goal_position: Tensor, goal_index: Tensor | None, place: int) -> Tensor:
    """Return the actions with the goal at `place`, counted from the end (-1: the last one).

    Raises:
        TypeError: an argument of a wrong type or dtype, named.
        ValueError: an argument of a wrong shape or device, named; a horizon without an action to replace.

    """
    action, goal_position = promoted((action, goal_position))
    check_action(action, "action")
    if is_sharded(action):
        rules().check_step(action, "action", {"goal": ((goal_position,), goal_index)}, None)
    (rows,), goal_index = check_goal((goal_position,), goal_index, action)
    if action.shape[1] < -place:
        raise ValueError(f"action: expected a horizon >= {-place} with a goal, got {action.shape[1]}")
    if not is_sharded(action):
        return _replaced(action, rows, goal_index, place)
    split, layout = shards().Shards(action, "action"), shards().rows_layout(rows.shape[0], goal_index, action.shape[0])
    local = [split.local(action, shards().TRAJECTORIES), split.local(rows, layout)]
    result = _replaced(*local, split.local(goal_index, shards().INDEX), place)
    return split.whole(result, shards().TRAJECTORIES, action.shape)


def goal_vjp(grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int) -> tuple[Tensor, Tensor]:
    """Vjp of `with_goal`: gradients of the actions, and of the goal rows."""
    batch, _, dof = grad_action.shape
    goal_rows = own_rows(goal_rows, goal_index, batch)
    if not is_sharded(grad_action):
        return _taken_apart(grad_action, goal_rows, goal_index, place)
    whole_rows = goal_rows or batch
    split, layout = shards().Shards(grad_action, "upstream"), shards().rows_layout(whole_rows, goal_index, batch)
    local = [split.local(grad_action, shards().TRAJECTORIES), goal_rows, split.local(goal_index, shards().INDEX)]
    of_action, of_goal = _taken_apart(*local, place)
    action = split.whole(of_action, shards().TRAJECTORIES, grad_action.shape)
    return action, split.whole(of_goal, layout, (whole_rows, dof), gradient=True)


def _replaced(action: Tensor, rows: Tensor, goal_index: Tensor | None, place: int) -> Tensor:
    # Indexing sums gradients in the same order in every run; index_select does not on CUDA.
    rows = rows.expand(action.shape[0], -1) if goal_index is None else rows[goal_index.long()]
    before, after = action[:, :place], action[:, action.shape[1] + place + 1 :]
    return torch.cat([before, rows[:, None], after], 1)


def _taken_apart(grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int) -> tuple[Tensor, Tensor]:
    """Gradients of actions and goal rows; without an index, 0 rows mean one for each trajectory."""
    row = grad_action[:, place]
    zero = torch.zeros_like(row)
    before, after = grad_action[:, :place], grad_action[:, grad_action.shape[1] + place + 1 :]
    of_action = torch.cat([before, zero[:, None], after], 1)
    if goal_index is not None:
        pool = row.new_zeros(goal_rows, row.shape[1])
        return of_action, pool.index_put((goal_index.long(),), row, accumulate=True)
    return of_action, row.clone() if goal_rows == 0 else row.sum(0, keepdim=True)
