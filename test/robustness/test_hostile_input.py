"""Bad input over DDS: refused as the node's processing refuses it (test_hostile_messages.py), told, and counted.

Each good message after a bad one is answered.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress

import numpy as np
import pytest
from hostile_messages import (
    ACTIONS,
    COMMITTED,
    DOF,
    EVALUATE,
    GRADIENT,
    INTEGRATE,
    PARAMETERS,
    PLAN,
    REPORT,
    SERVICES,
    STATE,
    arrays_of,
    each_fault,
    good_evaluation,
    good_plan,
    good_report,
    good_sequence,
    judged,
    state,
    whole_evaluation,
    whole_gradient,
    whole_sequence,
)
from node_fixtures import JOINTS, plan
from preloaded_process import PreloadedNode
from rclpy.qos import QoSProfile, ReliabilityPolicy
from rclpy.serialization import serialize_message
from ros_client import RosClient
from std_msgs.msg import String

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Integrate, Stop
from traj_integrator_ros.client import packed, set_stamp

pytestmark = [pytest.mark.ros, pytest.mark.slow]
OF_PROCESS = {
    # Counts are read after each message to a topic.
    "diagnostics.period": 0.02,
    # A joint state lost by best effort would look like one that was not counted.
    "qos_overrides./joint_states.subscription.reliability": "reliable",
    "qos_overrides./controller_state.subscription.reliability": "reliable",
}
HERE = packed([])
"""A start that is left to the joint state."""
ANSWER_TIMEOUT_S = 15.0


class Node:
    """An active node with the robot at rest near 0; sends it messages, and counts its refusals."""

    def __init__(self, process: NodeProcess, report_type: type | None) -> None:
        self.process, self.report_type = process, report_type
        client = self.client = RosClient(JOINTS)
        client.wait_until_active()
        self.topics = {ACTIONS: client.sequences, PLAN: client.plans, STATE: client.states}
        if report_type is not None:
            self.topics[REPORT] = client.publisher(report_type, REPORT)
        self.rejected: Counter = Counter()
        self._number = 0

    def settle(self) -> None:
        """Publish a joint state and wait until trajectories start from it."""
        self._number += 1
        self.position = 1e-6 * self._number
        self.client.publish_state([self.position] * DOF)
        self.client.wait_for(self.holds_state, "the joint state in use")

    def holds_state(self) -> bool:
        """Return whether trajectories start from the joint state that was sent last."""
        response = self.ask(INTEGRATE, Integrate.Request(actions=good_sequence(start_position=HERE)))
        return response.success and np.allclose(response.trajectory.position[:DOF], self.position, atol=1e-8)

    def ask(self, channel: str, request: object) -> object:
        """The answer to a request that does not move the robot, and may be refused."""
        response = self.client.call(SERVICES[channel], channel, request)
        if not response.success:
            self.rejected[response.message.partition(":")[0]] += 1
        return response

    def reset(self) -> None:
        """Make the node forget its commands and the controller's reports."""
        assert self.client.change_state("deactivate") and self.client.change_state("activate")
        self.settle()

    def refuses(self, channel: str, message: object, refusal: str) -> None:
        """Send a message and expect a refusal with these words up to "got", and that it is counted."""
        refusal = refusal.partition(", got ")[0]
        if channel in SERVICES:
            response = self.ask(channel, message)
            assert not response.success and response.message.startswith(refusal), response.message
            assert not any(values.size for _, values in arrays_of(response))
            return
        self.rejected[refusal.partition(":")[0]] += 1
        client = self.client
        client.rejections.clear()
        self.topics[channel].publish(message)
        client.wait_for(lambda: rejected(client, fresh=False) == self.rejected, f"counted: {refusal}", ANSWER_TIMEOUT_S)
        for one in client.rejections:
            assert f"{one.reason}: {one.text}".startswith(refusal) and (one.topic, one.count) == (channel, 1), one
            assert isinstance(message, bytes) or one.header.stamp == message.header.stamp

    def answers(self, channel: str, message: object) -> None:
        """Send a message and expect an answer."""
        if channel in SERVICES:
            response = self.ask(channel, message)
            assert response.success, response.message
        elif channel == ACTIONS:
            self.client.answer(message, ANSWER_TIMEOUT_S)
        else:
            self.client.answer_plan(message)


