"""Serializes messages that are published often: numpy writes the numbers, without an object for each point."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

import numpy as np
from rclpy.serialization import deserialize_message
from trajectory_msgs.msg import JointTrajectory

from ..execution.rows import Points

_SECOND_NS = 1_000_000_000
_ENCODING = b"\0\1\0\0"
"""Plain CDR, little-endian: numbers are aligned to their size, counted from the end of these bytes."""
_LENGTH = struct.Struct("<I")
_SIZES = struct.Struct("<II")
_TIME = struct.Struct("<iI")


class JointTrajectoryWriter:
    """Serializes trajectories of the same joints, with positions, velocities and, if they have them, accelerations.

    It writes into the same memory as long as trajectories have the same shape.

    Args:
        joint_names: the joints, in the order of the columns.

    Raises:
        RuntimeError: the middleware does not lay out messages in plain little-endian CDR.

    """

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        self._shape = (0, 0)
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
        shape = len(points.time_ns), 2 if points.acceleration is None else 3
        if shape != self._shape:
            self._lay_out(*shape)
        _TIME.pack_into(self._message, len(_ENCODING), *stamp)
        if points.time_ns is not self._time_ns:  # usually these are the previous trajectory's
            self._time_ns = points.time_ns
            self._times[:, 0], self._times[:, 1] = np.divmod(points.time_ns, _SECOND_NS)
        for rows, values in zip(self._motion, points[1:], strict=False):
            rows[...] = values
        return bytes(self._message)

    def _lay_out(self, count: int, quantities: int) -> None:
        """Make a message with this many points, and views of its numbers."""
        dof = len(self._joint_names)
        head = _ENCODING + bytes(_TIME.size) + _names(self._joint_names) + _SIZES.pack(count, dof)
        begin = len(head) + (len(_ENCODING) - len(head)) % 8
        # From its positions on, every point is laid out alike: only the padding before the first ones can differ.
        # Missing accelerations, and effort, have a length of 0.
        row, step = 8 * dof, 8 * dof + 8
        time, stride = quantities * row + (16 if quantities == 2 else 20), quantities * row + 32
        size = begin + (count - 1) * stride + time + _TIME.size
        data = bytearray(begin + count * stride)
        data[: len(head)] = head
        # the last length is that of the next point
        lengths = (*range(row, (quantities - 1) * step, step), time + _TIME.size)
        for at in lengths:
            np.ndarray(count, "<u4", data, begin + at, stride)[:] = dof
        self._times = np.ndarray((count, 2), "<u4", data, begin + time, (stride, 4))
        self._motion = np.ndarray((quantities, count, dof), "<f8", data, begin, (step, stride, 8))
        self._message = memoryview(data)[:size]
        self._shape, self._time_ns = (count, quantities), None


def serialize_batch(
    joint_names: tuple[str, ...],
    stamp: tuple[int, int],
    batch: int,
    horizon: int,
    time_from_start: np.ndarray,
    trajectories: Sequence[np.ndarray],
) -> list[bytes | np.ndarray]:
    """Return the bytes that rclpy would serialize for a TrajectoryBatch, except for padding, in parts to be joined.

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
    return parts


@functools.lru_cache(maxsize=16)
def _names(joint_names: tuple[str, ...]) -> bytes:
    """Return the bytes after the stamp: an empty frame name, and the names of the joints."""
    return _string("") + _LENGTH.pack(len(joint_names)) + b"".join(map(_string, joint_names))


def _string(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return _LENGTH.pack(len(raw)) + raw + bytes(-len(raw) % 4)
