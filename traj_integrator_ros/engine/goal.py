"""Goal states: checked, and in position control put in place of the action that they replace."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap
from .buffers import Buffers
from .checks import check_start, check_start_index
from .types import Array, StartState


class Goal(NamedTuple):
    """The goal of one call."""

    rows: tuple[Array | None, ...] = ()
    """Position, velocity and acceleration, or those of them that the map takes, each `[G, dof]` or None."""
    index: np.ndarray | None = None
    """`[B]`, int64; None where G is 1 or B."""
    count: int | None = None
    """G; None where there is no goal."""


NO_GOAL = Goal()


def check_goal(
    kernel: ControlMap,
    goal: StartState | None,
    goal_index: Array | None,
    goal_rows: int | None,
    shape: tuple[int, ...],
) -> Goal:
    """Return the goal of a call with actions of `shape`; if `goal` is None, `goal_rows` says whether there is one.

    Raises:
        ValueError: a goal, or a part of one, that the map does not take; a wrong shape, named.

    """
    batch, horizon, dof = shape
    if goal is None and goal_rows is None:
        if goal_index is not None:
            raise ValueError("goal: expected a goal state with goal_index, got None")
        return NO_GOAL
    if not kernel.goal:
        raise ValueError(f"goal: expected None, because control map {kernel.name} takes no goal")
    if horizon < -kernel.goal_place:
        raise ValueError(f"actions: expected at least {-kernel.goal_place} steps with a goal, got {horizon}")
    given: tuple[Array | None, ...] = ()
    if goal is not None:
        goal_rows = check_start(goal, dof, "goal")
        for name, rows in zip(("velocity", "acceleration"), goal.rows[1:], strict=True):
            if rows is not None and name not in kernel.goal:
                raise ValueError(f"goal.{name}: expected None, because control map {kernel.name} takes a position only")
        given = goal.rows[: len(kernel.goal)]
    return Goal(given, check_start_index(goal_index, goal_rows, batch, "goal"), goal_rows)


def actions_to_goal(actions: Array, goal: Goal, place: int, buffers: Buffers) -> Tensor:
    """A copy of the actions, on the host, with the goal position in place of one of them."""
    copy = buffers.view("output", "actions to the goal", tuple(actions.shape))
    if isinstance(actions, np.ndarray):
        np.copyto(copy.numpy(), actions, casting="same_kind")
    else:
        copy.copy_(actions.detach())
    position = goal.rows[0]
    rows = torch.from_numpy(position.copy()) if isinstance(position, np.ndarray) else position.detach().cpu()
    copy[:, place] = rows if goal.index is None else rows[torch.from_numpy(goal.index)]
    return copy


def gradient_to_goal(action: Tensor, goal: Tensor, index: np.ndarray | None, place: int) -> None:
    """Move the gradient of the replaced actions to the goal rows."""
    replaced = action[:, place]
    if index is not None:
        total = torch.zeros(goal.shape, dtype=torch.float64)
        goal.copy_(total.index_add_(0, torch.from_numpy(index), replaced.double()))
    elif goal.shape[0] == replaced.shape[0]:
        goal.copy_(replaced)
    else:
        goal.copy_(replaced.double().sum(0, keepdim=True))
    replaced.zero_()
