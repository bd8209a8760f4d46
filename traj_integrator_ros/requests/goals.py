"""Action goals: their fields, tolerances, feedback and results. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..parameters.parameters import NodeParameters
from .joint_order import resolve_subset
from .rejection import RejectionReason


class ResultCode(IntEnum):
    """The codes that the action defines."""

    SUCCESSFUL = 0
    INVALID_GOAL = -1
    INVALID_JOINTS = -2
    OLD_HEADER_TIMESTAMP = -3
    PATH_TOLERANCE_VIOLATED = -4
    GOAL_TOLERANCE_VIOLATED = -5


_JOINTS = (
    RejectionReason.UNKNOWN_JOINT,
    RejectionReason.DUPLICATE_JOINT,
    RejectionReason.JOINT_COUNT,
    RejectionReason.JOINT_MISSING,
)
_PAST = RejectionReason.INVALID_TIMES, RejectionReason.STALE_SEQUENCE


class Ended(Enum):
    """How a goal ended."""

    SUCCEEDED = "succeeded"
    CANCELED = "canceled"
    ABORTED = "aborted"


class Result(NamedTuple):
    """The result that the sender of a goal gets."""

    ended: Ended
    code: ResultCode
    text: str


class Feedback(NamedTuple):
    """The feedback that the sender of a goal gets on the way, in the node's joint order."""

    stamp_ns: int
    """When the newest part of `actual` was measured, ns."""
    into_s: float
    """Time in the trajectory at that moment, s, by the motion's clock."""
    left_s: float
    """Time until the end of the trajectory at its present speed, s; infinite while it waits."""
    desired: State
    """Command of each joint at the time when it was measured."""
    actual: State
    error: State
    """`desired` less `actual`."""


Tolerance = tuple[str, float, float]
"""A joint, and its largest errors of position and velocity: 0 means the parameter's, and a negative number any."""


class GoalFields(NamedTuple):
    """The fields of a goal that are used, except its trajectory."""

    path_tolerance: Sequence[Tolerance]
    goal_tolerance: Sequence[Tolerance]
    goal_time: float
    """Longest time after the end, s; 0 and negative numbers as in `Tolerance`."""
    has_multi_dof: bool
    """True if it contains joints of more than one degree of freedom."""


class GoalTolerances(NamedTuple):
    """The largest errors that a goal allows; infinite where it allows any."""

    path: State
    """Errors on the way."""
    goal: State
    """Errors at the end."""
    goal_time: float
    """Longest time after the end of the trajectory, s."""


def goal_tolerances(fields: GoalFields, parameters: NodeParameters) -> GoalTolerances:
    """Return the tolerances of a goal, or those of the parameters where it gives none.

    Raises:
        Rejected: joint_count, unknown_joint, duplicate_joint or not_finite, naming the field.

    """
    if fields.has_multi_dof:
        raise RejectionReason.JOINT_COUNT.of(
            "multi_dof_trajectory",
            "none, and no component tolerances, since the node's joints have one degree of freedom each",
            "some",
        )
    any_velocity = np.zeros(len(parameters.joint_names))
    stopped = any_velocity + parameters.constraints_stopped_velocity_tolerance

    def resolved(field: str, position: np.ndarray, velocity: np.ndarray) -> State:
        tolerances = getattr(fields, field)
        columns = resolve_subset([name for name, *_ in tolerances], parameters.joint_names, f"{field}.name")
        given = np.zeros((2, len(position)))
        given[:, columns] = np.reshape([one[1:] for one in tolerances], (-1, 2)).T
        return State(
            _or_default(f"{field}.position", given[0], position), _or_default(f"{field}.velocity", given[1], velocity)
        )

    return GoalTolerances(
        resolved("path_tolerance", parameters.constraints_trajectory, any_velocity),
        resolved("goal_tolerance", parameters.constraints_goal, stopped),
        float(_or_default("goal_time_tolerance", fields.goal_time, parameters.constraints_goal_time)),
    )


def _or_default(field: str, given: np.ndarray | float, default: np.ndarray | float) -> np.ndarray:
    """Replace tolerances of 0 by the default; negative tolerances, and defaults of 0, become infinite."""
    if np.isnan(given).any():
        raise RejectionReason.NOT_FINITE.of(field, "numbers", "NaN")
    found = np.where(np.equal(given, 0), default, given)
    return np.where(found > 0, found, np.inf)


def exceeded(error: State, allowed: State, joint_names: Sequence[str], what: str) -> str:
    """Name the joint whose error is too large, away from `what`, and the error; empty if none is."""
    for quantity, errors, most in zip(("position", "velocity"), error, allowed, strict=False):
        away = np.abs(errors)
        beyond = np.where(np.isfinite(most), away - most, -np.inf)
        joint = int(beyond.argmax())
        if beyond[joint] > 0:
            return (
                f"{joint_names[joint]}: {quantity} {away[joint]:.6g} away from {what}, expected at most {most[joint]:g}"
            )
    return ""


def refused(line: str) -> Result:
    """Return the result of a goal that is not executed, from the line with the reason."""
    reason, _, message = line.partition(": ")
    if reason in _JOINTS:
        code = ResultCode.INVALID_JOINTS
    elif reason in _PAST and "header.stamp" in message.partition(":")[0]:
        code = ResultCode.OLD_HEADER_TIMESTAMP
    else:
        code = ResultCode.INVALID_GOAL
    return Result(Ended.ABORTED, code, line)
