"""The node finds its controller's reports in the graph; a remap has precedence."""

from __future__ import annotations

import pytest
from node_fixtures import JOINTS, NodeServer
from trajectory_msgs.msg import JointTrajectoryPoint

pytestmark = [pytest.mark.ros, pytest.mark.slow]
REMAPPED = ["-r", "controller_state:=/said/controller_state"]


@pytest.mark.parametrize("is_remapped", [False, True], ids=["found", "remapped"])
def test_the_controller_that_takes_the_trajectories_is_found(
    report_type: type, serve: NodeServer, is_remapped: bool
) -> None:
    _, client = serve(arguments=REMAPPED if is_remapped else [])
    assert client.counts()["controller_state"] == "none", "the client takes trajectories, and reports nothing"
    name = client.node.get_name()
    reports = client.publisher(report_type, f"/{name}/controller_state")
    unknown = [float("nan")] * 3
    rest = JointTrajectoryPoint(positions=[0.1] * 3, velocities=unknown, accelerations=unknown)

    def report() -> None:
        message = report_type(joint_names=list(JOINTS), reference=rest, speed_scaling_factor=1.0)
        message.header.stamp = client.node.get_clock().now().to_msg()
        reports.publish(message)

    with client.periodically(0.02, report):
        if is_remapped:
            client.spin(1.0)
            assert client.counts()["controller_state"] == "none"
            return
        client.wait_for(lambda: client.counts()["controller"] == "holding", "reports that are taken")
        assert client.counts()["controller_state"] == f"/{name}/controller_state"
