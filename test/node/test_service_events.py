"""Service introspection: what `ros2 service echo` shows of the node's services."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from rclpy.qos import QoSProfile
from ros_client import RosClient, sequence
from service_msgs.msg import ServiceEventInfo

from traj_integrator_interfaces.srv import ComputeGradient, Integrate

pytest.importorskip("rclpy.service_introspection", reason="this ROS 2 has no service introspection (before Iron)")
pytestmark = pytest.mark.ros
RECEIVED, SENT = ServiceEventInfo.REQUEST_RECEIVED, ServiceEventInfo.RESPONSE_SENT


@pytest.fixture
def events(client: RosClient) -> Iterator[list]:
    """What the services of the node tell; introspection is disabled before and after."""
    heard: list = []
    subscriptions = [
        client.node.create_subscription(
            service.Event, f"/traj_integrator/{name}/_service_event", heard.append, QoSProfile(depth=100)
        )
        for service, name in ((Integrate, "integrate"), (ComputeGradient, "compute_gradient"))
    ]
    yield heard
    client.set_parameters(service_introspection="disabled")
    for subscription in subscriptions:
        client.node.destroy_subscription(subscription)


def call_both(client: RosClient) -> tuple[Integrate.Response, ComputeGradient.Response]:
    message = sequence(np.random.default_rng(0).normal(size=(2, 5, 3)), dt=[0.1], position=np.zeros((1, 3)))
    gradient = ComputeGradient.Request(actions=message, grad_position=[1.0] * 30)
    return client.integrate(message), client.compute_gradient(gradient)


def publishers(client: RosClient) -> int:
    return sum(
        client.node.count_publishers(f"/traj_integrator/{name}/_service_event")
        for name in ("integrate", "compute_gradient")
    )


def test_events_come_when_asked_for_with_the_detail_asked_for_and_stop(client: RosClient, events: list) -> None:
    call_both(client)
    assert publishers(client) == 0 and not events
    for detail in ("contents", "metadata"):
        assert client.set_parameters(service_introspection=detail) == [(True, "")]
        client.wait_for(lambda: publishers(client) == 2, "publishers of events")
        client.spin(0.5)  # the node's side may find us a moment later
        events.clear()
        integrated, gradient = call_both(client)
        client.wait_for(lambda: len(events) >= 4, "two events of each call")
        assert sorted(event.info.event_type for event in events) == sorted([RECEIVED, RECEIVED, SENT, SENT])
        told = {type(answer.response[0]): answer.response[0] for answer in events if answer.response}
        asked = [event.request[0] for event in events if event.request]
        if detail == "contents":
            assert told == {Integrate.Response: integrated, ComputeGradient.Response: gradient}
            assert len(asked) == 2 and all(request.actions.batch == 2 for request in asked)
        else:
            assert not told and not asked
    assert client.set_parameters(service_introspection="disabled") == [(True, "")]
    client.wait_for(lambda: publishers(client) == 0, "the end of the publishers of events")
