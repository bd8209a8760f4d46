"""Motions as tables, and messages as mappings, written as rosbag2 records them, for readers and tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from traj_integrator_ros.motions.files import read_samples
from traj_integrator_ros.motions.joint_states import StateRow
from traj_integrator_ros.motions.samples import Samples

Message = Mapping[str, Any]
INTERFACES = Path(__file__).resolve().parents[1] / "traj_integrator_interfaces" / "msg"
JOINT_STATE, JOINT_TRAJECTORY = "sensor_msgs/msg/JointState", "trajectory_msgs/msg/JointTrajectory"
TRAJECTORY_BATCH = "traj_integrator_interfaces/msg/TrajectoryBatch"
BEGIN_NS = 1_700_000_000_000_000_000


def read_plain(path: Path, row: int | None = None) -> Samples:
    """The motion in a file that needs no notes."""
    return read_samples(path, None, pytest.fail, row)


def write_table(path: Path, samples: Samples, quantities: tuple[str, ...] = ("position", "velocity")) -> Path:
    """Write the quantities of a motion as a table in the project's own columns."""
    names = ["time", *(f"{name}_{joint}" for name in quantities for joint in samples.joint_names)]
    columns = np.column_stack([samples.time, *(getattr(samples, name) for name in quantities)])
    np.savetxt(path, columns, "%.17g", ",", header=",".join(names), comments="", encoding="utf-8")
    return path


def write_bag(
    folder: Path,
    topics: Iterable[tuple[str, str, Iterable[tuple[int, Message]]]],
    *,
    storage: str = "SQLITE3",
    compression: str = "",
) -> Path:
    """Write a bag of topics, their types and their messages with the times of recording, ns, in that order.

    `compression` with zstd: of the whole FILE, or of the STORAGE.
    """
    rosbag2 = pytest.importorskip("rosbags.rosbag2", reason="the rosbags library is not installed")
    from rosbags.typesys import Stores, get_types_from_msg, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    ours = {f"{INTERFACES.parent.name}/msg/{file.stem}": file.read_text() for file in INTERFACES.glob("*.msg")}
    for name, text in ours.items():
        types.register(get_types_from_msg(text, name))
    writer = rosbag2.Writer(folder, version=9, storage_plugin=rosbag2.StoragePlugin[storage])
    if compression:
        writer.set_compression(rosbag2.CompressionMode[compression], rosbag2.CompressionFormat.ZSTD)
    with writer:
        for topic, kind, messages in topics:
            connection = writer.add_connection(topic, kind, typestore=types)
            for recorded_ns, message in messages:
                writer.write(connection, recorded_ns, types.serialize_cdr(_made(types, kind, message), kind))
    return folder


def _made(types: Any, kind: str, fields: Message) -> Any:
    """A message of the rosbags library; missing fields are 0 or empty."""
    found = {name: _value(types, field, fields.get(name)) for name, field in types.fielddefs[kind][1]}
    return types.types[kind](**found)


def _value(types: Any, field: Any, given: Any) -> Any:
    kind, content = field
    if kind.name == "NAME":
        return _made(types, content, given or {})
    if kind.name == "BASE":
        return given if given is not None else ("" if content[0] == "string" else 0)
    of = content[0]
    if of[0].name == "BASE" and of[1][0] != "string":
        return np.array([] if given is None else given, of[1][0])
    return [_value(types, of, one) for one in given or ()]


def states(
    names: Sequence[str] = ("a", "b"), count: int = 100, step: float = 0.02, begin: float = 0.0
) -> list[StateRow]:
    """Joint k moves along sin((1 + k) t / 2), exactly, recorded up to 1.4 ms after its stamp."""
    rows = []
    for number in range(count):
        time = begin + number * step
        rate = (1 + np.arange(len(names))) / 2
        stamp_ns = BEGIN_NS + round(time * 1e9)
        fields = np.sin(rate * time), rate * np.cos(rate * time), stamp_ns, stamp_ns + (number % 3) * 700_000
        rows.append(StateRow(tuple(names), *fields))
    return rows


def joint_state(row: StateRow) -> dict[str, object]:
    """The message with its fields."""
    stamp = {"sec": row.stamp_ns // 10**9, "nanosec": row.stamp_ns % 10**9}
    fields = {name: np.asarray(getattr(row, name)).tolist() for name in ("position", "velocity")}
    return {"header": {"stamp": stamp, "frame_id": ""}, "name": list(row.names), **fields, "effort": []}


def bag_of(
    folder: Path, topics: Mapping[str, Sequence[StateRow]], *others: tuple[str, str, list], **options: str
) -> Path:
    """A bag of joint states by their topics, and of other topics, in the order of recording; the folder."""
    messages = {topic: [(row.recorded_ns, joint_state(row)) for row in rows] for topic, rows in topics.items()}
    states = [(topic, JOINT_STATE, recorded) for topic, recorded in messages.items()]
    return write_bag(folder, [*states, *others], **options)
