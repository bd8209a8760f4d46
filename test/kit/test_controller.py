"""The model of the controller reads messages as they are."""

from __future__ import annotations

import numpy as np
from builtin_interfaces.msg import Duration, Time
from std_msgs.msg import Header
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.arm import Robot
from kit.controller import SECOND, fields_of


def test_a_message_is_read_as_it_is() -> None:
    points = [
        JointTrajectoryPoint(positions=[k, 2.0 * k], velocities=[0.0, 0.0], time_from_start=Duration(nanosec=k * 10**8))
        for k in range(1, 3)
    ]
    message = JointTrajectory(header=Header(stamp=Time(sec=3, nanosec=5)), joint_names=["b", "a"], points=points)
    arm = Robot(["a", "b"])
    assert arm.receive(**fields_of(message), now_ns=3 * SECOND), arm.refusal
    commands = arm.run(3 * SECOND, 4 * SECOND)
    np.testing.assert_allclose(commands[:, -1], [[4.0, 2.0], [0.0, 0.0], [0.0, 0.0]])
    assert np.abs(commands[0, 199] - [4.0, 2.0]).max() < 1e-9 < np.abs(commands[0, 198] - [4.0, 2.0]).max()
