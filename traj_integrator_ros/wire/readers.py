"""Reads messages that arrive often from their bytes, with lengths checked, and counts those lost before them."""

from __future__ import annotations

import importlib
import re
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from sensor_msgs.msg import JointState
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import ActionSequence

from ..requests.position_trajectory import PositionFields
from ..requests.rejection import Rejected, RejectionReason, shown
from ..requests.sequences import SequenceFields

Stamp = tuple[int, int]
"""A stamp: seconds and nanoseconds."""
SEQUENCE_FIELDS = tuple(re.sub("^(start|goal)_(?!index)", r"\1.", name) for name in SequenceFields._fields)
"""The fields of `SequenceFields` by their names in the message."""
_SECOND_NS = 1_000_000_000
_ENCODING_SIZE = 4
_BYTE_ORDERS = {b"\x00\x01": "<", b"\x00\x00": ">"}
_MOST_STRINGS = 4096
"""Largest number of strings in a message, each of which takes time: no robot has as many joints."""
_POINT = "trajectory_msgs/JointTrajectoryPoint"
_LEAST_POINT_SIZE = 24  # Four empty arrays and a time.
_NUMBERS = {"uint8": "B", "uint32": "I", "double": "d"} | dict.fromkeys(
    ("builtin_interfaces/Time", "builtin_interfaces/Duration"), "iI"
)
_ARRAYS = {
    "float": "f4",
    "double": "f8",
    "uint32": "u4",
    "geometry_msgs/Transform": "V56",
    "geometry_msgs/Twist": "V48",
}
"""numpy types of arrays that are read as a whole; frames, which consist of doubles, are only skipped."""
_LOOKED_AT = 256
"""Number of points that are compared at once: usually thousands of points have the same form, or no two in a row."""
_PUBLISHERS_KEPT = 64
_ONLY = b""
"""Key of the only publisher of a topic if rclpy does not identify it."""


class _Field(NamedTuple):
    """A field of serialized messages in one byte order: numbers, or a length with the elements after it."""

    name: str
    unpack: Callable[[bytes, int], tuple]
    size: int
    mask: int
    """Alignment minus one, bytes."""
    follows: Callable[[bytes, int, int], tuple[Any, int]] | None = None
    """Reads elements after a length, given the message, a place and the length; returns their value and their end."""
    array: tuple[np.dtype, int, np.ndarray] | None = None
    """If an array follows: its type, its alignment minus one, and an empty array."""
    numbers: np.dtype | None = None
    """Type of the numbers, or of the length."""


class FieldReader:
    """Reads fields of serialized messages of one type: plain CDR of either byte order.

    Nothing is allocated before its bytes are known to exist. Arrays are read-only views of the message if its byte
    order is this machine's. As long as the bytes of names do not change, the same object is returned.

    Args:
        types: type of each field by its name, in order, as `get_fields_and_field_types` returns them.
        wanted: the fields to return, in this order; fields of a nested message follow a dot.

    Raises:
        ValueError: a field is missing, or has an unknown type.

    """

    def __init__(self, types: Mapping[str, str], wanted: Sequence[str]) -> None:
        self._fields = {}
        for encoding, order in _BYTE_ORDERS.items():
            fields = tuple(_fields(types, order))
            names = [field.name for field in fields]
            if missing := [name for name in wanted if name not in names]:
                raise ValueError(f"{missing[0]}: expected such a field, got {', '.join(types)}")
            places = [names.index(name) for name in wanted]
            self._fields[encoding] = fields[: max(places) + 1]  # The rest is not needed.
        self._pick = itemgetter(*places)

    def __call__(self, data: bytes) -> Any:
        """Return the wanted fields as a tuple, or the only one; of arrays, only the lengths are checked.

        Points are returned as their number and an iterator that reads their fields.

        Raises:
            Rejected: malformed_message, naming the field, or size_out_of_range for more than 4096 strings.

        """
        fields = self._fields.get(data[:2])
        if fields is None:
            raise _malformed("message", "the four bytes that name plain CDR", data[:_ENCODING_SIZE].hex() or "nothing")
        return self._pick(_read_fields(fields, data, _ENCODING_SIZE)[0])


