"""Reads messages from their bytes, and counts those lost before them.

rclpy converts them, once the number of names is known to be small. Trajectories are read here: rclpy makes objects of
each point, half a second long for 20,000 points, in which no stop could be handled.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
from rclpy.serialization import deserialize_message
from sensor_msgs.msg import JointState

from traj_integrator_interfaces.msg import ActionSequence

from ..execution.tolerances import SECOND_NS
from ..requests.position_trajectory import PositionFields
from ..requests.rejection import Rejected, RejectionReason
from ..requests.sequences import SequenceFields
from .arrays import viewed, views

Stamp = tuple[int, int]
"""A stamp: seconds and nanoseconds."""
_IN_MESSAGE = (re.sub("^(start|goal)_(?!index)", r"\1.", name) for name in SequenceFields._fields)
sequence_fields: Callable[[object], SequenceFields] = views(SequenceFields, _IN_MESSAGE)
_ENCODING = b"\0\1"
"""Plain CDR, little-endian: numbers are aligned to their size, counted from the end of the first four bytes."""
_HEADER, _LENGTH, _TIME = struct.Struct("<iII"), struct.Struct("<I"), struct.Struct("<iI")
_MOST_NAMES = 4096
"""Largest number of names in a message, each of which takes time: no robot has as many joints."""
_MOST_STATE_BYTES = 1 << 20
"""Largest size of a joint state or a report: what is not used is converted, too."""
_LEAST_POINT_SIZE = 24  # Four empty arrays and a time.
_LOOKED_AT = 256
"""Number of points that are compared at once: usually thousands of points have the same form, or no two in a row."""
_POINT = "trajectory_msgs/JointTrajectoryPoint"
_PUBLISHERS_KEPT = 64
_ONLY = b""
"""Key of the only publisher of a topic if rclpy does not identify it."""
Message = TypeVar("Message")


def read_action_sequence(data: bytes) -> tuple[Stamp, SequenceFields]:
    """Return stamp and fields of a serialized ActionSequence.

    Raises:
        Rejected: malformed_message, or size_out_of_range for more than 4096 names.

    """
    message = _converted(data, ActionSequence)
    return _stamp_of(message), sequence_fields(message)


def read_joint_state(data: bytes) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, int]:
    """Return names, positions, velocities and the stamp, ns, of a serialized JointState. Raises Rejected."""
    message = _converted(data, JointState, _MOST_STATE_BYTES)
    return tuple(message.name), viewed(message.position), viewed(message.velocity), nanoseconds(_stamp_of(message))


def controller_state_reader(kind: type) -> Callable[[bytes], tuple]:
    """Return a function that reads serialized JointTrajectoryControllerStates of the release with this message type.

    It returns names; position, velocity and acceleration of the reference, empty where the controller leaves them out;
    the stamp, ns; and the speed scaling, 1 where the release has no such field.

    Raises:
        ValueError: a field that is needed is missing, or has another type.

    """
    types = kind.get_fields_and_field_types()
    for name, needed in {"joint_names": "sequence<string>", "reference": _POINT}.items():
        if types.get(name) != needed:
            raise ValueError(f"JointTrajectoryControllerState.{name}: expected {needed}, got {types.get(name)}")

    def read(data: bytes) -> tuple:
        message = _converted(data, kind, _MOST_STATE_BYTES)
        point, speed = message.reference, getattr(message, "speed_scaling_factor", 1.0)
        parts = map(viewed, (point.positions, point.velocities, point.accelerations))
        return tuple(message.joint_names), *parts, nanoseconds(_stamp_of(message)), speed

    return read


def read_position_trajectory(data: bytes, most_points: int) -> PositionFields:
    """Return the points of a serialized JointTrajectory without efforts; no points if there are more than the most.

    Raises:
        Rejected: malformed_message, or size_out_of_range for more than 4096 names.

    """
    stamp, count, at = _head(data)
    names = []
    try:
        for _ in range(count):
            at += -at % 4
            at, size = at + 4, _LENGTH.unpack_from(data, at)[0]
            _require_room(data, at, size)
            names.append(data[at : at + size].partition(b"\0")[0].decode(errors="replace"))
            at += size
        at += -at % 4
        count = _LENGTH.unpack_from(data, at)[0]
        _require_room(data, at + 4, _LEAST_POINT_SIZE * count)
        runs = [*_runs(data, at + 4, count)] if count <= most_points else []
    except struct.error:
        raise RejectionReason.MALFORMED_MESSAGE.of(
            "message", "all bytes of a JointTrajectory", f"{len(data)}"
        ) from None
    columns = [*zip(*runs, strict=True)] or [()] * 4
    times_ns = np.concatenate([np.zeros(0, np.int64), *columns.pop()])
    return PositionFields(tuple(names), nanoseconds(stamp), count, times_ns, *map(_rows, columns))


def stamp_of_message(data: bytes) -> Stamp:
    """Return the stamp of a message that begins with a header, or 0 if it cannot be read."""
    try:
        return _head(data)[0]
    except Rejected:
        return (0, 0)


def nanoseconds(time: Stamp) -> int:
    """Return a time in nanoseconds."""
    return time[0] * SECOND_NS + time[1]


def _stamp_of(message: object) -> Stamp:
    stamp = message.header.stamp
    return stamp.sec, stamp.nanosec


def _converted(data: bytes, kind: type[Message], most_bytes: int | None = None) -> Message:
    if most_bytes is not None and len(data) > most_bytes:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of("message", f"at most {most_bytes} bytes", len(data))
    _head(data)
    try:
        return deserialize_message(data, kind)
    except Exception:  # releases raise errors of several types
        raise RejectionReason.MALFORMED_MESSAGE.of(
            "message", f"the bytes of a {kind.__name__}", f"{len(data)} others"
        ) from None


def _head(data: bytes) -> tuple[Stamp, int, int]:
    """Return the stamp with which a message begins, the number of names after its header, and where they begin."""
    if data[:2] != _ENCODING:
        raise RejectionReason.MALFORMED_MESSAGE.of("message", "plain little-endian CDR", data[:4].hex() or "nothing")
    try:
        *stamp, size = _HEADER.unpack_from(data, 4)
        at = 16 + size
        at += -at % 4
        count = _LENGTH.unpack_from(data, at)[0]
        _require_room(data, at + 4, 4 * count)
    except struct.error:
        raise RejectionReason.MALFORMED_MESSAGE.of("message", "a header and names", f"{len(data)} bytes") from None
    if count > _MOST_NAMES:
        raise RejectionReason.SIZE_OUT_OF_RANGE.of("names", f"at most {_MOST_NAMES}", count)
    return tuple(stamp), count, at + 4


def _runs(data: bytes, at: int, count: int) -> Iterator[list[np.ndarray]]:
    """Yield positions, velocities, accelerations `[N, length]` and times, ns, of points in a row with equal lengths."""
    while count:
        arrays, time = _point(data, at)
        step = time + _TIME.size - at
        # otherwise the next point is aligned differently
        most = min(count, _LOOKED_AT, (len(data) - at) // step) if step % 8 == 0 else 1
        same = np.ones(most, bool)
        for place, length, _ in arrays:
            same &= np.ndarray(most, "<u4", data, place, step) == length
        alike = most if same.all() else int(same.argmin())
        rows = [np.ndarray((alike, length), "<f8", data, first, (step, 8)) for _, length, first in arrays[:3]]
        seconds, ns = np.ndarray(alike, "<i4", data, time, step), np.ndarray(alike, "<u4", data, time + 4, step)
        yield [*rows, seconds.astype(np.int64) * SECOND_NS + ns]
        count -= alike
        at += alike * step


def _point(data: bytes, at: int) -> tuple[list[tuple[int, int, int]], int]:
    """Return, for each array of a point, the places of its length and its numbers around its length; then the time's.

    Raises struct.error.
    """
    arrays = []
    for _ in range(4):
        place, length = at, _LENGTH.unpack_from(data, at)[0]
        at += 4
        at += (4 - at) % 8 if length else 0
        _require_room(data, at, 8 * length)
        arrays.append((place, length, at))
        at += 8 * length
    _require_room(data, at, _TIME.size)
    return arrays, at


def _rows(runs: tuple[np.ndarray, ...]) -> np.ndarray | list[np.ndarray]:
    """Join the rows of all runs, into one array if they are equally long."""
    if len({run.shape[1] for run in runs}) == 1:
        return np.concatenate(runs).astype(np.float64, copy=False)
    return [row for run in runs for row in run.astype(np.float64, copy=False)]


def _require_room(data: bytes, at: int, size: int) -> None:
    """Check that the message has this many bytes from a place on. Raises struct.error."""
    if size > len(data) - at:
        raise struct.error


# Sequence numbers that publishers give to their messages


class SequenceGaps:
    """Counts messages of one topic that never arrived, publisher by publisher.

    The middleware's message-lost event does not report samples that newer ones replaced in a bounded queue; the
    sequence numbers of each publisher's samples reveal them.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[bytes, int] = OrderedDict()

    def missed_before(self, info: Mapping[str, object], count_publishers: Callable[[], int] | None = None) -> int:
        """Return how many messages of the same publisher were lost since its previous one.

        Args:
            info: the message info of rclpy; without a sequence number (other middleware), the result is 0.
            count_publishers: counts the publishers of the topic; None if there is one. Called if the info does not name
                the publisher (Jazzy): the numbers of several publishers cannot be distinguished then, and the result is
                0.

        """
        number = info.get("publication_sequence_number")
        if not isinstance(number, int):
            return 0
        publisher = info.get("publisher_gid")
        if isinstance(publisher, Mapping):
            identity = bytes(publisher["data"])
        elif count_publishers is None or count_publishers() == 1:
            identity = _ONLY
        else:
            self._last.pop(_ONLY, None)
            return 0
        last = self._last.get(identity)
        self._last[identity] = number
        self._last.move_to_end(identity)
        if len(self._last) > _PUBLISHERS_KEPT:
            self._last.popitem(last=False)
        # The first message of a publisher gives no information, because it may have published before we joined.
        return 0 if last is None else max(0, number - last - 1)
