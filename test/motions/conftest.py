"""Bags of joint states, made up on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from traj_integrator_ros.motions.joint_states import StateRow


@pytest.fixture
def write_states(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes joint states by their topics to a bag, in the order of recording; returns the folder."""
    rosbag2 = pytest.importorskip("rosbags.rosbag2", reason="the rosbags library is not installed")
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    made, kind = types.types, "sensor_msgs/msg/JointState"

    def write(**topics: list[StateRow]) -> Path:
        folder = tmp_path / "bag"
        with rosbag2.Writer(folder, version=9) as writer:
            for topic, rows in topics.items():
                connection = writer.add_connection(f"/{topic.replace('__', '/')}", kind, typestore=types)
                for row in rows:
                    stamp = made["builtin_interfaces/msg/Time"](row.stamp_ns // 10**9, row.stamp_ns % 10**9)
                    fields = (np.array(values, np.float64) for values in (row.position, row.velocity, ()))
                    message = made[kind](made["std_msgs/msg/Header"](stamp, ""), list(row.names), *fields)
                    writer.write(connection, row.recorded_ns, types.serialize_cdr(message, kind))
        return folder

    return write
