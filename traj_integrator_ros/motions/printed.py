"""Messages as `ros2 topic echo` and `rostopic echo` print them. Knows no ROS."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .batches import BATCH, motions_of_batch
from .extras import load_documents, read_text
from .joint_states import StateRow, Tell, motion_of_states
from .samples import RecordingError, Samples
from .trajectories import FIELDS, SECOND_NS, TRAJECTORY, PlannedTrajectory, Point, nanoseconds, within

_JOINT_STATE = ("name", "position")
_END = re.compile(r"^---[ \t]*$", re.MULTILINE)
_LOST = re.compile(r"^A message was lost!!!\s+total count change: ?\d+\s+total count: ?\d+(?:---)?\n?", re.MULTILINE)
"""Line that `ros2 topic echo` prints between messages if it was too slow."""
_CUT = "..."
"""Text that `ros2 topic echo` prints in place of the end of a long array."""
_CUT_ARRAY = "arrays are cut off by ros2 topic echo; give it --full-length"
_SECONDS = ("sec", "secs")
_NANOSECONDS = ("nanosec", "nsecs", "nsec")
_LONGEST_NS = 2**63
_SHOWN_KEYS = 12
_LAST_CUT = "the last message is cut off, and left out"
_EXPECTED = (
    "expected JointTrajectory messages with joint_names and points, TrajectoryBatch messages, or JointState messages "
    "with name and position, as ros2 topic echo prints them"
)


def motions_printed(path: Path, tell: Tell) -> list[PlannedTrajectory] | list[Samples]:
    """The trajectories anywhere in a file's messages, or those of its batches, or its joint states as one motion.

    A last message that is cut off is left out; nothing else is checked. Raises RecordingError where there are none.
    """
    messages, is_open = _messages(path, tell)
    if trajectories := _found(path, messages, TRAJECTORY, _trajectory, is_open, tell):
        return trajectories

    def of_batch(message: dict[str, Any]) -> list[Samples]:
        return [*motions_of_batch(_object(message), str(path))]

    if batches := _found(path, messages, BATCH, of_batch, is_open, tell):
        return [motion for batch in batches for motion in batch]
    if states := _found(path, messages, _JOINT_STATE, _state, is_open, tell):
        return [motion_of_states(states, str(path), "joint states as ROS prints them", tell)]
    keys = dict.fromkeys(str(key) for message in messages for key in message)
    got = f"messages with the keys {', '.join([*keys][:_SHOWN_KEYS])}" if keys else "no message"
    raise RecordingError(f"{path}: {_EXPECTED}, got {got}")


def messages_printed(path: Path, fields: Sequence[str], tell: Tell) -> list[SimpleNamespace]:
    """The messages in a file that have these fields, as objects. Raises RecordingError."""
    text = read_text(path)
    if not all(name in text for name in fields):  # this check takes no time
        return []
    messages, is_open = _messages(path, tell)
    return _found(path, messages, fields, _object, is_open, tell)


def _found(
    path: Path, messages: list[dict[str, Any]], fields: Sequence[str], read: Any, is_open: bool, tell: Tell
) -> list[Any]:
    """Return parts of the messages that have these fields; other messages are reported if some have them."""
    parts = [[*within(message, fields)] for message in messages]
    if 0 < (without := parts.count([])) < len(parts):
        tell(f"left out: {without} of {len(parts)} messages, which have no {' and '.join(fields)}")
    found: list[Any] = []
    for number, each in enumerate(parts):
        try:
            found += [read(one) for one in each]
        except (KeyError, AttributeError, TypeError, ValueError) as error:
            if is_open and 0 < number == len(parts) - 1:
                tell(_LAST_CUT)
                break
            problem = f"; {error} is missing" if isinstance(error, KeyError) else f": {error}"
            raise RecordingError(f"{path}: {_EXPECTED}{problem}") from None
    return found


def _messages(path: Path, tell: Tell) -> tuple[list[dict[str, Any]], bool]:
    """The messages of a file, as their fields, and whether the last one lacks its end and may be cut off."""
    text, lost = _LOST.subn("", read_text(path))
    if lost:
        tell(f"messages were lost when this was recorded ({lost} times), as ros2 topic echo says in it")
    *ended, last = _END.split(text)
    documents = [one for part in ended for one in load_documents(path, part)]
    try:
        final = load_documents(path, last)
    except RecordingError:
        if not documents:
            raise
        final = [None]
    if documents and final and not (isinstance(final[-1], dict) and not _lacks(final[-1], documents)):
        final.pop()
        tell(_LAST_CUT)
    documents += final
    messages = [one for one in documents if isinstance(one, dict)]
    if 0 < len(messages) < len(documents):
        tell(f"left out: {len(documents) - len(messages)} of {len(documents)} documents, which are no messages")
    return messages, bool(final)


def _lacks(message: Any, others: list[Any]) -> bool:
    """Return whether a message, or its last part, has some but not all fields of another one."""
    return any(_is_part(message, one) for one in others)


def _is_part(message: Any, whole: Any) -> bool:
    if isinstance(message, list) and isinstance(whole, list):
        return bool(message and whole) and _is_part(message[-1], whole[-1])
    if not (isinstance(message, dict) and isinstance(whole, dict)):
        return False
    return message.keys() < whole.keys() or any(_is_part(message[key], whole.get(key)) for key in message)


def _trajectory(message: dict[str, Any]) -> PlannedTrajectory:
    if _CUT in (points := message["points"]):
        raise ValueError("points are cut off by ros2 topic echo; give it --full-length")
    read = tuple(
        Point(_time_ns(point.get("time_from_start")), *(_numbers(point.get(field)) for field in (*FIELDS, "effort")))
        for point in points
    )
    if (stamp := _stamp_ns(message)) is None:
        raise ValueError("header.stamp is not a number")
    return PlannedTrajectory(_names(message["joint_names"]), stamp, read)


def _state(message: dict[str, Any]) -> StateRow:
    names, stamp = message["name"] or (), _stamp_ns(message)
    rows = (_numbers(message.get(field)) for field in ("position", "velocity"))
    return StateRow(_names(names), *rows, stamp or 0)


def _names(values: Sequence[object]) -> tuple[str, ...]:
    """Names of joints; YAML reads some that are not quoted as numbers, and others as yes or no."""
    if unclear := [one for one in values if one is None or isinstance(one, bool)]:
        raise ValueError(f"names that YAML reads as {unclear[0]} have to be quoted")
    return tuple(getattr(one, "written", str(one)) for one in values)


def _object(value: Any) -> Any:
    """A message as an object with its fields; arrays in it are lists."""
    if isinstance(value, dict):
        return SimpleNamespace(**{str(key): _object(one) for key, one in value.items()})
    if isinstance(value, list) and _CUT in value:
        raise ValueError(_CUT_ARRAY)
    return value


def _numbers(values: list[float] | None) -> list[float]:
    """The numbers of an array; empty for None."""
    return [float(value) for value in _object(values or [])]


def _stamp_ns(message: dict[str, Any]) -> int | None:
    """The stamp of a message's header; 0 if there is none, or if `ros2 topic pub` is to set it."""
    header = message.get("header")
    if header in (None, "auto"):
        return 0
    stamp = header.get("stamp")
    return 0 if stamp == "now" else _time_ns(stamp)


def _time_ns(value: object) -> int | None:
    """A time in s, or as ROS 1 or 2 prints or takes it, with 0 for omitted parts; None if it is not finite.

    Raises ValueError for anything else, and for times of centuries.
    """
    if value is None or isinstance(value, dict):
        value = value or {}
        if unknown := value.keys() - {*_SECONDS, *_NANOSECONDS}:
            got = ", ".join(sorted(map(str, unknown)))
            raise ValueError(f"a time has {_SECONDS[0]} and {_NANOSECONDS[0]}, got {got}")
        seconds, rest = (
            next((float(value[name]) for name in names if name in value), 0.0) for names in (_SECONDS, _NANOSECONDS)
        )
        if not (seconds.is_integer() and rest.is_integer()):
            raise ValueError(f"a time has whole numbers of {_SECONDS[0]} and {_NANOSECONDS[0]}, got {value}")
        found = int(seconds) * SECOND_NS + int(rest)
    else:
        found = nanoseconds(float(value))  # type: ignore[arg-type]
    if found is not None and abs(found) >= _LONGEST_NS:
        raise ValueError(f"no message has a time of {found / SECOND_NS:g} s")
    return found
