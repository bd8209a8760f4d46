"""Serialized JointTrajectory messages, without an object for every point.

rclpy serializes a template once for each number of points; numpy writes the numbers into copies of it.
"""

from __future__ import annotations

import struct
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from builtin_interfaces.msg import Duration
from rclpy.serialization import deserialize_message, serialize_message
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from ..execution.points import Points

_SECOND_NS = 1_000_000_000
_TEMPLATES_KEPT = 64
_BYTES_KEPT = 64 * 1024**2
_STAMP_AT = 4  # after the four bytes that name the encoding
_TIME = struct.Struct("<iI")
_NUMBER = struct.Struct("<d")


class JointTrajectoryWriter:
    """Serializes trajectories of the same joints, with positions, velocities and, if they have them, accelerations.

    Keeps the templates of the last 64 shapes, or fewer if they take more than 64 MiB.

    Args:
        joint_names: the joints, in the order of the columns.
        counts: numbers of points for which templates, with accelerations, are made at once.

    Raises:
        RuntimeError: the middleware does not lay out messages in plain little-endian CDR.

    """

    def __init__(self, joint_names: tuple[str, ...], counts: Iterable[int] = ()) -> None:
        self._joint_names = joint_names
        self._templates: OrderedDict[tuple[int, bool], _Template] = OrderedDict()
        self._size = 0
        for count in {1, *counts}:
            self._template(count, True)

    def serialize(self, points: Points, stamp: tuple[int, int] = (0, 0)) -> bytes:
        """Return the bytes that rclpy would serialize for these points, except for the contents of padding.

        Args:
            points: at least one, of all joints, with velocities.
            stamp: seconds and nanoseconds of the start; 0 means on arrival.

        """
        return self._template(len(points.time_ns), points.acceleration is not None).filled(points, stamp)

    def _template(self, count: int, with_accelerations: bool) -> _Template:
        shape = count, with_accelerations
        template = self._templates.get(shape)
        if template is None:
            template = self._templates[shape] = _Template(self._joint_names, count, with_accelerations)
            self._size += template.size
            while len(self._templates) > 1 and (len(self._templates) > _TEMPLATES_KEPT or self._size > _BYTES_KEPT):
                self._size -= self._templates.popitem(last=False)[1].size
        else:
            self._templates.move_to_end(shape)
        return template


class _Probe(NamedTuple):
    """Numbers that are easy to find again: those of the first and the last point, and of all points between them."""

    values: np.ndarray  # [first, between, last; position, velocity and perhaps acceleration; dof]
    times: list[tuple[int, int]]  # seconds and nanoseconds
    stamp: tuple[int, int]

    @staticmethod
    def random(seed: int, dof: int, with_accelerations: bool) -> _Probe:
        rng = np.random.default_rng(seed)
        *times, stamp = (tuple(time) for time in rng.integers(2**28, 2**29, (4, 2)).tolist())
        return _Probe(rng.random((3, 2 + with_accelerations, dof)), times, stamp)

    def message(self, joint_names: tuple[str, ...], count: int) -> JointTrajectory:
        three = [
            JointTrajectoryPoint(
                positions=values[0].tolist(),
                velocities=values[1].tolist(),
                accelerations=[row for column in values[2:] for row in column.tolist()],
                time_from_start=Duration(sec=time[0], nanosec=time[1]),
            )
            for values, time in zip(self.values, self.times, strict=True)
        ]
        message = JointTrajectory(joint_names=list(joint_names), points=[three[place] for place in _places(count)])
        message.header.stamp.sec, message.header.stamp.nanosec = self.stamp
        return message

    def points(self, count: int) -> Points:
        places = _places(count)
        times = np.asarray(self.times, np.int64) @ [_SECOND_NS, 1]
        parts = list(self.values[places].swapaxes(0, 1))
        return Points(times[places], *parts, *[None] * (3 - len(parts)))


class _Template:
    """One serialized message, and views of its numbers."""

    def __init__(self, joint_names: tuple[str, ...], count: int, with_accelerations: bool) -> None:
        dof = len(joint_names)
        probe = _Probe.random(0, dof, with_accelerations)
        example = bytes(serialize_message(probe.message(joint_names, count)))
        positions, velocities, *accelerations = (example.find(_NUMBER.pack(row[0])) for row in probe.values[0])
        time = example.find(_TIME.pack(*probe.times[0]))
        stride = 0
        if count > 1:
            # From its positions on, every point has the same length: only the padding before them can differ.
            stride = example.find(_NUMBER.pack(probe.values[_places(count)[1], 0, 0])) - positions
        # The bytes that rclpy appends to the last field have no meaning.
        self.size = time + (count - 1) * stride + _TIME.size
        self._bytes = bytearray(example[: self.size])
        self._time_ns: np.ndarray | None = None
        try:
            self._moments = np.ndarray((count, 2), "<u4", self._bytes, time, (stride, 4))
            strides = (velocities - positions, stride, 8)
            self._motion = np.ndarray((2 + with_accelerations, count, dof), "<f8", self._bytes, positions, strides)
            other = _Probe.random(1, dof, with_accelerations)
            decoded = deserialize_message(self.filled(other.points(count), other.stamp), JointTrajectory)
        except (TypeError, ValueError, RuntimeError) as error:
            raise _other_layout() from error
        even = all(at - velocities == strides[0] for at in accelerations)
        if decoded != other.message(joint_names, count) or not even:
            raise _other_layout()

    def filled(self, points: Points, stamp: tuple[int, int]) -> bytes:
        _TIME.pack_into(self._bytes, _STAMP_AT, *stamp)
        if points.time_ns is not self._time_ns:  # usually they are those of the previous trajectory
            self._time_ns = points.time_ns
            self._moments[:, 0], self._moments[:, 1] = np.divmod(points.time_ns, _SECOND_NS)
        for row, values in zip(self._motion, points[1:], strict=False):
            row[...] = values
        return bytes(self._bytes)


def _places(count: int) -> list[int]:
    """Index of each of `count` points among the three of a probe."""
    return [0, *[1] * (count - 2), 2][:count]


def _other_layout() -> RuntimeError:
    return RuntimeError("joint_trajectory: expected messages in plain little-endian CDR, got another layout")
