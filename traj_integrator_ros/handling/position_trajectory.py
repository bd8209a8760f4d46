"""Positions and times from a planner that does not use our messages: checked and differentiated. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..engine.integrator import StartState
from ..kernels import Trajectory, differentiate_positions
from .finite import require_finite
from .joint_order import resolve_subset
from .rejection import Rejected, RejectionReason

_NANOSECOND_S = 1e-9


class PositionFields(NamedTuple):
    """The fields of a JointTrajectory that count here; velocities, accelerations and efforts are computed anew."""

    joint_names: Sequence[str]
    stamp_ns: int
    """Start; 0 means now."""
    count: int
    """Number of points; where it is more than are accepted, what follows may be empty."""
    time_ns: Sequence[int]
    positions: Sequence[np.ndarray]
    """For each point, one value for each joint name."""


class DifferentiatedPositions(NamedTuple):
    """A trajectory of all joints of the node: times from its start, s `[N]`, and float64 arrays `[N, dof]`."""

    time_s: np.ndarray
    trajectory: Trajectory


def check_positions(
    fields: PositionFields, joint_names: tuple[str, ...], max_points: int, now_ns: int
) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """Check a position trajectory before anything is known of the start.

    Args:
        fields: the message.
        joint_names: the node's joints.
        max_points: most points that are accepted.
        now_ns: the node's clock.

    Returns:
        Times, int64 ns `[N]`, positions, float64 `[N, k]`, and the node's column of each of the k joints.

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
    later = np.diff(time_ns) > 0
    if not later.all():
        index = int(np.argmin(later)) + 1
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            f"points[{index}].time_from_start: expected more than {time_ns[index - 1] * _NANOSECOND_S:.9g} s "
            f"(the point before), got {time_ns[index] * _NANOSECOND_S:.9g}",
        )
    if fields.stamp_ns and fields.stamp_ns + int(time_ns[-1]) <= now_ns:
        ended = (now_ns - fields.stamp_ns - int(time_ns[-1])) * _NANOSECOND_S
        raise Rejected(RejectionReason.INVALID_TIMES, f"header.stamp: the trajectory ended {ended:.3f} s ago")
    return time_ns, position, columns


def differentiate(
    time_ns: np.ndarray, position: np.ndarray, columns: list[int], start: StartState
) -> DifferentiatedPositions:
    """Give a checked position trajectory velocities and accelerations, in float64.

    Joints that it leaves out hold their start position. It begins with the start state: as its first point where that
    is at time 0, else as one more point before.

    Args:
        time_ns: `[N]`.
        position: `[N, k]`, rad.
        columns: the node's column of each of the k joints.
        start: one row `[1, dof]`.

    """
    held = np.asarray(start.position, np.float64)
    full = np.repeat(held, len(time_ns), axis=0)
    full[:, columns] = position
    if time_ns[0] > 0:
        full = np.concatenate([held, full])
        time_ns = np.concatenate([np.zeros(1, np.int64), time_ns])
    time_s = time_ns * _NANOSECOND_S
    velocity, acceleration = (
        None if rows is None else torch.from_numpy(np.array(rows[0], np.float64))
        for rows in (start.velocity, start.acceleration)
    )
    result = differentiate_positions(torch.from_numpy(full), torch.from_numpy(time_s), velocity, acceleration)
    return DifferentiatedPositions(time_s, Trajectory(*(tensor.numpy() for tensor in result)))
