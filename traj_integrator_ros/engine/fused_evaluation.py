"""Costs of trajectories, with gradients, by the fused C++ loops, which read their inputs in place."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..kernels import QuadraticCost
from ..kernels.call import fast_map
from .call import STARTS, Call, gradient_to_goal, replaces_action, with_goal_in_actions
from .runners import Buffers, unfit
from .types import Array, Evaluation, Wanted

_NO_ENDS = (None,) * 8


def fused_evaluation(call: Call, cost: QuadraticCost, wanted: Wanted, buffers: Buffers) -> Evaluation:
    """Compute costs and gradients, except that of dt; arrays are views of `buffers`, or new.

    Raises:
        ImportError: there is no C++ extension.
        ValueError: arrays whose shapes do not match.

    """
    from ..kernels import native

    kernel, goal, shape = call.kernel, call.goal, call.shape
    batch, _, dof = shape
    replaces = replaces_action(call)
    results = buffers.pieces("evaluation", ((batch,), shape))
    costs, action = results.arrays
    if not (wanted.action or (wanted.goal and replaces)):  # the gradient of a goal position is taken from this one
        action = None
    starts = STARTS if wanted.start else 0
    goals = len(kernel.goal) if wanted.goal and goal.count is not None and not replaces else 0
    ends, into = None, _NO_ENDS
    if starts or goals:
        ends = buffers.view("output", "gradients of the ends", (2 * STARTS, batch, dof), torch.float64).numpy()
        into = (*_four(tuple(ends[:starts])), *_four(tuple(ends[STARTS : STARTS + goals])))
    given = _given(with_goal_in_actions(call, buffers.actions_to_the_goal(shape)) if replaces else call, cost)
    number = fast_map(kernel.operator, *kernel.scheme).kind
    done = native.quadratic_cost_into(number, *given, costs, action, into)
    if not done and not native.quadratic_cost_into(number, *_contiguous(given), costs, action, into):
        raise ValueError(unfit(call))
    if cost.duration_weight is not None:
        with np.errstate(over="ignore"):  # as in the loops, what is too large becomes infinite
            costs += cost.duration_weight * kernel.duration(call.dt, shape[1])
    of_goal = tuple(_summed(rows, goal.index, goal.count) for rows in ends[STARTS : STARTS + goals]) if goals else None
    if replaces and wanted.goal:
        row = torch.empty(goal.count, dof, dtype=buffers.dtype)
        gradient_to_goal(results.tensors[1], row, goal.index, kernel.goal_place)
        of_goal = (row.numpy(),)
    elif replaces and wanted.action:
        action[:, kernel.goal_place] = 0
    return Evaluation(
        costs,
        action if wanted.action else None,
        tuple(_summed(rows, call.start.index, call.start.count) for rows in ends[:starts]) if starts else None,
        of_goal,
        None,
    )


def _given(call: Call, cost: QuadraticCost) -> tuple[Array | tuple | None, ...]:
    """The inputs in the order of the loops' arguments."""
    terms = tuple(part for term in cost.outputs for part in term)
    ends = (_four(call.start.rows), call.start.index, _four(call.goal.rows), call.goal.index)
    return (*ends, call.actions, call.dt, terms)


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