def rejected(client: RosClient, fresh: bool = True) -> Counter:
    """How many messages the node has counted by reason."""
    values = {pair.key.partition(".")[2]: pair.value for pair in client.status(fresh).values if "rejected." in pair.key}
    return +Counter({reason: int(count) for reason, count in values.items()})


@pytest.fixture(scope="module")
def fresh_node(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Node]:
    """One node for all tests, which must survive them; the first tests send no joint state."""
    report_type = None
    with suppress(pytest.skip.Exception):  # without control_msgs, the node takes no reports
        report_type = request.getfixturevalue("report_type")
    process = PreloadedNode(tmp_path_factory.mktemp("hostile"), PARAMETERS | OF_PROCESS)
    node = None
    try:
        node = Node(process, report_type)
        yield node
    finally:
        if node is not None:
            node.client.close()
        process.stop()


@pytest.fixture(scope="module")
def node(fresh_node: Node) -> Node:
    """The node, which knows where the robot is."""
    fresh_node.settle()
    return fresh_node


@pytest.fixture(autouse=True)
def stays_in_good_health(fresh_node: Node) -> Iterator[None]:
    """Check that the node lives, has counted every refusal that it told, and had no unexpected error."""
    yield
    assert fresh_node.process.is_running(), fresh_node.process.output
    assert rejected(fresh_node.client) == fresh_node.rejected
    assert "internal_error" not in fresh_node.process.output, fresh_node.process.output


# Refusals for the state of the node


IN_NEED = good_sequence(start_position=HERE)
MESSAGES = {
    ACTIONS: IN_NEED,
    PLAN: plan([0.1], np.zeros((1, DOF))),
    INTEGRATE: Integrate.Request(actions=IN_NEED),
    GRADIENT: ComputeGradient.Request(actions=IN_NEED, grad_position=IN_NEED.data),
    EVALUATE: Evaluate.Request(actions=IN_NEED),
    COMMITTED: Committed.Request(rows=1),
}
"""Right ones that need a joint state."""


def test_without_a_joint_state_what_needs_one_is_refused(fresh_node: Node) -> None:
    for channel, message in MESSAGES.items():
        fresh_node.refuses(channel, message, "no_joint_state: start: ")
    # The gradient is linear: without data it depends on no state.
    request = ComputeGradient.Request(actions=good_sequence(start_position=HERE, data=HERE))
    request.grad_position = packed(np.ones(24))
    fresh_node.answers(GRADIENT, request)


def test_an_inactive_node_refuses_everything(node: Node) -> None:
    assert node.client.change_state("deactivate")
    for channel, message in MESSAGES.items():
        node.refuses(channel, message, "not_active: node: ")
    stop = node.client.call(Stop, "stop", Stop.Request())
    assert not stop.success and stop.message.startswith("not_active: ")
    node.rejected["not_active"] += 1
    assert node.client.change_state("activate")


# Refusals for the message


CASES = {
    ACTIONS: (whole_sequence(ActionSequence.BSPLINE), good_sequence()),
    PLAN: (plan([0.0, 0.1], np.zeros((2, DOF))), good_plan()),
    INTEGRATE: (Integrate.Request(actions=good_sequence()), Integrate.Request(actions=good_sequence())),
    GRADIENT: (whole_gradient(), whole_gradient()),
    EVALUATE: (whole_evaluation(), good_evaluation()),
    COMMITTED: (Committed.Request(rows=2, rows_before=2, dt=0.02), Committed.Request(rows=3)),
}
"""Messages to be spoilt, and good ones."""


def refusals(channel: str, message: object, *unread: str) -> Iterator[tuple[object, str]]:
    """For each field, the first message that is refused because of it, and the reason."""
    done: set[str] = set(unread)
    for path, spoilt in each_fault(message):
        if path not in done and (refusal := judged(channel, spoilt)):
            done.add(path)
            yield spoilt, refusal


