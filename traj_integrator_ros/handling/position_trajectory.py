"""Positions and times from a planner that does not use our messages: checked, and made into a plan. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..kernels import MAPS
from .joint_order import resolve_subset
from .plan import Plan
from .rejection import Rejected, RejectionReason, require_finite

_NANOSECOND_S = 1e-9


class PositionFields(NamedTuple):
    """The fields of a JointTrajectory that are used; velocities, accelerations and efforts are ignored."""

    joint_names: Sequence[str]
    stamp_ns: int
    """The time from which times_from_start count, ns; 0: when the trajectory starts."""
    count: int
    """Number of points; if it is larger than is accepted, the fields below may be empty."""
    time_ns: Sequence[int]
    positions: Sequence[np.ndarray]
    """For each point, one value for each joint name."""


def plan_of_positions(fields: PositionFields, joint_names: tuple[str, ...], max_points: int, now_ns: int) -> Plan:
    """Check a position trajectory, without knowing the robot's state, and return it as a plan.

    A point at time 0 is where it starts; its velocity is the robot's. Points that are all at time 0 have no times.

    Args:
        fields: the message.
        joint_names: the node's joints.
        max_points: most points that are accepted.
        now_ns: the node's clock.

    Raises:
        Rejected: the first thing that is wrong, named with what was expected and what was given.

    """
    names = list(fields.joint_names)
    if not names:
        raise Rejected(RejectionReason.JOINT_COUNT, "joint_names: expected at least one joint, got none")
    columns = resolve_subset(names, joint_names, "joint_names")
    count = fields.count
    if not 1 <= count <= max_points:
        raise Rejected(
            RejectionReason.SIZE_OUT_OF_RANGE,
            f"points: expected 1 to {max_points} (parameter max_horizon), got {count}",
        )
    for index, row in enumerate(fields.positions):
        if len(row) != len(names):
            raise Rejected(
                RejectionReason.JOINT_COUNT,
                f"points[{index}].positions: expected {len(names)} values, one for each joint name, got {len(row)}",
            )
    position = np.asarray(fields.positions, np.float64)
    require_finite("points.positions", position)
    time_ns = np.asarray(fields.time_ns, np.int64)
    if time_ns[0] < 0:
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            f"points[0].time_from_start: expected at least 0 s, got {time_ns[0] * _NANOSECOND_S:g}",
        )
    untimed = count > 1 and not time_ns.any()
    later = np.diff(time_ns) > 0
    if not untimed and not later.all():
        index = int(np.argmin(later)) + 1
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            f"points[{index}].time_from_start: expected more than {time_ns[index - 1] * _NANOSECOND_S:.9g} s "
            f"(the point before), got {time_ns[index] * _NANOSECOND_S:.9g}",
        )
    if fields.stamp_ns and not untimed and fields.stamp_ns + int(time_ns[-1]) <= now_ns:
        ended = (now_ns - fields.stamp_ns - int(time_ns[-1])) * _NANOSECOND_S
        raise Rejected(RejectionReason.INVALID_TIMES, f"header.stamp: the trajectory ended {ended:.3f} s ago")
    rows = np.full((count, len(joint_names)), np.nan)
    rows[:, columns] = position
    start = None
    if untimed:
        time_ns = time_ns[:0]
    elif time_ns[0] == 0:
        unknown = np.full(len(joint_names), np.nan)
        start, rows, time_ns = State(rows[0], unknown), rows[1:], time_ns[1:]
    steps = np.diff(time_ns, prepend=0) * _NANOSECOND_S
    left_out = None
    if len(columns) < len(joint_names):
        left_out = np.ones(len(joint_names), bool)
        left_out[columns] = False
    stamp_ns = fields.stamp_ns
    origin_ns = 0 if untimed and stamp_ns <= now_ns else stamp_ns
    return Plan(
        MAPS["clique"],
        steps,
        rows,
        start,
        origin_ns,
        left_out=left_out,
        untimed=untimed,
        stamp_ns=stamp_ns,
        topic="position_trajectory",
    )
