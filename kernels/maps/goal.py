"""Goals in front of the maps: a goal position in place of an action, and goals that hold for some trajectories only."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..arguments import promoted
from ..sharding import is_sharded, rules, shards
from ..types import own_rows
from ..validation import check_action, check_goal, check_goal_mask


def with_goal(
    action: Tensor, goal_position: Tensor | None, goal_index: Tensor | None, place: int, goal_mask: Tensor | None = None
) -> Tensor:
    """Return the actions with the goal at `place`, counted from the end (-1: the last), where `goal_mask` is true."""

    def replaced(action: Tensor, rows: Sequence[Tensor], index: Tensor | None, mask: Tensor | None) -> list[Tensor]:
        if action.shape[1] < -place:
            raise ValueError(f"action: expected a horizon >= {-place} with a goal, got {action.shape[1]}")
        row = _of_each(rows[0], index, action.shape[0])
        if mask is not None:
            row = torch.where(_of_each(mask, index, action.shape[0])[:, None], row, action[:, place])
        return [_with_row(action, row, place)]

    return _on_shards(replaced, action, (goal_position,), goal_index, goal_mask, "action")[0]


def goal_or_rest(
    control_points: Tensor,
    goal: Sequence[Tensor | None],
    goal_index: Tensor | None,
    goal_mask: Tensor,
    name: str = "control_points",
) -> tuple[Tensor | None, ...]:
    """Return the goal state of each trajectory, `[B, D]`: rest at the last control point where `goal_mask` is false.

    To rest at the last control point is what splines do without a goal, in every layout: the points that represent this
    state are that control point, repeated.
    """

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

    return tuple(_on_shards(chosen, control_points, goal, goal_index, goal_mask, name))


def goal_vjp(
    grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int, goal_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Vjp of `with_goal`: gradients of the actions, and of the goal rows."""
    batch, _, dof = grad_action.shape
    holds = None if goal_mask is None else mask_of_each(goal_mask, goal_rows, goal_index, grad_action)
    goal_rows = own_rows(goal_rows, goal_index, batch)
    if not is_sharded(grad_action):
        return _replaced_row_vjp(grad_action, goal_rows, goal_index, place, holds)
    whole_rows = goal_rows or batch
    split, layout = shards().Shards(grad_action, "upstream"), shards().rows_layout(whole_rows, goal_index, batch)
    local = [split.local(grad_action, shards().TRAJECTORIES), goal_rows, split.local(goal_index, shards().INDEX)]
    of_action, of_goal = _replaced_row_vjp(*local, place)
    action = split.whole(of_action, shards().TRAJECTORIES, grad_action.shape)
    return action, split.whole(of_goal, layout, (whole_rows, dof), gradient=True)


def mask_of_each(goal_mask: Tensor, goal_rows: int, goal_index: Tensor | None, like: Tensor) -> Tensor:
    """Return whether the goal holds for each trajectory, `[B, 1]`."""
    if is_sharded(like):
        raise TypeError("goal_mask: expected None with DTensors, got a mask; differentiate the step instead")
    mask = check_goal_mask(goal_mask, goal_rows, goal_index, like)
    return _of_each(mask, goal_index, like.shape[0])[:, None]


def collected(row: Tensor, goal_rows: int, goal_index: Tensor | None) -> Tensor:
    """Sum the gradients `[B, D]` of the goal of each trajectory to those of the goal rows; 0 rows: one for each."""
    if goal_index is not None:
        pool = row.new_zeros(goal_rows, row.shape[1])
        return pool.index_put((goal_index.long(),), row, accumulate=True)
    return row.clone() if goal_rows in (0, row.shape[0]) else row.sum(0, keepdim=True)


def _on_shards(compute, action, goal, goal_index, goal_mask, name: str) -> list[Tensor | None]:
    """Check the arguments, and compute on them, or on a device's own shards of DTensors: `[B, ...]` results."""
    action, *goal = promoted((action, *goal))
    check_action(action, name)
    sharded = is_sharded(action)
    if sharded:
        rules().check_step(action, name, {"goal": (goal, goal_index)}, None)
    if goal[0] is None and goal_index is None:
        raise ValueError("goal_position: expected a tensor with goal_mask, got None")
    rows, goal_index = check_goal(goal, goal_index, action)
    batch, count = action.shape[0], rows[0].shape[0]
    mask = check_goal_mask(goal_mask, count, goal_index, action)
    if not sharded:
        return compute(action, rows, goal_index, mask)
    table = shards()
    split, layout = table.Shards(action, name), table.rows_layout(count, goal_index, batch)
    local_rows = [split.local(row, layout) for row in rows]
    local_mask = None if mask is None else split.local(mask, table.dt_layout(mask.shape[0], batch))
    index = split.local(goal_index, table.INDEX)
    results = compute(split.local(action, table.TRAJECTORIES), local_rows, index, local_mask)
    own, shape = table.rows_layout(batch, None, batch), (batch, action.shape[2])
    return [
        split.whole(one, table.TRAJECTORIES, action.shape) if one is not None and one.dim() == 3
        else split.whole(one, own, shape)
        for one in results
    ]  # fmt: skip


def _of_each(rows: Tensor, goal_index: Tensor | None, batch: int) -> Tensor:
    """The row of each trajectory."""
    # Indexing sums gradients in the same order in every run; index_select does not on CUDA.
    return rows.expand(batch, *rows.shape[1:]) if goal_index is None else rows[goal_index.long()]


def _with_row(action: Tensor, row: Tensor, place: int) -> Tensor:
    """The actions with another one at `place`, counted from the end."""
    return torch.cat([action[:, :place], row[:, None], action[:, action.shape[1] + place + 1 :]], 1)


def _replaced_row_vjp(
    grad_action: Tensor, goal_rows: int, goal_index: Tensor | None, place: int, holds: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """Gradients of actions and goal rows; without an index, 0 rows mean one for each trajectory."""
    row = grad_action[:, place]
    zero = torch.zeros_like(row)
    kept, of_goal = (zero, row) if holds is None else (torch.where(holds, zero, row), torch.where(holds, row, zero))
    return _with_row(grad_action, kept, place), collected(of_goal, goal_rows, goal_index)
