"""Serializes messages that are published often: numpy writes the numbers, without an object for each point."""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping, Sequence

import numpy as np
from rclpy.serialization import deserialize_message
from trajectory_msgs.msg import JointTrajectory

from ..execution.rows import Points
from ..execution.tolerances import SECOND_NS

_ENCODING = b"\0\1\0\0"
"""Plain CDR, little-endian: numbers are aligned to their size, counted from the end of these bytes."""
_LENGTH = struct.Struct("<I")
_SIZES = struct.Struct("<II")
_TIME = struct.Struct("<iI")


class JointTrajectoryWriter:
    """Serializes trajectories of the same joints, with positions, velocities and, if they have them, accelerations.

    Args:
        joint_names: the joints, in the order of the columns.

    Raises:
        RuntimeError: the middleware does not lay out messages in plain little-endian CDR.

    """

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        rows = np.arange(2.0 * len(joint_names)).reshape(2, -1)
        decoded = deserialize_message(self.serialize(Points(np.arange(2), rows, -rows, None)), JointTrajectory)
        found = [[*point.positions, *point.velocities] for point in decoded.points]
        if tuple(decoded.joint_names) != joint_names or found != np.hstack([rows, -rows]).tolist():
            raise RuntimeError("joint_trajectory: expected messages in plain little-endian CDR, got another layout")

    def serialize(self, points: Points, stamp: tuple[int, int] = (0, 0)) -> bytes:
        """Return the bytes that rclpy would serialize for these points, except for the contents of padding.

        Args:
            points: at least one, of all joints, with velocities.
            stamp: seconds and nanoseconds of the start; 0 means on arrival.

        """
        names, dof = self._joint_names, len(self._joint_names)
        head = _ENCODING + _TIME.pack(*stamp) + _names(names) + _SIZES.pack(len(points.time_ns), dof)
        head += bytes((len(_ENCODING) - len(head)) % 8)
        rows = np.zeros(len(points.time_ns), _point(dof, points.acceleration is not None))
        rows["position"], rows["velocities"], rows["velocity"] = points.position, dof, points.velocity
        if points.acceleration is not None:
            rows["accelerations"], rows["acceleration"] = dof, points.acceleration
        rows["time"][:, 0], rows["time"][:, 1] = np.divmod(points.time_ns, SECOND_NS)
        rows["next"] = dof
        return b"".join((head, rows.view(np.uint8)[: -rows.dtype["next"].itemsize]))


@functools.lru_cache(maxsize=4)
def _point(dof: int, has_accelerations: bool) -> np.dtype:
    """Return the layout of a point from its positions to the number of positions of the next one.

    A number of values takes 4 bytes, or 8 with the padding before values; those of efforts, and of accelerations that
    are missing, are 0.
    """
    values = ("<f8", (dof,))
    parts = [("position", *values), ("velocities", "<u8"), ("velocity", *values)]
    if has_accelerations:
        parts += [("accelerations", "<u8"), ("acceleration", *values), ("efforts", "<u4")]
    else:
        parts += [("accelerations and efforts", "<u8")]
    return np.dtype([*parts, ("time", "<u4", 2), ("next", "<u4" if has_accelerations else "<u8")])


def serialize_batch(
    joint_names: tuple[str, ...],
    stamp: tuple[int, int],
    batch: int,
    horizon: int,
    time_from_start: np.ndarray,
    trajectories: Sequence[np.ndarray],
) -> bytes:
    """Return the bytes that rclpy would serialize for a TrajectoryBatch, except for padding.

    Args:
        joint_names: order of the columns.
        stamp: seconds and nanoseconds, of the header.
        batch: number of trajectories.
        horizon: number of points of each.
        time_from_start: s, float32, contiguous, as are the others.
        trajectories: position, velocity, acceleration and jerk, `[batch, horizon, dof]`.

    """
    parts = [_ENCODING, _TIME.pack(*stamp), _names(joint_names), _SIZES.pack(batch, horizon)]
    for values in (time_from_start, *trajectories):
        parts += (_LENGTH.pack(values.size), values)
    return b"".join(parts)


def serialize_status(
    stamp: tuple[int, int], level: bytes, name: str, message: str, hardware_id: str, values: Mapping[str, str]
) -> bytes:
    """Return the bytes of a DiagnosticArray with one status; most strings are those of the status before."""
    parts = [_ENCODING, _TIME.pack(*stamp), _string(""), _LENGTH.pack(1), level.ljust(4, b"\0")]
    parts += map(_string, (name, message, hardware_id))
    parts.append(_LENGTH.pack(len(values)))
    for pair in values.items():
        parts += map(_string, pair)
    return b"".join(parts)


@functools.lru_cache(maxsize=16)
def _names(joint_names: tuple[str, ...]) -> bytes:
    """Return the bytes after the stamp: an empty frame name, and the names of the joints."""
    return _string("") + _LENGTH.pack(len(joint_names)) + b"".join(map(_string, joint_names))


@functools.lru_cache(maxsize=1024)
def _string(text: str) -> bytes:
    raw = text.encode(errors="replace") + b"\0"
    return _LENGTH.pack(len(raw)) + raw + bytes(-len(raw) % 4)
