"""The messages that arrive often, read from their bytes: views of their arrays, with all lengths checked."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from ..handling.position_trajectory import PositionFields
from ..handling.rejection import Rejected, RejectionReason, shown
from ..handling.requests import SequenceFields

Stamp = tuple[int, int]
"""Seconds and nanoseconds."""
_SECOND_NS = 1_000_000_000
_ENCODING_SIZE = 4
_REMEMBERED_SIZE = 65_536
_MOST_STRINGS = 4096
"""Largest number of strings, which are created one by one, which takes time; no robot has as many joints."""
_EMPTY = {kind: np.empty(0, kind) for kind in ("f4", "f8", "u4")}
_LEAST_POINT_SIZE = 24  # four empty arrays and a time


class ReceivedSequence(NamedTuple):
    """An ActionSequence."""

    stamp: Stamp
    fields: SequenceFields


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

    def read(self, data: bytes, most_points: int) -> PositionFields:
        """Return views of a message, of which only the lengths are checked.

        Args:
            data: the message.
            most_points: if the message has more points, none is read.

        Raises:
            Rejected: malformed_message.

        """
        reader = CdrReader(data)
        stamp_ns = nanoseconds(stamp_of_header(reader))
        joint_names = reader.strings("joint_names", self._names)
        time_ns: list[int] = []
        positions: list[np.ndarray] = []
        count = reader.count("points", _LEAST_POINT_SIZE)
        for _ in range(count if count <= most_points else 0):
            positions.append(reader.array("points.positions", "f8"))
            for unused in ("points.velocities", "points.accelerations", "points.effort"):
                reader.array(unused, "f8")
            time_ns.append(nanoseconds(reader.time("points.time_from_start")))
        return PositionFields(joint_names, stamp_ns, count, time_ns, positions)


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


class _ByteOrder:
    """How numbers are read in one byte order: "<" or ">"."""

    def __init__(self, order: str) -> None:
        self.length = struct.Struct(f"{order}I").unpack_from
        self.pair = struct.Struct(f"{order}II").unpack_from
        self.time = struct.Struct(f"{order}iI").unpack_from
        self.double = struct.Struct(f"{order}d").unpack_from
        self.kinds = {kind: (np.dtype(order + kind), int(kind[1])) for kind in _EMPTY}


_BYTE_ORDERS = {b"\x00\x01": _ByteOrder("<"), b"\x00\x00": _ByteOrder(">")}


class RememberedNames:
    """The strings that a reader read last, with their bytes; most senders never change them."""

    def __init__(self) -> None:
        self.serialized = b""
        self.order: _ByteOrder | None = None
        self.names: tuple[str, ...] = ()


class CdrReader:
    """Reads the fields of one message in their order; plain CDR of either byte order.

    Nothing is allocated before the bytes for it are known to exist. Arrays are read-only views of `data` if its byte
    order is this machine's.

    Args:
        data: the message, with the four bytes that name its encoding.

    Raises:
        Rejected: malformed_message, from every method, naming the field.

    """

    __slots__ = ("_at", "_data", "_order", "_size")

    def __init__(self, data: bytes) -> None:
        order = _BYTE_ORDERS.get(data[:2])
        if order is None or len(data) < _ENCODING_SIZE:
            raise _malformed("message", "the four bytes that name plain CDR", data[:_ENCODING_SIZE].hex() or "nothing")
        self._data = data
        self._size = len(data)
        self._at = _ENCODING_SIZE
        self._order = order

    def time(self, field: str) -> tuple[int, int]:
        """Read seconds and nanoseconds."""
        return self._order.time(self._data, self._take(field, 8, 4))

    def pair(self, field: str) -> tuple[int, int]:
        """Read two unsigned integers of 32 bits."""
        return self._order.pair(self._data, self._take(field, 8, 4))

    def byte(self, field: str) -> int:
        """Read an unsigned integer of 8 bits."""
        return self._data[self._take(field, 1)]

    def double(self, field: str) -> float:
        """Read a number of 64 bits."""
        return self._order.double(self._data, self._take(field, 8, 8))[0]

    def skip(self, field: str, size: int, alignment: int) -> None:
        """Pass over `size` bytes."""
        self._take(field, size, alignment)

    def string(self, field: str) -> str:
        """Read a string in UTF-8."""
        size = self._length(field)
        at = self._take(field, size)
        if size <= 1:
            return ""
        raw = self._data[at : at + size].split(b"\0", 1)[0]  # as in C, it ends at the first zero
        try:
            return raw.decode()
        except UnicodeDecodeError:
            raise _malformed(field, "UTF-8", shown(raw)) from None

    def strings(self, field: str, remembered: RememberedNames) -> tuple[str, ...]:
        """Read a sequence of strings in UTF-8; returns the previous object if nothing has changed.

        Raises:
            Rejected: size_out_of_range, for more than 4096 strings.

        """
        begin = self._at + (-self._at & 3)
        serialized = remembered.serialized
        if serialized and self._order is remembered.order and self._data.startswith(serialized, begin):
            self._at = begin + len(serialized)
            return remembered.names
        count = self.count(field, 4)
        if count > _MOST_STRINGS:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE, f"{field}: expected at most {_MOST_STRINGS} names, got {count}"
            )
        names = tuple(self.string(field) for _ in range(count))
        if self._at - begin <= _REMEMBERED_SIZE:
            remembered.serialized, remembered.names = self._data[begin : self._at], names
            remembered.order = self._order
        return names

    def count(self, field: str, least_size: int) -> int:
        """Read the length of a sequence whose elements, of at least `least_size` bytes, are read one by one."""
        count = self._length(field)
        left = self._size - self._at
        if count * least_size > left:
            raise _malformed(field, f"{count} elements", f"{left} bytes")
        return count

    def array(self, field: str, kind: str) -> np.ndarray:
        """Read a sequence of numbers of a numpy kind ("f4", "f8", "u4") into an array of this machine's byte order."""
        # Everything in one function, for speed, because sequences have six arrays, most of them empty.
        at = self._at + (-self._at & 3)
        self._at = begin = at + 4
        if begin > self._size:
            raise _malformed(field, "4 bytes", str(max(0, self._size - at)))
        count = self._order.length(self._data, at)[0]
        if count == 0:
            return _EMPTY[kind]
        dtype, size = self._order.kinds[kind]
        begin += (_ENCODING_SIZE - begin) & (size - 1)
        self._at = begin + count * size
        if self._at > self._size:
            raise _malformed(field, f"{count * size} bytes", str(max(0, self._size - begin)))
        values = np.frombuffer(self._data, dtype, count, begin)
        return values if dtype.isnative else values.astype(kind)

    def _length(self, field: str) -> int:
        """Read the length of a string or sequence, which is not yet compared with the remaining bytes."""
        return self._order.length(self._data, self._take(field, 4, 4))[0]

    def _take(self, field: str, size: int, alignment: int = 1) -> int:
        """Return where `size` bytes begin and advance past them; alignment counts from the end of the encoding."""
        at = self._at
        at += (_ENCODING_SIZE - at) & (alignment - 1)
        self._at = at + size
        if self._at > self._size:
            raise _malformed(field, f"{size} bytes", str(max(0, self._size - at)))
        return at


def _malformed(field: str, expected: str, got: str) -> Rejected:
    return Rejected(RejectionReason.MALFORMED_MESSAGE, f"{field}: expected {expected}, got {got}")
