"""Tolerances of an action goal, on the way and at its end. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..parameters.parameters import NodeParameters
from .joint_order import resolve_subset
from .rejection import Rejected, RejectionReason


class ToleranceFields(NamedTuple):
    """The fields of a JointTolerance that are used. 0 means the parameter's tolerance, and a negative number none."""

    name: str
    position: float
    velocity: float


class Tolerance(NamedTuple):
    """Largest distances between two states, float64 `[dof]`; infinite where any is allowed."""

    position: np.ndarray
    velocity: np.ndarray

    def exceeded(self, desired: State, actual: State, parameters: NodeParameters, what: str) -> str:
        """Name the joint that is too far away, and its distance; empty if none is. `what` names the states."""
        for quantity, allowed in self._asdict().items():
            away = np.abs(getattr(desired, quantity) - getattr(actual, quantity))
            beyond = np.where(np.isfinite(allowed), away - allowed, -np.inf)
            joint = int(beyond.argmax())
            if beyond[joint] > 0:
                return (
                    f"{parameters.joint_names[joint]}: {quantity} {away[joint]:.6g} away from {what}, expected at most "
                    f"{allowed[joint]:g}"
                )
        return ""


class GoalTolerances(NamedTuple):
    """The tolerances of one goal."""

    path: Tolerance
    goal: Tolerance
    goal_time: float
    """Longest time after the end of the trajectory, s; infinite without a limit."""


def goal_tolerances(
    path: Sequence[ToleranceFields], goal: Sequence[ToleranceFields], goal_time: float, parameters: NodeParameters
) -> GoalTolerances:
    """Return the tolerances of a goal, or those of the parameters where it gives none.

    Args:
        path: tolerances of some joints on the way.
        goal: tolerances of some joints at the end.
        goal_time: s; 0 and negative numbers as in `ToleranceFields`.
        parameters: have the tolerances that a goal does not give.

    Raises:
        Rejected: unknown_joint, duplicate_joint or not_finite, naming the field.

    """
    any_velocity = np.zeros(len(parameters.joint_names))
    stopped = np.full(len(parameters.joint_names), parameters.constraints_stopped_velocity_tolerance)
    return GoalTolerances(
        _resolved("path_tolerance", path, parameters.constraints_trajectory, any_velocity, parameters),
        _resolved("goal_tolerance", goal, parameters.constraints_goal, stopped, parameters),
        float(_or_default("goal_time_tolerance", goal_time, parameters.constraints_goal_time)),
    )


def _resolved(
    field: str,
    given: Sequence[ToleranceFields],
    position: np.ndarray,
    velocity: np.ndarray,
    parameters: NodeParameters,
) -> Tolerance:
    columns = resolve_subset([one.name for one in given], parameters.joint_names, f"{field}.name")
    found = {}
    for quantity, default in (("position", position), ("velocity", velocity)):
        values = np.zeros(len(default))
        values[columns] = [getattr(one, quantity) for one in given]
        found[quantity] = _or_default(f"{field}.{quantity}", values, default)
    return Tolerance(**found)


def _or_default(field: str, given: np.ndarray | float, default: np.ndarray | float) -> np.ndarray:
    """Replace tolerances of 0 by the default; negative tolerances, and defaults of 0, become infinite."""
    if np.isnan(given).any():
        raise Rejected(RejectionReason.NOT_FINITE, f"{field}: expected numbers, got NaN")
    found = np.where(np.equal(given, 0), default, given)
    return np.where(found > 0, found, np.inf)
