"""Reads rosbag2 recordings with the `rosbags` library, so that no ROS installation is needed."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .door import reading
from .extras import require
from .joint_states import StateRow, Tell
from .samples import RecordingError
from .storage import Counts, complete_files

JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
OUR_INTERFACES = "traj_integrator_interfaces"
ACTION_SEQUENCE, TRAJECTORY_BATCH = (f"{OUR_INTERFACES}/msg/{name}" for name in ("ActionSequence", "TrajectoryBatch"))
DEFAULT_TOPIC = "/joint_states"


def state_of(message: Any, recorded_ns: int | None) -> StateRow:
    """The fields of a JointState message."""
    stamp = message.header.stamp
    stamp_ns = stamp.sec * 10**9 + stamp.nanosec
    return StateRow(tuple(message.name), message.position, message.velocity, stamp_ns, recorded_ns)


def usable_state(message: Any) -> dict[str, tuple[float, float]]:
    """Position and velocity of those joints of a JointState message that have a position; NaN: no velocity."""
    names, position, velocity = list(message.name), message.position, message.velocity
    if len(position) != len(names):
        return {}
    rates = velocity if len(velocity) == len(names) else [math.nan] * len(names)
    return {name: (p, v) for name, p, v in zip(names, position, rates, strict=True) if not math.isnan(p)}


@contextmanager
def open_bag(path: Path, tell: Tell) -> Iterator[tuple[Any, Counts]]:
    """Open a rosbags reader, and how many messages the metadata counts; errors become a RecordingError of one line."""
    require("rosbags", "reading bags")
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    with reading(path), complete_files(path, tell) as (files, counts):
        types = get_typestore(Stores.ROS2_HUMBLE)
        for name, text in _our_definitions().items():
            types.register(get_types_from_msg(text, name))
        with AnyReader(files, default_typestore=types) as reader:
            for one in reader.connections:
                if one.ext.serialization_format not in ("", "cdr"):
                    got = f"{one.ext.serialization_format} on {one.topic}"
                    raise RecordingError(f"{path}: expected messages in CDR, got {got}")
            yield reader, counts


def _our_definitions() -> dict[str, str]:
    """Definitions of our own messages, for bags that do not contain them (before ROS 2 Iron)."""
    for prefix in [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]:
        folder = Path(prefix) / "share" / OUR_INTERFACES / "msg"
        if prefix and folder.is_dir():
            return {f"{OUR_INTERFACES}/msg/{file.stem}": file.read_text() for file in sorted(folder.glob("*.msg"))}
    return {}


def topic_in(path: Path, reader: Any, kinds: Sequence[str], topic: str | None, tell: Tell) -> list[Any]:
    """Return the connections of a topic of these types: `topic`, else /joint_states, else the only one. Reports others.

    Raises RecordingError where there is none, or a choice.
    """
    known = [c for c in with_messages(reader, topic) if c.msgtype in kinds]
    found = sorted({c.topic for c in known})
    name = kinds[0].rpartition("/")[2]
    if topic is None and len(found) > 1 and DEFAULT_TOPIC not in found:
        raise RecordingError(f"{path}: several {name} topics, choose one by --topic: {', '.join(found)}")
    chosen = topic or (DEFAULT_TOPIC if DEFAULT_TOPIC in found else next(iter(found), ""))
    if chosen not in found:
        others = sorted(f"{c.topic} ({c.msgtype})" for c in reader.connections)
        listed = ", ".join(found or others) or "no topic"
        raise RecordingError(f"{path}: expected a {name} topic{f' {topic}' if topic else ''}, got {listed}")
    if topic is None and len(found) > 1:
        tell(f"topic {chosen} taken, left out: {', '.join(one for one in found if one != chosen)} (--topic)")
    return [c for c in known if c.topic == chosen]


def with_messages(reader: Any, topic: str | None) -> list[Any]:
    """The connections of a bag that have messages, and those of a requested topic; all if none has messages.

    rosbag2 records topics that somebody only subscribes to, without messages.
    """
    recorded = [c for c in reader.connections if c.msgcount or c.topic == topic]
    return recorded or list(reader.connections)


def kinds_with(reader: Any, kind: str) -> list[str]:
    """The types of a bag's messages that are a type or contain it, at any depth; the type itself comes first."""
    types = reader.typestore
    found = {c.msgtype for c in reader.connections if _has(types, c.msgtype, kind)}
    return [kind, *sorted(found - {kind})]


def _has(types: Any, outer: str, kind: str) -> bool:
    """Return whether a type is, or contains, another one; types with unknown definitions contain none."""
    _, fields = types.fielddefs.get(outer, ((), ()))
    return outer == kind or any(_has(types, inner, kind) for _, field in fields for inner in _types_in(field))


def _types_in(field: Any) -> Iterator[str]:
    """The message type of a field, if it has one: arrays and sequences hold a definition and a length."""
    kind, content = field
    if kind.name == "NAME":
        yield content
    elif kind.name in ("ARRAY", "SEQUENCE"):
        yield from _types_in(content[0])
