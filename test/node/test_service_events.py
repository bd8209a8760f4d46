"""Service introspection: what `ros2 service echo` shows of the node's services."""

from __future__ import annotations

import numpy as np
import pytest
from rclpy.qos import QoSProfile
from ros_client import RosClient
from service_msgs.msg import ServiceEventInfo

from traj_integrator_interfaces.srv import Evaluate
from traj_integrator_ros.client import sequence

pytest.importorskip("rclpy.service_introspection", reason="this ROS 2 has no service introspection (before Iron)")
pytestmark = pytest.mark.ros
TOPIC = "/traj_integrator/evaluate/_service_event"


def test_events_come_when_asked_for_with_the_detail_asked_for_and_stop(client: RosClient) -> None:
    request = Evaluate.Request(actions=sequence(np.ones((2, 5, 3)), dt=[0.1], position=np.zeros((1, 3))))
    events: list[Evaluate.Event] = []
    subscription = client.node.create_subscription(Evaluate.Event, TOPIC, events.append, QoSProfile(depth=100))
    client.evaluate(request)
    assert client.node.count_publishers(TOPIC) == 0 and not events
    for detail in ("contents", "metadata"):
        assert client.set_parameters(service_introspection=detail) == [(True, "")]
        client.wait_for(lambda: client.node.count_publishers(TOPIC), "a publisher of events")
        client.spin(0.5)  # the node's side may find the subscriber a moment later
        events.clear()
        answer = client.evaluate(request)
        client.wait_for(lambda: len(events) >= 2, "two events of the call")
        kinds = [ServiceEventInfo.REQUEST_RECEIVED, ServiceEventInfo.RESPONSE_SENT]
        assert sorted(event.info.event_type for event in events) == sorted(kinds)
        shown = detail == "contents"
        assert [one for event in events for one in event.request] == [request] * shown
        assert [one for event in events for one in event.response] == [answer] * shown
    assert client.set_parameters(service_introspection="disabled") == [(True, "")]
    topics = [TOPIC.replace("evaluate", name) for name in ("evaluate", "integrate", "compute_gradient")]
    client.wait_for(lambda: not any(map(client.node.count_publishers, topics)), "the end of the publishers of events")
    client.node.destroy_subscription(subscription)
