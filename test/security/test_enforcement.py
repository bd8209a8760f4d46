"""The node under SROS 2: it serves only those whom the policies admit, and never runs unsecured by mistake."""

from __future__ import annotations

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
def test_the_node_in_the_enclave_of_another_ends_with_one_line(start: Callable) -> None:
    node = start("/planner", *NODE)
    assert node.wait(60.0) == 2, node.output
    assert "Traceback" not in node.output and "integrator_node: " in node.output, node.output


def test_security_without_middleware_or_keys_ends_the_node(start: Callable, has_security: bool) -> None:
    node = start(ENCLAVE if not has_security else "/nobody", *NODE)
    assert node.wait(60.0) == 2, node.output
    (line,) = (line for line in node.output.splitlines() if line.startswith("integrator_node: "))
    assert "ecurity" in line and "Traceback" not in node.output, node.output