def _fields(types: Mapping[str, str], order: str, within: str = "") -> Iterator[_Field]:
    """Yield the fields of a type and of its nested messages, in order."""
    length = struct.Struct(f"{order}I").unpack_from
    for name, kind in types.items():
        field, element = f"{within}{name}", kind.removeprefix("sequence<").removesuffix(">")
        if kind in _NUMBERS:
            form = order + _NUMBERS[kind]
            alignment = struct.calcsize(form[1])
            numbers = np.dtype([(letter, order + letter) for letter in _NUMBERS[kind]])
            yield _Field(field, struct.Struct(form).unpack_from, struct.calcsize(form), alignment - 1, numbers=numbers)
            continue
        if kind == "string":
            follows = _read_string
        elif element == kind:
            yield from _fields(_types_of(kind, field), order, f"{field}.")
            continue
        elif element == "string":
            follows = _Names(field, length).read
        elif element == _POINT:
            follows = partial(_read_points, tuple(_fields(_types_of(_POINT, field), order, f"{field}.")))
        elif element in _ARRAYS:
            dtype = np.dtype(order + _ARRAYS[element])
            array = dtype, min(dtype.itemsize, 8) - 1, np.empty(0, _ARRAYS[element])
            yield _Field(field, length, 4, 3, array=array, numbers=np.dtype(f"{order}u4"))
            continue
        else:
            raise ValueError(f"{field}: expected one of {', '.join(_ARRAYS)}, got {kind}")
        yield _Field(field, length, 4, 3, follows)


def _types_of(kind: str, field: str) -> Mapping[str, str]:
    package, _, name = kind.partition("/")
    try:
        return getattr(importlib.import_module(f"{package}.msg"), name).get_fields_and_field_types()
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{field}: expected a message type that can be imported, got {kind}: {error}") from None


def _read_fields(fields: tuple[_Field, ...], data: bytes, at: int) -> tuple[list, int]:
    """Read fields from a place on; returns their values, and where they end."""
    values = []
    name = ""
    try:
        for name, unpack, size, mask, follows, array, _ in fields:  # noqa: B007 - for errors
            at += (_ENCODING_SIZE - at) & mask  # alignment counts from the end of the encoding
            found = unpack(data, at)
            at += size
            if array is not None:
                dtype, mask, value = array
                if found[0]:
                    at += (_ENCODING_SIZE - at) & mask
                    value = np.frombuffer(data, dtype, found[0], at)
                    at += value.nbytes
                    value = value if dtype.isnative else value.astype(dtype.newbyteorder())
            elif follows is not None:
                value, at = follows(data, at, found[0])
            else:
                value = found if len(found) > 1 else found[0]
            values.append(value)
    except UnicodeDecodeError as error:
        raise _malformed(name, "UTF-8", shown(error.object)) from None
    except (struct.error, ValueError):
        raise _malformed(name, "all of its bytes", f"a message of {len(data)}") from None
    return values, at


def _read_string(data: bytes, at: int, size: int) -> tuple[str, int]:
    _require_room(data, at, size)
    return data[at : at + size].partition(b"\0")[0].decode(), at + size  # as in C, a name ends at the first zero


class _Names:
    """Reads strings and caches them by their bytes, since most senders never change them."""

    def __init__(self, field: str, length: Callable[[bytes, int], tuple]) -> None:
        self._field, self._length = field, length
        self._serialized, self._names = b"", ()

    def read(self, data: bytes, at: int, count: int) -> tuple[tuple[str, ...], int]:
        begin = at - 4
        if self._serialized and data.startswith(self._serialized, begin):
            return self._names, begin + len(self._serialized)
        _require_room(data, at, 4 * count)
        if count > _MOST_STRINGS:
            raise Rejected(
                RejectionReason.SIZE_OUT_OF_RANGE, f"{self._field}: expected at most {_MOST_STRINGS} names, got {count}"
            )
        names = []
        for _ in range(count):
            at += -at & 3
            one, at = _read_string(data, at + 4, self._length(data, at)[0])
            names.append(one)
        self._serialized, self._names = data[begin:at], tuple(names)
        return self._names, at


def _read_points(fields: tuple[_Field, ...], data: bytes, at: int, count: int) -> tuple[tuple[int, Iterator], int]:
    """Return the number of points and an iterator that reads their fields; fields after them cannot be read."""
    _require_room(data, at, _LEAST_POINT_SIZE * count)

    def runs(at: int) -> Iterator[list[np.ndarray]]:
        left = count
        while left:
            values, end = _read_fields(fields, data, at)
            alike = _alike(fields, values, data, at, end, min(left, _LOOKED_AT))
            yield alike
            left -= len(alike[0])
            at += len(alike[0]) * (end - at)

    return (count, runs(at)), len(data)


