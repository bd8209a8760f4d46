"""Arrays far beyond what the node accepts, and what the middleware keeps from it.

What is refused takes no more memory the next time; what the node never gets must not keep it from serving others, and
it must report it where it can know.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
from hostile_cases import NODE, good_sequence
from hostile_node import HostileNode
from hostile_oracle import Verdict, judge_gradient, judge_motion, judge_plan, judge_sequence, judge_state
from node_fixtures import plan
from rclpy.qos import QoSProfile, ReliabilityPolicy
from sensor_msgs.msg import JointState
from std_msgs.msg import String

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.traffic.messages import floats
from traj_integrator_ros.traffic.ros_client import RosClient

pytestmark = [pytest.mark.ros, pytest.mark.slow]
TOPIC = "/traj_integrator/action_sequence"
TIMES = 10
ACCEPTED = Verdict(frozenset(), may_pass=True)
HUGE = (100_000, 500_000, 2_000_000)
"""Lengths of arrays of numbers; those of a batch within the limits of the node have at most 384."""
MANY = 10_000
"""Names, points."""


# What the middleware keeps out


@pytest.fixture
def other(hostile_node: HostileNode) -> Iterator[RosClient]:
    """A client whose publishers do not match; the node outlives it, and none of its messages arrive."""
    client = RosClient(NODE.joint_names)
    yield client
    client.close()
    hostile_node.catch_up()
    hostile_node.sequence(good_sequence(), ACCEPTED)
    hostile_node.integrate(good_sequence(), ACCEPTED)
    hostile_node.assert_in_good_health()


def test_a_publisher_of_another_quality_of_service(hostile_node: HostileNode, other: RosClient) -> None:
    qos = QoSProfile(depth=10, reliability=ReliabilityPolicy.BEST_EFFORT)
    publisher = other.node.create_publisher(ActionSequence, TOPIC, qos)
    hostile_node.process.wait_for_output("offering incompatible QoS")
    for _ in range(TIMES):
        publisher.publish(good_sequence(batch=0))
    other.spin(0.2)


def test_another_type_on_the_name_of_the_topic(hostile_node: HostileNode) -> None:
    other = RosClient(NODE.joint_names, "/somebody/else")
    publisher = other.node.create_publisher(String, TOPIC, 10)
    other.wait_for(lambda: other.node.count_subscribers(TOPIC), "the node discovered")
    for _ in range(TIMES):
        publisher.publish(String(data="not a sequence"))
    other.spin(0.2)
    other.close()
    hostile_node.sequence(good_sequence(), ACCEPTED)


def test_a_message_without_a_single_byte(hostile_node: HostileNode, other: RosClient) -> None:
    """Its writer waits for it to be received, so that all later ones of the same writer wait, too; others do not."""
    other.wait_until_connected()
    other.sequences.publish(b"")
    other.spin(0.2)


# Sizes


def send_huge(node: HostileNode) -> None:
    for length in HUGE:
        data = floats(np.zeros(length))
        for message in (good_sequence(data=data), good_sequence(dt=data), good_sequence(start_position=data)):
            node.sequence(message, judge_motion(message, NODE))
            node.integrate(message, judge_sequence(message, NODE))
        request = ComputeGradient.Request(actions=good_sequence(), grad_velocity=data)
        node.compute_gradient(request, judge_gradient(request, NODE))
    long = plan(np.arange(MANY), np.zeros((MANY, NODE.dof)))
    node.plan(long, judge_plan(long, NODE, time.time_ns()))


def test_huge_arrays_are_refused_and_take_no_more_memory_the_next_time(hostile_node: HostileNode) -> None:
    for _ in range(3):
        send_huge(hostile_node)
    hostile_node.warm_bytes = hostile_node.process.memory_bytes("VmRSS")
    send_huge(hostile_node)
    hostile_node.assert_in_good_health()


def test_ten_megabytes_of_empty_names_cost_no_time(hostile_node: HostileNode) -> None:
    """Read one by one in Python, they would stop the node for seconds."""
    names = [""] * (10 * 2**20 // 8)
    before_s = hostile_node.process.cpu_s()
    sequence = good_sequence(joint_names=names)
    hostile_node.sequence(sequence, judge_sequence(sequence, NODE).or_too_many("joint_names"))
    long = plan([0.0], np.zeros((1, 0)), names)
    hostile_node.plan(long, judge_plan(long, NODE, time.time_ns()).or_too_many("joint_names"))
    state = JointState(name=[NODE.joint_names[0], *names])
    hostile_node.state(state, judge_state(state, NODE, hostile_node.newest_stamp_ns).or_too_many("joint_states.name"))
    # Three messages; beside them it supervises and reports, which takes a share of however long this lasts.
    assert hostile_node.process.cpu_s() < before_s + 3.0
