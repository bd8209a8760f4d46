"""A driver reports its speed scaling on a topic of its own if the controller's reports lack it."""

from __future__ import annotations

import pytest
from diagnostic_msgs.msg import DiagnosticStatus
from node_fixtures import NodeServer
from std_msgs.msg import Float64

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPIC = "/driver/speed_scaling"


def test_what_a_driver_tells_on_its_topic_is_the_speed_of_motions(serve: NodeServer) -> None:
    _, client = serve({"speed_scaling_topic": TOPIC})
    percent = client.publisher(Float64, TOPIC)
    told = Float64(data=100.0)
    with client.periodically(0.02, lambda: percent.publish(told)):
        for told.data, shown in ((30.0, "0.300"), (0.0, "0.000"), (float("nan"), "0.000"), (100.0, "1.000")):
            client.wait_for(lambda shown=shown: client.counts()["speed_scaling"] == shown, f"{told.data} %")
            if told.data == 0:
                status = client.status()
                assert (status.level, "paused" in status.message) == (DiagnosticStatus.WARN, True)
                assert client.counts()["controller"].endswith("(0 %)")
