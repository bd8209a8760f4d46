"""Serialized TrajectoryBatch messages: each array is copied once."""

from __future__ import annotations

import functools
import struct
from collections.abc import Sequence

import numpy as np
from rclpy.serialization import deserialize_message, serialize_message

from traj_integrator_interfaces.msg import TrajectoryBatch

_STAMP = struct.Struct("<iI")
_SIZES = struct.Struct("<II")
_LENGTH = struct.Struct("<I")
_ENCODING_SIZE = 4


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

    Raises:
        RuntimeError: the middleware does not lay out messages in plain little-endian CDR.

    """
    encoding, names = _head(joint_names)
    return _joined(encoding, names, *stamp, batch, horizon, (time_from_start, *trajectories))


@functools.lru_cache(maxsize=16)
def _head(joint_names: tuple[str, ...]) -> tuple[bytes, bytes]:
    """The constant parts: the name of the encoding, and the bytes between stamp and batch."""
    numbers = np.random.default_rng(0).integers(2**28, 2**29, 4).tolist()
    example = TrajectoryBatch(joint_names=list(joint_names), batch=numbers[2], horizon=numbers[3])
    example.header.stamp.sec, example.header.stamp.nanosec = numbers[:2]
    serialized = bytes(serialize_message(example))
    sizes_at = serialized.find(_SIZES.pack(*numbers[2:]))
    encoding, names = serialized[:_ENCODING_SIZE], serialized[_ENCODING_SIZE + _STAMP.size : sizes_at]
    fields = ("time_from_start", "position", "velocity", "acceleration", "jerk")
    arrays = [np.full(length, length, np.float32) for length in range(1, len(fields) + 1)]
    for field, values in zip(fields, arrays, strict=True):
        setattr(example, field, values.tolist())
    if deserialize_message(_joined(encoding, names, *numbers, arrays), TrajectoryBatch) != example:
        raise RuntimeError("trajectory_batch: expected messages in plain little-endian CDR, got another layout")
    return encoding, names


def _joined(
    encoding: bytes, names: bytes, sec: int, nanosec: int, batch: int, horizon: int, arrays: Sequence[np.ndarray]
) -> bytes:
    parts = [encoding, _STAMP.pack(sec, nanosec), names, _SIZES.pack(batch, horizon)]
    for values in arrays:
        parts += (_LENGTH.pack(values.size), values)
    return b"".join(parts)
