"""The node finds its controller's reports in the graph, a remap goes first; a driver may tell the speed elsewhere."""

from __future__ import annotations

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from node_fixtures import JOINTS, NodeServer
from std_msgs.msg import Float64
from trajectory_msgs.msg import JointTrajectoryPoint

pytestmark = [pytest.mark.ros, pytest.mark.slow]
REMAPPED = ["-r", "controller_state:=/said/controller_state"]
DRIVERS_TOPIC = "/driver/speed_scaling"


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


def test_what_a_driver_tells_on_its_topic_is_the_speed_of_motions(serve: NodeServer) -> None:
    _, client = serve({"speed_scaling_topic": DRIVERS_TOPIC})
    percent = client.publisher(Float64, DRIVERS_TOPIC)
    told = Float64(data=100.0)
    with client.periodically(0.02, lambda: percent.publish(told)):
        for told.data, shown in ((30.0, "0.300"), (0.0, "0.000"), (float("nan"), "0.000"), (100.0, "1.000")):
            client.wait_for(lambda shown=shown: client.counts()["speed_scaling"] == shown, f"{told.data} %")
            if told.data == 0:
                status = client.status()
                assert (status.level, "paused" in status.message) == (DiagnosticStatus.WARN, True)
                assert client.counts()["controller"].endswith("(0 %)")
