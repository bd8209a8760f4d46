"""Simulated time: ages follow /clock, and a reset of the simulation is noticed."""

from __future__ import annotations

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from ros_client import RosClient, sequence
from rosgraph_msgs.msg import Clock

pytestmark = pytest.mark.ros
SECOND = 10**9
MESSAGE = sequence(np.zeros((1, 2, 3)))


class SimulatedTime:
    """Publishes /clock and joint states stamped with it."""

    def __init__(self, client: RosClient) -> None:
        self._client = client
        self._publisher = client.node.create_publisher(Clock, "/clock", 10)
        self._message = Clock()
        client.wait_for(self._publisher.get_subscription_count, "the node listens to /clock", 20.0)
        # Again and again, as simulations do: what comes before the node has discovered us is lost.
        client.node.create_timer(0.02, lambda: self._publisher.publish(self._message))
        client.spin(1.0)

    def go_to(self, time_s: float) -> None:
        self._message.clock.sec, self._message.clock.nanosec = divmod(round(time_s * SECOND), SECOND)
        self._client.spin(0.2)

    def state(self, time_s: float, position: float) -> None:
        self._client.publish_state([position] * 3, stamp_ns=round(time_s * SECOND))
        self._client.spin(0.2)


def test_ages_follow_simulated_time_and_a_reset_drops_the_state(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node({"use_sim_time": True, "state_timeout": 0.5})
    client = connect()
    client.wait_until_active()
    simulation = SimulatedTime(client)
    simulation.go_to(100.0)
    simulation.state(100.0, 0.1)
    assert client.integrate(MESSAGE).success
    client.spin(0.8)
    assert client.integrate(MESSAGE).success, "a paused simulation makes nothing old"
    simulation.go_to(101.0)
    assert client.integrate(MESSAGE).message.startswith("state_too_old: start: the latest joint state is 1.000 s old")
    simulation.state(101.0, 0.2)
    assert client.integrate(MESSAGE).success
    simulation.go_to(5.0)
    assert client.integrate(MESSAGE).message.startswith("clock_jumped_back")
    simulation.state(5.0, 0.3)
    response = client.integrate(MESSAGE)
    assert response.success and np.allclose(response.trajectory.position[:3], 0.3)
