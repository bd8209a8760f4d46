"""What the pipeline answers with. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .requests import ALL_FIELDS, ActionRequest

NO_GRADIENT = np.zeros(0, np.float32)


class IntegratedBatch(NamedTuple):
    """All trajectories of one sequence, in the node's joint order.

    The trajectories are a view of the engine's buffers, overwritten by its next integration.
    """

    request: ActionRequest
    trajectories: np.ndarray
    """Position, velocity, acceleration and jerk, float32, `[4, batch, output horizon, dof]`."""
    times: np.ndarray
    """Of the points, s from the start, float32, `[output horizon]` or `[batch, output horizon]`."""
    fields: int = ALL_FIELDS
    """Which outputs are wanted: a sum of 1 (position), 2 (velocity), 4 (acceleration) and 8 (jerk)."""


class BatchGradient(NamedTuple):
    """Gradients in the order of the request's columns; float32 arrays."""

    action: np.ndarray = NO_GRADIENT
    start_position: np.ndarray = NO_GRADIENT
    start_velocity: np.ndarray = NO_GRADIENT
    start_acceleration: np.ndarray = NO_GRADIENT
    dt: np.ndarray = NO_GRADIENT
    goal_position: np.ndarray = NO_GRADIENT
    goal_velocity: np.ndarray = NO_GRADIENT
    goal_acceleration: np.ndarray = NO_GRADIENT


class EvaluatedBatch(NamedTuple):
    """Costs of sequences, gradients of their sum (columns in the request's order), and the requested trajectories."""

    cost: np.ndarray
    gradient: BatchGradient
    trajectories: IntegratedBatch | None
    violations: tuple[np.ndarray | None, ...] = ()
    """For position to jerk, `[batch, output horizon, dof]` in the request's order, float32; None: not wanted."""