def _alike(fields: tuple[_Field, ...], values: list, data: bytes, at: int, end: int, most: int) -> list[np.ndarray]:
    """Return views `[N, length]` of the fields of a point and of the next points whose arrays are as long.

    Args:
        fields: of a point.
        values: of the first one.
        data: the message.
        at: where it begins.
        end: where it ends; the others lie behind it, each in as many bytes.
        most: number of points that there are.

    """
    step = end - at
    # otherwise the next point is aligned differently
    most = min(most, (len(data) - at) // step) if step % 8 == 0 else 1

    def column(dtype: np.dtype, place: int, width: int) -> np.ndarray:
        return np.ndarray((most, width), dtype, data, place, (step, dtype.itemsize))

    columns, same, place = [], np.ones(most, bool), at
    for field, value in zip(fields, values, strict=True):
        place += (_ENCODING_SIZE - place) & field.mask
        numbers = column(field.numbers, place, 1)[:, 0]
        place += field.size
        if field.array is not None:
            same &= numbers == len(value)
            dtype, mask, numbers = *field.array[:2], np.empty((most, 0))
            if len(value):
                place += (_ENCODING_SIZE - place) & mask
                numbers = column(dtype, place, len(value))
            place += value.nbytes
        columns.append(numbers)
    count = most if same.all() else int(same.argmin())
    return [values[:count] for values in columns]


def _require_room(data: bytes, at: int, size: int) -> None:
    """Check that the message has this many bytes from a place on. Raises ValueError."""
    if size > len(data) - at:
        raise ValueError


def _malformed(field: str, expected: str, got: str) -> Rejected:
    return Rejected(RejectionReason.MALFORMED_MESSAGE, f"{field}: expected {expected}, got {got}")


# The messages

_stamp = FieldReader({"header": "std_msgs/Header"}, ["header.stamp"])
_action_sequence = FieldReader(ActionSequence.get_fields_and_field_types(), ["header.stamp", *SEQUENCE_FIELDS])
_position_trajectory = FieldReader(
    JointTrajectory.get_fields_and_field_types(), ["joint_names", "header.stamp", "points"]
)
_joint_state = FieldReader(
    JointState.get_fields_and_field_types(), ["name", "position", "velocity", "header.stamp", "effort"]
)


def read_action_sequence(data: bytes) -> tuple[Stamp, SequenceFields]:
    """Return stamp and views of a serialized ActionSequence. Raises Rejected as `FieldReader` does."""
    stamp, *fields = _action_sequence(data)
    return stamp, SequenceFields._make(fields)


def read_position_trajectory(data: bytes, most_points: int) -> PositionFields:
    """Return the points of a serialized JointTrajectory without efforts; no points if there are more than the most."""
    names, stamp, (count, points) = _position_trajectory(data)
    positions, velocities, accelerations, times_ns = [], [], [], [np.zeros(0, np.int64)]
    for *parts, _, time in points if count <= most_points else ():
        for values, part in zip((positions, velocities, accelerations), parts, strict=True):
            values.append(part)
        times_ns.append(time["i"].astype(np.int64) * _SECOND_NS + time["I"])
    parts = map(_rows, (positions, velocities, accelerations))
    return PositionFields(names, nanoseconds(stamp), count, np.concatenate(times_ns), *parts)


def _rows(runs: list[np.ndarray]) -> np.ndarray | list[np.ndarray]:
    """Join the rows of all runs, into one array if they are equally long."""
    if len({run.shape[1] for run in runs}) == 1:
        return np.concatenate(runs).astype(np.float64, copy=False)
    return [row for run in runs for row in run.astype(np.float64, copy=False)]


def read_joint_state(data: bytes) -> tuple[tuple[str, ...], np.ndarray, np.ndarray, int]:
    """Return names, positions, velocities and the stamp, ns, of a serialized JointState."""
    names, position, velocity, stamp, _ = _joint_state(data)
    return names, position, velocity, nanoseconds(stamp)


def controller_state_reader(types: Mapping[str, str]) -> Callable[[bytes], tuple]:
    """Return a function that reads serialized JointTrajectoryControllerStates of the release that has these fields.

    It returns names; position, velocity and acceleration of the reference, empty where the controller leaves them out;
    the stamp, ns; and the speed scaling, 1 where the release has no such field.

    Raises:
        ValueError: a field that is needed is missing, or one has an unknown type.

    """
    message = "JointTrajectoryControllerState"
    for name, needed in {"joint_names": "sequence<string>", "reference": _POINT}.items():
        if types.get(name) != needed:
            raise ValueError(f"{message}.{name}: expected {needed}, got {types.get(name)}")
    parts = (f"reference.{part}" for part in ("positions", "velocities", "accelerations", "time_from_start"))
    scaling = [name for name in types if name == "speed_scaling_factor"]
    try:
        fields = FieldReader(types, ["joint_names", *parts, "header.stamp", *scaling])
    except ValueError as error:
        raise ValueError(f"{message}.{error}") from None

    def read(data: bytes) -> tuple:
        names, position, velocity, acceleration, _, stamp, *speed = fields(data)
        return names, position, velocity, acceleration, nanoseconds(stamp), *(speed or [1.0])

    return read


def stamp_of_message(data: bytes) -> Stamp:
    """Return the stamp of a message that begins with a header, or 0 if it cannot be read."""
    try:
        return _stamp(data)
    except Rejected:
        return (0, 0)


def nanoseconds(time: Stamp) -> int:
    """Return a time in nanoseconds."""
    return time[0] * _SECOND_NS + time[1]


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
