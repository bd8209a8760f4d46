"""What the middleware keeps from the node: it must continue to serve others, and report it where it can know."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hostile_cases import NODE, good_evaluation, good_sequence
from hostile_node import ACTIONS, EVALUATE, GRADIENT, INTEGRATE, HostileNode
from hostile_oracle import Verdict
from raw_requests import RawRequests
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from ros_client import RosClient, floats
from std_msgs.msg import String

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Integrate

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


def good_request(service: type) -> object:
    actions = good_sequence(joint_names=[*NODE.joint_names[:2], "QQQQ"])
    if service is Integrate:
        return Integrate.Request(actions=actions)
    if service is Evaluate:
        return good_evaluation(actions=actions)
    return ComputeGradient.Request(actions=actions, grad_position=floats(np.ones(24)))


def damaged_requests(whole: bytes) -> Iterator[bytes]:
    for length in range(4, len(whole) - 100, 12):
        yield whole[:length]
    for at in range(12, len(whole) - 100, 12):
        yield whole[:at] + (2**31).to_bytes(4, "little") + whole[at + 4 :]
    for junk in (b"\xff\xfe\xfd\xfc", b"\xed\xa0\x80\x41"):
        yield whole.replace(b"QQQQ", junk)


@pytest.mark.parametrize(
    ("service", "name", "channel"),
    [
        (Integrate, "integrate", INTEGRATE),
        (ComputeGradient, "compute_gradient", GRADIENT),
        (Evaluate, "evaluate", EVALUATE),
    ],
)
def test_requests_of_damaged_bytes(
    hostile_node: HostileNode, other: RosClient, service: type, name: str, channel: str
) -> None:
    """Most never reach the node. The middleware hands over some of which it has decoded a part: they are checked."""
    requests = RawRequests(other.node, service, f"/traj_integrator/{name}")
    other.wait_for(requests.matched, "connected")
    hostile_node.catch_up()
    calls, rejected = hostile_node.calls, hostile_node.rejected.copy()
    sent = 0
    for data in damaged_requests(bytes(serialize_message(good_request(service)))):
        requests.send(data)
        sent += 1
        other.spin(0.01)
    requests.send(bytes(serialize_message(good_request(service))))
    other.spin(0.5)
    hostile_node.client.wait_for(lambda: int(hostile_node.client.counts()["service_calls"]) >= calls + 3, "calls", 30.0)
    requests.close()
    hostile_node.catch_up()
    handed_over, new = hostile_node.calls - calls, hostile_node.rejected - rejected
    assert 3 <= handed_over <= sent + 1 and new["unknown_joint"] + new["malformed_message"] >= 3, (handed_over, new)
    assert not new["internal_error"]
    hostile_node.ledger.kept_out[channel, "requests that cannot be decoded"] += sent + 1 - handed_over
    for reason, count in new.items():
        hostile_node.ledger.right[channel, reason] += count