@pytest.mark.parametrize("channel", CASES)
def test_a_refusal_says_what_is_wrong_and_the_next_message_is_answered(node: Node, channel: str) -> None:
    node.reset()
    whole, good = CASES[channel]
    for message, refusal in refusals(channel, whole):
        node.refuses(channel, message, refusal)
        if channel not in SERVICES:
            node.client.wait_for(lambda: node.client.rejections, "told")
        node.answers(channel, good)


@pytest.mark.parametrize("channel", [STATE, REPORT])
def test_what_is_refused_leaves_what_was_measured_before_in_force(node: Node, channel: str) -> None:
    if channel not in node.topics:
        pytest.skip("no control_msgs, so the node takes no reports")
    node.reset()
    unread = ("position",) if channel == STATE else ()
    for spoilt, refusal in refusals(channel, state() if channel == STATE else good_report(node.report_type), *unread):
        set_stamp(spoilt, time.time_ns())
        node.refuses(channel, spoilt, refusal)
        assert node.holds_state() if channel == STATE else node.client.counts()["controller"] == "unknown"


@pytest.mark.parametrize("channel", [ACTIONS, PLAN, STATE])
def test_bytes_that_are_no_message_are_refused(node: Node, channel: str) -> None:
    message = {ACTIONS: good_sequence(), PLAN: good_plan(), STATE: state()}[channel]
    whole, rng = bytes(serialize_message(message)), random.Random(0)
    for _ in range(10):
        at = 4 * rng.randrange(4, len(whole) // 4)
        damaged = whole[:at] + rng.choice([b"", b"\xff" * 4 + whole[at + 4 :]])
        if refusal := judged(channel, damaged):
            node.refuses(channel, damaged, refusal)
    node.settle()


# Sizes, and messages that do not arrive


def send_huge(node: Node) -> None:
    for length in (100_000, 2_000_000):  # within the limits of the node, a batch has at most 384 numbers
        data = packed(np.zeros(length))
        for name in ("data", "dt", "start_position"):
            message = good_sequence(**{name: data})
            refusal = judged(ACTIONS, message)
            node.refuses(ACTIONS, message, refusal)
            node.refuses(INTEGRATE, Integrate.Request(actions=message), refusal)
        request = ComputeGradient.Request(actions=good_sequence(), grad_velocity=data)
        node.refuses(GRADIENT, request, "gradient_length: grad_velocity: ")
    node.refuses(PLAN, plan(np.arange(25_000), np.zeros((25_000, DOF))), "size_out_of_range: points: ")


def test_huge_arrays_are_refused_and_take_no_more_memory_the_next_time(node: Node) -> None:
    for _ in range(3):
        send_huge(node)
    warm = node.process.memory_bytes("VmRSS")
    send_huge(node)
    assert node.process.memory_bytes("VmRSS") <= 1.05 * warm


def test_what_the_middleware_keeps_out_keeps_nobody_from_being_served(node: Node) -> None:
    other, stranger = RosClient(JOINTS), RosClient(JOINTS, "/somebody/else")
    topic = other.sequences.topic_name
    best_effort = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    unreliable = other.node.create_publisher(ActionSequence, topic, best_effort)
    of_another_type = stranger.node.create_publisher(String, topic, 10)
    node.process.wait_for_output("offering incompatible QoS", 20.0)
    other.wait_until_connected()
    stranger.wait_for(lambda: stranger.node.count_subscribers(topic), "the node discovered")
    for _ in range(10):
        unreliable.publish(good_sequence(batch=0))
        of_another_type.publish(String(data="not a sequence"))
    # Its writer waits until it is received, so all later messages of that writer wait, too; others do not.
    other.sequences.publish(b"")
    other.spin(0.2)
    other.close()
    stranger.close()
    node.client.spin(0.3)
    node.rejected = rejected(node.client)
    node.answers(ACTIONS, good_sequence())
    node.answers(INTEGRATE, Integrate.Request(actions=good_sequence()))
