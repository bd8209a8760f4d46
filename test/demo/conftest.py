"""Recordings for the demo's tests, made up on the spot."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from motions import sine_motion

from traj_integrator_ros.demo.motion import Motion


@pytest.fixture
def sine() -> Motion:
    return sine_motion()


@pytest.fixture
def write_bag(tmp_path: Path) -> Callable[..., Path]:
    """A function that writes joint states to a bag folder, a list of (topic, motion), and returns the folder."""
    rosbag2 = pytest.importorskip("rosbags.rosbag2", reason="the rosbags library is not installed")
    from rosbags.typesys import Stores, get_typestore

    types = get_typestore(Stores.ROS2_HUMBLE)
    joint_state = types.types["sensor_msgs/msg/JointState"]
    header, stamp = types.types["std_msgs/msg/Header"], types.types["builtin_interfaces/msg/Time"]

    def write(topics: list[tuple[str, Motion]], *, storage: str = "SQLITE3", reorder: bool = False) -> Path:
        folder = tmp_path / f"bag_{storage.lower()}"
        plugin = rosbag2.StoragePlugin[storage]
        with rosbag2.Writer(folder, version=9, storage_plugin=plugin) as writer:
            for topic, motion in topics:
                connection = writer.add_connection(topic, "sensor_msgs/msg/JointState", typestore=types)
                for k, time in enumerate(motion.time):
                    nanoseconds = 10**9 + round(time * 1e9)
                    order = np.arange(motion.dof)
                    if reorder and k % 2:
                        order = order[::-1]
                    message = joint_state(
                        header=header(stamp(nanoseconds // 10**9, nanoseconds % 10**9), ""),
                        name=[motion.joint_names[i] for i in order],
                        position=motion.position[k][order],
                        velocity=motion.velocity[k][order],
                        effort=np.zeros(0),
                    )
                    writer.write(connection, nanoseconds, types.serialize_cdr(message, "sensor_msgs/msg/JointState"))
        return folder

    return write
