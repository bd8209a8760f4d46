"""Reads rosbag2 recordings with the `rosbags` library, so that no ROS installation is needed."""

from __future__ import annotations

import math
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from .door import reading, reason
from .extras import require
from .joint_states import StateRow, Tell
from .samples import RecordingError

JOINT_STATE = "sensor_msgs/msg/JointState"
JOINT_TRAJECTORY = "trajectory_msgs/msg/JointTrajectory"
OUR_INTERFACES = "traj_integrator_interfaces"
ACTION_SEQUENCE, TRAJECTORY_BATCH = (f"{OUR_INTERFACES}/msg/{name}" for name in ("ActionSequence", "TrajectoryBatch"))
DEFAULT_TOPIC = "/joint_states"
_STORAGES = (".db3", ".mcap")
_METADATA = "metadata.yaml"


def state_of(message: Any, recorded_ns: int) -> StateRow:
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
def open_bag(path: Path, tell: Tell) -> Iterator[Any]:
    """Open a rosbags reader of all files of a recording; errors become a RecordingError of one line.

    Fewer or more messages than the metadata counts are reported.
    """
    require("rosbags", "reading bags")
    from rosbags.highlevel import AnyReader
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    with reading(path), _complete(path, tell) as files:
        types = get_typestore(Stores.ROS2_HUMBLE)
        for name, text in _our_definitions().items():
            types.register(get_types_from_msg(text, name))
        with AnyReader(files, default_typestore=types) as reader:
            _compare(path, reader, tell)
            yield reader


def messages_of(path: Path, reader: Any, connections: list[Any], tell: Tell) -> Iterator[tuple[Any, int, Any]]:
    """Yield the messages of some connections, with their connections and times of recording, ns.

    Raises RecordingError for one that cannot be read; fewer than their index counts are reported.
    """
    found = dict.fromkeys((one.topic for one in connections), 0)
    for one, stamp, raw in reader.messages(connections=connections):
        try:
            message = reader.deserialize(raw, one.msgtype)
        except Exception as error:  # rosbags raises those of struct, numpy and texts, too
            problem = f"message {found[one.topic]} of {one.topic} cannot be read: {reason(error)}"
            raise RecordingError(f"{path}: {problem}") from error
        found[one.topic] += 1
        yield one, stamp, message
    for topic, number in found.items():
        if number != (indexed := sum(one.msgcount for one in connections if one.topic == topic)):
            tell(f"{number} of {indexed} messages of {topic} are read: the others are not where the file says")


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


@contextmanager
def _complete(path: Path, tell: Tell) -> Iterator[list[Path]]:
    """Yield the files of a recording, or copies that SQLite has completed by its logs beside them.

    A recorder that was killed leaves its last messages in a write-ahead log, which rosbags does not read. A folder of
    compressed files is yielded itself.
    """
    files = [path]
    if path.is_dir():
        files = sorted(one for one in path.iterdir() if one.suffix in _STORAGES) or [path]
    logs = {file: file.with_name(f"{file.name}-wal") for file in files}
    open_ = [file for file, log in logs.items() if log.is_file() and log.stat().st_size]
    with TemporaryDirectory(prefix="recording-") as made:
        for file in open_:
            for one in (file, logs[file]):
                shutil.copyfile(one, Path(made) / one.name)
            with closing(sqlite3.connect(Path(made) / file.name)) as database:
                database.execute("PRAGMA journal_mode=DELETE").fetchone()
            tell(f"{file.name} was not closed: read with its write-ahead log")
        yield [Path(made) / file.name if file in open_ else file for file in files]


def _compare(path: Path, reader: Any, tell: Tell) -> None:
    """Report where the metadata of a recording counts other messages than are there; a killed recorder counts none."""
    metadata = path / _METADATA
    if not metadata.is_file():
        return
    require("yaml", f"reading {metadata}")
    import yaml

    information = yaml.safe_load(metadata.read_text(encoding="utf-8"))["rosbag2_bagfile_information"]
    counted, there = information["message_count"], sum(one.msgcount for one in reader.connections)
    if counted and counted != there:
        tell(f"{there} messages are there, where {_METADATA} counts {counted}")


def _our_definitions() -> dict[str, str]:
    """Definitions of our own messages, for bags that do not contain them (before ROS 2 Iron)."""
    for prefix in [*os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep), sys.prefix]:
        folder = Path(prefix) / "share" / OUR_INTERFACES / "msg"
        if prefix and folder.is_dir():
            return {f"{OUR_INTERFACES}/msg/{file.stem}": file.read_text() for file in sorted(folder.glob("*.msg"))}
    return {}
