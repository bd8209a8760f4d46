"""What the middleware keeps from the node: it must continue to serve others, and report it where it can know."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hostile_cases import NODE, good_sequence
from hostile_node import ACTIONS, HostileNode
from hostile_oracle import Verdict
from rclpy.qos import QoSProfile, ReliabilityPolicy
from ros_client import RosClient
from std_msgs.msg import String

from traj_integrator_interfaces.msg import ActionSequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPIC = "/traj_integrator/action_sequence"
TIMES = 10
ACCEPTED = Verdict(frozenset(), may_pass=True)


@pytest.fixture
def other(hostile_node: HostileNode) -> Iterator[RosClient]:
    """A client whose publishers do not match; the node outlives it, and none of its messages arrive."""
    client = RosClient(NODE.joint_names)
    yield client
    client.close()
    hostile_node.catch_up()
    hostile_node.sequence(good_sequence(), ACCEPTED)
    hostile_node.integrate(good_sequence(), ACCEPTED)
    hostile_node.assert_in_good_health("what the middleware keeps out")


def test_a_publisher_of_another_quality_of_service(hostile_node: HostileNode, other: RosClient) -> None:
    qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = other.node.create_publisher(ActionSequence, TOPIC, qos)
    hostile_node.process.wait_for_output("offering incompatible QoS")
    for _ in range(TIMES):
        publisher.publish(good_sequence(batch=0))
    other.spin(0.2)
    hostile_node.ledger.kept_out[ACTIONS, "from a best effort publisher, as the node's log tells"] += TIMES


def test_another_type_on_the_name_of_the_topic(hostile_node: HostileNode) -> None:
    other = RosClient(NODE.joint_names, "/somebody/else")
    publisher = other.node.create_publisher(String, TOPIC, 10)
    other.wait_for(lambda: other.node.count_subscribers(TOPIC), "the node discovered")
    for _ in range(TIMES):
        publisher.publish(String(data="not a sequence"))
    other.spin(0.2)
    other.close()
    hostile_node.ledger.kept_out[ACTIONS, "std_msgs/String"] += TIMES
    hostile_node.sequence(good_sequence(), ACCEPTED)


def test_a_message_without_a_single_byte(hostile_node: HostileNode, other: RosClient) -> None:
    """Its writer waits for it to be received, so that all later ones of the same writer wait, too; others do not."""
    other.wait_until_connected()
    other.sequences.publish(b"")
    other.spin(0.2)
    hostile_node.ledger.kept_out[ACTIONS, "no bytes at all"] += 1
