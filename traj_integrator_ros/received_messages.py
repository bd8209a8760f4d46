"""The messages that come often, read from the bytes that came over the wire: no object of rclpy's is made of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .cdr_reader import CdrReader, RememberedNames
from .requests import SequenceFields

_SECOND_NS = 1_000_000_000


class ReceivedSequence(NamedTuple):
    """An ActionSequence."""

    stamp: tuple[int, int]
    """Seconds and nanoseconds."""
    fields: SequenceFields


class ReceivedJointState(NamedTuple):
    """What counts of a JointState."""

    stamp_ns: int
    names: tuple[str, ...]
    position: np.ndarray
    velocity: np.ndarray


class ActionSequenceReader:
    """Reads serialized ActionSequences."""

    def __init__(self) -> None:
        self._names = RememberedNames()

    def read(self, data: bytes) -> ReceivedSequence:
        """Return views of a message; it is not checked beyond that its bytes are all there.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp = reader.time("header.stamp")
        reader.string("header.frame_id")
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
        )
        return ReceivedSequence(stamp, fields)


class JointStateReader:
    """Reads serialized JointStates."""

    def __init__(self) -> None:
        self._names = RememberedNames()

    def read(self, data: bytes) -> ReceivedJointState:
        """Return views of a message; it is not checked beyond that its bytes are all there.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        sec, nanosec = reader.time("header.stamp")
        reader.string("header.frame_id")
        names = reader.strings("name", self._names)
        position, velocity = reader.array("position", "f8"), reader.array("velocity", "f8")
        reader.array("effort", "f8")
        return ReceivedJointState(sec * _SECOND_NS + nanosec, names, position, velocity)
