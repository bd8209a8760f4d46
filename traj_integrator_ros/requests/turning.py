"""Unwraps positions of continuous joints, so that an angle goes on where it passes pi. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..engine.call import Ends
from ..kernels import QuadraticCost
from .plan import turned
from .sequences import ActionRequest


def unwrapped(path: np.ndarray, turning: np.ndarray) -> np.ndarray:
    """Move `turning` joints, bool `[dof]`, of positions `[..., N, dof]` by whole turns next to the previous row.

    The first row and other joints are not changed.
    """
    if not turning.any():
        return path
    way = np.array(path)
    way[..., turning] = np.unwrap(way[..., turning].astype(np.float64), axis=-2)
    return way


def unwrapped_request(request: ActionRequest, start: Ends, turning: np.ndarray) -> ActionRequest:
    """Unwrap the positions of a request from its start on, as those of a plan on the topic; other requests stay."""
    actions, goal = request.actions, request.goal
    if actions is None or not turning.any() or not request.has_positions:
        return request
    before = start.rows[0] if start.index is None else start.rows[0][start.index]
    before = np.broadcast_to(before, (len(actions), actions.shape[2]))
    way = unwrapped(np.concatenate([before[:, None], actions], axis=1, dtype=np.float64), turning)
    if goal.rows:  # A row that several trajectories share is moved next to the end of the first one.
        last, rows = way[:, request.control_map.goal_place - 1], np.array(goal.rows[0])
        used = np.arange(len(actions)) if goal.index is None else goal.index
        for row in range(len(rows)):
            first = np.flatnonzero(used == row)[:1]
            if first.size:
                rows[row] = turned(rows[row].astype(np.float64), last[first[0]], turning)
        goal = goal._replace(rows=(rows, *goal.rows[1:]))
    return request._replace(actions=way[:, 1:].astype(actions.dtype), goal=goal)


def turned_cost(cost: QuadraticCost, positions: Callable[[], np.ndarray], turning: np.ndarray) -> QuadraticCost:
    """Move the targets of `turning` joints by whole turns next to the trajectories, row by row.

    The cost is then that of the short way to an angle: it is continuous, and the same for angles that are a whole turn
    apart. Its gradient is that of a fixed target. `positions` computes `[batch, output horizon, dof]`.
    """
    target = cost.position.target
    if target is None or not turning.any():
        return cost
    near = positions()[..., turning].astype(np.float64)
    with np.errstate(invalid="ignore"):  # A trajectory that is not finite has a cost that is not finite either.
        turns = np.rint((near - target[..., turning]) / (2 * np.pi))
    if not turns.any():
        return cost
    target = np.broadcast_to(target, (*turns.shape[:2], target.shape[-1])).copy()
    target[..., turning] += (2 * np.pi * turns).astype(target.dtype)
    return cost._replace(position=cost.position._replace(target=target))
