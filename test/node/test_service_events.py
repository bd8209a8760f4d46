"""Service introspection: what `ros2 service echo` shows of the node's services."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from rclpy.qos import QoSProfile
from ros_client import RosClient
from service_msgs.msg import ServiceEventInfo

from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate
from traj_integrator_ros.traffic.messages import sequence

pytest.importorskip("rclpy.service_introspection", reason="this ROS 2 has no service introspection (before Iron)")
pytestmark = pytest.mark.ros
RECEIVED, SENT = ServiceEventInfo.REQUEST_RECEIVED, ServiceEventInfo.RESPONSE_SENT


SERVICES = {Integrate: "integrate", ComputeGradient: "compute_gradient", Evaluate: "evaluate"}


@pytest.fixture
def events(client: RosClient) -> Iterator[list]:
    """What the services of the node tell; introspection is disabled before and after."""
    heard: list = []
    subscriptions = [
        client.node.create_subscription(
            service.Event, f"/traj_integrator/{name}/_service_event", heard.append, QoSProfile(depth=100)
        )
        for service, name in SERVICES.items()
    ]
    yield heard
    client.set_parameters(service_introspection="disabled")
    for subscription in subscriptions:
        client.node.destroy_subscription(subscription)


def call_all(client: RosClient) -> tuple[Integrate.Response, ComputeGradient.Response, Evaluate.Response]:
    message = sequence(np.random.default_rng(0).normal(size=(2, 5, 3)), dt=[0.1], position=np.zeros((1, 3)))
    gradient = ComputeGradient.Request(actions=message, grad_position=[1.0] * 30)
    evaluation = Evaluate.Request(actions=message)
    return client.integrate(message), client.compute_gradient(gradient), client.evaluate(evaluation)


def publishers(client: RosClient) -> int:
    return sum(client.node.count_publishers(f"/traj_integrator/{name}/_service_event") for name in SERVICES.values())


def test_events_come_when_asked_for_with_the_detail_asked_for_and_stop(client: RosClient, events: list) -> None:
    call_all(client)
    assert publishers(client) == 0 and not events
    for detail in ("contents", "metadata"):
        assert client.set_parameters(service_introspection=detail) == [(True, "")]
        client.wait_for(lambda: publishers(client) == 3, "publishers of events")
        client.spin(0.5)  # the node's side may find us a moment later
        events.clear()
        answers = call_all(client)
        client.wait_for(lambda: len(events) >= 6, "two events of each call")
        assert sorted(event.info.event_type for event in events) == sorted([RECEIVED] * 3 + [SENT] * 3)
        told = {type(answer.response[0]): answer.response[0] for answer in events if answer.response}
        asked = [event.request[0] for event in events if event.request]
        if detail == "contents":
            assert told == {type(answer): answer for answer in answers}
            assert len(asked) == 3 and all(request.actions.batch == 2 for request in asked)
        else:
            assert not told and not asked
    assert client.set_parameters(service_introspection="disabled") == [(True, "")]
    client.wait_for(lambda: publishers(client) == 0, "the end of the publishers of events")
