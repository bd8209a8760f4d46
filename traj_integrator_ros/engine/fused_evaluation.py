"""Costs of trajectories, with gradients, by the fused C++ loops, which read their inputs in place."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap, SplineForm
from .buffers import Buffers
from .evaluation_work import Evaluation, EvaluationWork
from .goal import NO_GOAL, actions_to_goal, gradient_to_goal
from .types import Array

_NO_ENDS = (None,) * 8
_KINDS = 3
"""Kinds of rows of start or goal: position, velocity and acceleration."""


def fused_evaluation(work: EvaluationWork, dtype: torch.dtype, buffers: Buffers) -> Evaluation:
    """Compute costs and gradients, except that of dt; arrays are views of `buffers`, or new.

    Raises:
        ImportError: there is no C++ extension.
        ValueError: arrays whose shapes do not match.

    """
    from ..kernels import native

    kernel, goal, wanted = work.kernel, work.goal, work.wanted
    shape = batch, _, dof = tuple(work.actions.shape)
    replaces = goal.count is not None and kernel.goal_place
    results = buffers.made(
        "output", "evaluation", shape, batch + math.prod(shape), lambda flat: _Results.of(flat, shape)
    )
    # The gradient of a goal position is taken from that of the actions.
    action = results.action if wanted.action or (wanted.goal and replaces) else None
    starts = _KINDS if wanted.start else 0
    goals = len(kernel.goal) if wanted.goal and goal.count is not None and not replaces else 0
    ends, into = None, _NO_ENDS
    if starts or goals:
        ends = buffers.view("output", "gradients of the ends", (2 * _KINDS, batch, dof), torch.float64).numpy()
        into = (*_four(tuple(ends[:starts])), *_four(tuple(ends[_KINDS : _KINDS + goals])))
    if replaces:
        actions = actions_to_goal(work.actions, goal, kernel.goal_place, buffers)
        given = _given(work._replace(actions=actions, goal=NO_GOAL))
    else:
        given = _given(work)
    number = _number(kernel)
    done = native.quadratic_cost_into(number, *given, results.cost, action, into)
    if not done and not native.quadratic_cost_into(number, *_contiguous(given), results.cost, action, into):
        shapes = [None if rows is None else list(rows.shape) for rows in (work.actions, *work.start, *goal.rows)]
        raise ValueError(f"arrays: expected real numbers in shapes that belong together, got {shapes}")
    if work.cost.duration_weight is not None:
        results.cost[:] += work.cost.duration_weight * kernel.duration(work.dt, work.actions.shape[1])
    of_goal = tuple(_summed(rows, goal.index, goal.count) for rows in ends[_KINDS : _KINDS + goals]) if goals else None
    if replaces and wanted.goal:
        row = torch.empty(goal.count, dof, dtype=dtype)
        gradient_to_goal(results.action_tensor, row, goal.index, kernel.goal_place)
        of_goal = (row.numpy(),)
    elif replaces and wanted.action:
        action[:, kernel.goal_place] = 0
    return Evaluation(
        results.cost,
        results.action if wanted.action else None,
        tuple(_summed(rows, work.start_index, work.start_rows) for rows in ends[:starts]) if starts else None,
        of_goal,
        None,
    )


def _given(work: EvaluationWork) -> tuple[Array | tuple | None, ...]:
    """The inputs in the order of the loops' arguments."""
    position, velocity, acceleration, jerk = work.cost.outputs
    return (
        (*work.start, None),
        work.start_index,
        _four(work.goal.rows),
        None if work.goal.count is None else work.goal.index,
        work.actions,
        work.dt,
        (*position, *velocity, *acceleration, *jerk),
    )


def _number(kernel: ControlMap) -> object:
    """What the loops call a map."""
    from ..kernels import native

    if kernel.operator.goals:
        return native.spline_form(SplineForm(*kernel.scheme))
    return native.MAP_NUMBERS[kernel.name]


class _Results(NamedTuple):
    """`[B]` and `[B, Ha, dof]`."""

    cost: np.ndarray
    action: np.ndarray | None
    action_tensor: Tensor | None

    @classmethod
    def of(cls, flat: Tensor, shape: tuple[int, ...]) -> _Results:
        action = flat[shape[0] :].view(shape)
        return cls(flat[: shape[0]].numpy(), action.numpy(), action)


def _summed(rows: np.ndarray, index: np.ndarray | None, count: int) -> np.ndarray:
    """Gradients `[B, dof]`, summed over the trajectories that share a row in a fixed order."""
    if index is None:
        return rows if count == rows.shape[0] else rows.sum(0, keepdims=True)
    total = np.zeros((count, rows.shape[1]))
    np.add.at(total, index, rows)
    return total


def _four(rows: tuple[Array | None, ...]) -> tuple[Array | None, ...]:
    return (*rows, *_NO_ENDS[: 4 - len(rows)])


def _contiguous(given: Array | tuple | None) -> Array | tuple | None:
    """Arrays, or tuples of them, made contiguous for the loops."""
    if isinstance(given, tuple):
        return tuple(_contiguous(part) for part in given)
    if isinstance(given, Tensor):
        return given.detach().cpu().contiguous()
    return given if given is None else np.ascontiguousarray(given)
