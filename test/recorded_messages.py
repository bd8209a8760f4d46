"""Messages as mappings, written as rosbag2 records them or as ROS prints them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

Message = Mapping[str, Any]
INTERFACES = Path(__file__).resolve().parents[1] / "traj_integrator_interfaces" / "msg"
JOINT_STATE, JOINT_TRAJECTORY = "sensor_msgs/msg/JointState", "trajectory_msgs/msg/JointTrajectory"
ROBOT_TRAJECTORY, DISPLAY_TRAJECTORY = "moveit_msgs/msg/RobotTrajectory", "moveit_msgs/msg/DisplayTrajectory"
TRAJECTORY_BATCH = "traj_integrator_interfaces/msg/TrajectoryBatch"
_OF_MOVEIT = {
    ROBOT_TRAJECTORY: "trajectory_msgs/JointTrajectory joint_trajectory\n"
    "trajectory_msgs/MultiDOFJointTrajectory multi_dof_joint_trajectory\n",
    "moveit_msgs/msg/RobotState": "sensor_msgs/JointState joint_state\nbool is_diff\n",
    DISPLAY_TRAJECTORY: "string model_id\nmoveit_msgs/RobotTrajectory[] trajectory\n"
    "moveit_msgs/RobotState trajectory_start\n",
}
"""Parts of MoveIt's definitions that describe motions."""


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
    for name, text in {**ours, **_OF_MOVEIT}.items():
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


def printed(*messages: Message, flow: bool | None = False) -> str:
    """Messages as `ros2 topic echo` prints them."""
    return "".join(f"{yaml.safe_dump(one, sort_keys=False, default_flow_style=flow)}---\n" for one in messages)


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
