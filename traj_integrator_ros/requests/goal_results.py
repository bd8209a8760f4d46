"""The fields of action goals, their feedback and their results. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, IntEnum
from typing import NamedTuple

from ..execution.motion import State
from .goal_tolerances import ToleranceFields
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


class GoalFields(NamedTuple):
    """The fields of a goal that are used, except its trajectory."""

    path_tolerance: Sequence[ToleranceFields]
    goal_tolerance: Sequence[ToleranceFields]
    goal_time: float
    """Longest time after the end, s."""
    has_multi_dof: bool
    """True if it contains joints of more than one degree of freedom."""


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
