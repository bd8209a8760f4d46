"""Releases of rclpy that lack a feature: the node does without it, and says what cannot be."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import NodeServer

from traj_integrator_ros.traffic.messages import sequence

pytestmark = pytest.mark.ros
SEQUENCE = sequence(np.zeros((1, 4, 3)), position=np.zeros(3))


def test_the_node_works_on_an_rclpy_without_the_features_that_came_after_humble(serve: NodeServer) -> None:
    program = [str(Path(__file__).parent / "node_on_an_older_rclpy.py")]
    process, client = serve({"diagnostics.period": 0.5}, program=program)
    client.answer(SEQUENCE)
    assert client.integrate(SEQUENCE).success
    assert client.counts()["sequences"] == "1"
    # Parameters: checked together, in effect at once.
    assert client.set_parameters(dt=0.04, diagnostics__period=0.2) == [(True, ""), (True, "")]
    assert client.integrate(SEQUENCE).trajectory.time_from_start[1] == pytest.approx(0.04)
    [(changed, reason)] = client.set_parameters(service_introspection="metadata")
    assert not changed and "before ROS 2 Iron" in reason
    # A transition that does not exist is answered.
    assert not client.change_state("activate")
    assert "no transition 3 from the current state" in process.output
    assert client.change_state("deactivate") and client.change_state("cleanup") and client.change_state("configure")
    assert client.change_state("activate")
    client.wait_until_connected()  # its topics are new ones
    client.answer(SEQUENCE)
    assert client.counts()["rejected.internal_error"] == "0", process.output
