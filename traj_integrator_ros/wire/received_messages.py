"""The messages that arrive often, read from their bytes, without creating rclpy objects."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..handling.position_trajectory import PositionFields
from ..handling.rejection import Rejected
from ..handling.requests import SequenceFields
from .cdr_reader import CdrReader, RememberedNames

_SECOND_NS = 1_000_000_000
_LEAST_POINT_SIZE = 24  # four empty arrays and a time
Stamp = tuple[int, int]
"""Seconds and nanoseconds."""


class ReceivedSequence(NamedTuple):
    """An ActionSequence."""

    stamp: Stamp
    fields: SequenceFields


class ReceivedPositions(NamedTuple):
    """The fields of a JointTrajectory that are used."""

    stamp: Stamp
    fields: PositionFields


class ReceivedJointState(NamedTuple):
    """The fields of a JointState that are used."""

    stamp_ns: int
    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray


class ActionSequenceReader:
    """Reads serialized ActionSequences."""

    def __init__(self) -> None:
        self._names = RememberedNames()

    def read(self, data: bytes) -> ReceivedSequence:
        """Return views of a message, of which only the lengths are checked.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp = stamp_of_header(reader)
        joint_names = reader.strings("joint_names", self._names)
        control_space = reader.byte("control_space")
        batch, horizon = reader.pair("batch, horizon")
        fields = SequenceFields(
            joint_names=joint_names,
            control_space=control_space,
            batch=batch,
            horizon=horizon,
            dt=reader.array("dt", "f4"),
            start_position=reader.array("start.position", "f4"),
            start_velocity=reader.array("start.velocity", "f4"),
            start_acceleration=reader.array("start.acceleration", "f4"),
            start_index=reader.array("start_index", "u4"),
            data=reader.array("data", "f4"),
            goal_position=reader.array("goal.position", "f4"),
            goal_velocity=reader.array("goal.velocity", "f4"),
            goal_acceleration=reader.array("goal.acceleration", "f4"),
            goal_index=reader.array("goal_index", "u4"),
            degree=reader.byte("degree"),
            steps=reader.byte("steps"),
        )
        return ReceivedSequence(stamp, fields)


class PositionTrajectoryReader:
    """Reads serialized JointTrajectories for their positions and times."""

    def __init__(self) -> None:
        self._names = RememberedNames()

    def read(self, data: bytes, most_points: int) -> ReceivedPositions:
        """Return views of a message, of which only the lengths are checked.

        Args:
            data: the message.
            most_points: if the message has more points, none is read.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp = stamp_of_header(reader)
        joint_names = reader.strings("joint_names", self._names)
        time_ns: list[int] = []
        positions: list[np.ndarray] = []
        count = reader.count("points", _LEAST_POINT_SIZE)
        for _ in range(count if count <= most_points else 0):
            positions.append(reader.array("points.positions", "f8"))
            for unused in ("points.velocities", "points.accelerations", "points.effort"):
                reader.array(unused, "f8")
            time_ns.append(nanoseconds(reader.time("points.time_from_start")))
        return ReceivedPositions(stamp, PositionFields(joint_names, nanoseconds(stamp), count, time_ns, positions))


class JointStateReader:
    """Reads serialized JointStates."""

    def __init__(self) -> None:
        self._names = RememberedNames()

    def read(self, data: bytes) -> ReceivedJointState:
        """Return views of a message, of which only the lengths are checked.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp_ns = nanoseconds(stamp_of_header(reader))
        names = reader.strings("name", self._names)
        position, velocity = reader.array("position", "f8"), reader.array("velocity", "f8")
        reader.array("effort", "f8")
        return ReceivedJointState(stamp_ns, names, position, velocity)


def stamp_of_message(data: bytes) -> Stamp:
    """Stamp of a message that begins with a header, as far as it can be read; otherwise 0."""
    try:
        return CdrReader(data).time("header.stamp")
    except Rejected:
        return (0, 0)


def nanoseconds(time: Stamp) -> int:
    """Return a time in nanoseconds."""
    return time[0] * _SECOND_NS + time[1]


def stamp_of_header(reader: CdrReader) -> Stamp:
    """Read a std_msgs/Header, of which only the stamp is used."""
    stamp = reader.time("header.stamp")
    reader.string("header.frame_id")
    return stamp
