"""Reads joint states from rosbag2 recordings with the `rosbags` library, so that no ROS installation is needed."""

from __future__ import annotations

import os
import sqlite3
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from .extras import require
from .samples import Nature, RecordingError, Samples, samples_of

JOINT_STATE, JOINT_TRAJECTORY = "sensor_msgs/msg/JointState", "trajectory_msgs/msg/JointTrajectory"
OUR_INTERFACES = "traj_integrator_interfaces"
DEFAULT_TOPIC = "/joint_states"
UNREADABLE = (sqlite3.Error, struct.error, OSError, ValueError, LookupError, AssertionError)
"""Errors that the reader's dependencies raise for a broken file, besides its own."""


def read_bag(path: Path, topic: str | None) -> Samples:
    """The joint states of a bag folder, or of a single .db3 or .mcap file without metadata.yaml.

    The topic is `topic`, otherwise /joint_states, otherwise the only JointState topic. Times are header stamps if they
    increase, otherwise the times of recording. Joints are those of the first message, by name; messages that lack one
    of them are left out. Nothing about the numbers is checked.
    """
    with open_bag(path) as reader:
        connections = topic_in(path, reader, JOINT_STATE, topic)
        recorded = reader.messages(connections=connections)
        messages = [(stamp, reader.deserialize(raw, connection.msgtype)) for connection, stamp, raw in recorded]
    if not messages:
        raise RecordingError(f"{path}: no messages in topic {connections[0].topic}")
    names: list[str] = list(messages[0][1].name)
    kept = [(stamp, state, *row) for stamp, state in messages if (row := _row(state, names)) is not None]
    recorded_ns, states, position, velocity = zip(*kept, strict=True)  # type: ignore[misc]
    header_ns = [state.header.stamp.sec * 10**9 + state.header.stamp.nanosec for state in states]
    time_ns = np.array(header_ns if np.all(np.diff(header_ns) > 0) else recorded_ns)
    has_velocity = all(row is not None for row in velocity)
    rows = [np.array(position), np.array(velocity) if has_velocity else None]
    kind = f"rosbag2, topic {connections[0].topic}"
    return samples_of(path, names, (time_ns - time_ns[0]) * 1e-9, rows, kind, Nature.MEASURED)


@contextmanager
def open_bag(path: Path) -> Iterator[Any]:
    """Open a rosbags reader; every error in it becomes a RecordingError of one line."""
    require("rosbags", "reading bags")
    if path.is_dir() and not (path / "metadata.yaml").is_file():
        raise RecordingError(f"{path}: expected a rosbag2 folder, got one without metadata.yaml")
    from rosbags.highlevel import AnyReader, AnyReaderError
    from rosbags.rosbag2 import ReaderError
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    try:
        types = get_typestore(Stores.ROS2_HUMBLE)
        for name, text in _our_definitions().items():
            types.register(get_types_from_msg(text, name))
        with AnyReader([path], default_typestore=types) as reader:
            yield reader
    except RecordingError:
        raise
    except (AnyReaderError, ReaderError, *UNREADABLE) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise RecordingError(f"{path}: not a readable rosbag2 recording: {reason}") from None


def _our_definitions() -> dict[str, str]:
    """Definitions of our own messages, for bags that do not contain them (before ROS 2 Iron)."""
    for prefix in [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]:
        folder = Path(prefix) / "share" / OUR_INTERFACES / "msg"
        if prefix and folder.is_dir():
            return {f"{OUR_INTERFACES}/msg/{file.stem}": file.read_text() for file in sorted(folder.glob("*.msg"))}
    return {}


def topic_in(path: Path, reader: Any, kind: str, topic: str | None) -> list[Any]:
    """The connections of a topic of a type: `topic`, else /joint_states, else the only one. Raises RecordingError."""
    found = sorted({c.topic for c in reader.connections if c.msgtype == kind})
    name = kind.rpartition("/")[2]
    if topic is None and len(found) > 1 and DEFAULT_TOPIC not in found:
        raise RecordingError(f"{path}: several {name} topics, choose one by --topic: {', '.join(found)}")
    chosen = topic or (DEFAULT_TOPIC if DEFAULT_TOPIC in found else next(iter(found), ""))
    if chosen not in found:
        others = sorted(f"{c.topic} ({c.msgtype})" for c in reader.connections)
        listed = ", ".join(found or others) or "no topic"
        raise RecordingError(f"{path}: expected a {name} topic{f' {topic}' if topic else ''}, got {listed}")
    return [c for c in reader.connections if c.topic == chosen]


def _row(state: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray | None] | None:
    """Position and velocity of the named joints in their order, None if the message lacks one of them."""
    column = {name: i for i, name in enumerate(state.name)}
    if any(name not in column for name in names) or len(state.position) != len(state.name):
        return None
    order = [column[name] for name in names]
    velocity = state.velocity[order] if len(state.velocity) == len(state.name) else None
    return state.position[order], velocity
