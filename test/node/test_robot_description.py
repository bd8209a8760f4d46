"""The node takes the limits that its parameters leave open from MoveIt's parameters and the robot's URDF."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import JOINTS, ClientFactory, NodeFactory, NodeServer

from traj_integrator_ros.client import sequence

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
from rclpy.qos import DurabilityPolicy, QoSProfile
from std_msgs.msg import String

from traj_integrator_interfaces.msg import ActionSequence

pytestmark = pytest.mark.ros

LIMIT = '<joint name="{}" type="revolute"><limit lower="-1" upper="1" velocity="{}"/></joint>'
TOO_FAST = sequence(np.full((1, 4, 3), 0.8), control_space=ActionSequence.VELOCITY, position=[0.0, 0.0, 0.0])


def urdf(velocity: float) -> str:
    return f"<robot name='arm'>{''.join(LIMIT.format(name, velocity) for name in JOINTS)}</robot>"


def test_limits_come_with_the_topic_however_late_and_parameters_go_first(serve: NodeServer) -> None:
    node, client = serve({"limits.action": "reject", "limits.acceleration": [1e6] * 3})
    assert client.integrate(TOO_FAST).success
    origins = "position: {0}, velocity: {0}, acceleration: parameters, jerk: none"
    assert client.counts()["limits"] == origins.format("none")
    assert client.status().hardware_id == "joint_a to joint_c"

    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    description = client.node.create_publisher(String, "robot_description", latched)
    of_others = "".join(LIMIT.format(f"other {number}", 1) for number in range(1000))
    description.publish(String(data=f"<robot>{of_others}</robot>"))
    client.wait_for(lambda: "no limits from the robot's URDF" in node.output, "told of")
    assert max(map(len, node.output.splitlines())) < 1000, "a line of a thousand joints is cut"
    # As ROS reads it: with a namespace, an undeclared prefix, an unknown macro, and a blank line first.
    as_found = urdf(0.5).replace("<robot", "\n<?xml version='1.0'?><!-- -- --><robot xmlns='http://www.ros.org'")
    description.publish(String(data=as_found.replace("</robot>", "<sensor:a/><xacro:imu/></robot>")))
    client.wait_for(lambda: f"limits from: {origins.format('robot_description')}" in node.output, "taken and told")
    assert client.counts()["limits"] == origins.format("robot_description")
    client.wait_for(lambda: client.status().hardware_id == "arm", "the robot is named")
    refused = client.integrate(TOO_FAST)
    assert not refused.success and "limits_violated: velocity of joint_a exceeds" in refused.message
    assert refused.message.endswith("of 0.5)")

    assert client.set_parameters(limits__velocity=[1.0] * 3) == [(True, "")]
    assert client.integrate(TOO_FAST).success
    assert client.counts()["limits"].startswith("position: robot_description, velocity: parameters")


def test_limits_come_from_a_file_and_a_wrong_one_fails_configure(
    start_node: NodeFactory, connect: ClientFactory, tmp_path: Path
) -> None:
    (tmp_path / "arm.urdf").write_text("<robot/>")
    node = start_node({"limits.action": "reject", "limits.urdf": str(tmp_path / "arm.urdf")})
    client = connect()
    client.wait_for(lambda: "configure failed" in node.output, "configure fails", 40.0)
    assert "arm.urdf: expected limits of joint_a, joint_b, joint_c" in node.output
    (tmp_path / "arm.urdf").write_text(urdf(0.5))
    assert client.change_state("configure") and client.change_state("activate")
    assert " of 0.5)" in client.integrate(TOO_FAST).message
