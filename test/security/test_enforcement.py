"""The node under SROS 2: it serves only those whom the policies admit, and never runs unsecured by mistake."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import pytest

pytestmark = pytest.mark.ros
NODE = ("-m", "traj_integrator_ros", "--ros-args", "--params-file", "config/franka.yaml")
ENCLAVE = "/traj_integrator"


@pytest.mark.usefixtures("enforced")
def test_optimizer_planner_and_robot_in_their_enclaves_are_served(start: Callable) -> None:
    node = start(ENCLAVE, *NODE)
    node.wait_for_output("active")
    optimizer = start("/optimizer", "examples/optimizer.py")
    start("/simulated_robot", "examples/simulated_robot.py")
    planner = start("/planner", "examples/planner.py")
    planner.wait_for_output("is smoothest")
    assert optimizer.wait(60.0) == 0, optimizer.output


@pytest.mark.usefixtures("enforced")
def test_who_has_no_identity_sees_nothing(start: Callable) -> None:
    node = start(ENCLAVE, *NODE)
    node.wait_for_output("active")
    code = (
        "import rclpy, sys, time; rclpy.init(); node = rclpy.create_node('planner')\n"
        "topic, end = '/traj_integrator/joint_trajectory', time.monotonic() + float(sys.argv[1])\n"
        "while not node.count_publishers(topic) and time.monotonic() < end: time.sleep(0.1)\n"
        "print('publishers:', node.count_publishers(topic))"
    )
    # A permitted participant may need seconds to authenticate; a forbidden one gets as long again.
    begin = time.monotonic()
    known = start("/planner", "-c", code, "30")
    assert known.wait(60.0) == 0 and "publishers: 1" in known.output, known.output
    wait_s = 2.0 + time.monotonic() - begin
    stranger = subprocess.run([sys.executable, "-c", code, str(wait_s)], capture_output=True, text=True, timeout=90)
    assert stranger.stdout.strip() == "publishers: 0", stranger.stdout + stranger.stderr


@pytest.mark.usefixtures("enforced")
def test_an_identity_may_do_no_more_than_its_policy_says(start: Callable) -> None:
    code = (
        "import rclpy; from sensor_msgs.msg import JointState\n"
        "rclpy.init(); node = rclpy.create_node('planner'); print('may be here', flush=True)\n"
        "node.create_publisher(JointState, 'joint_states', 10); print('may publish joint states')"
    )
    planner = start("/planner", "-c", code)
    assert planner.wait(60.0) != 0
    assert "may be here" in planner.output and "may publish joint states" not in planner.output


@pytest.mark.usefixtures("enforced")
def test_the_node_in_the_enclave_of_another_ends_with_one_line(start: Callable) -> None:
    node = start("/planner", *NODE)
    assert node.wait(60.0) == 2, node.output
    assert "Traceback" not in node.output and "integrator_node: " in node.output, node.output


def test_security_without_middleware_or_keys_ends_the_node(start: Callable, has_security: bool) -> None:
    node = start(ENCLAVE if not has_security else "/nobody", *NODE)
    assert node.wait(60.0) == 2, node.output
    (line,) = (line for line in node.output.splitlines() if line.startswith("integrator_node: "))
    assert "ecurity" in line and "Traceback" not in node.output, node.output
