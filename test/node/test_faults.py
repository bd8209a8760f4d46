"""Sources that fall silent, planners that are too fast: each test with a node of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from ros_client import RosClient, assert_counted, floats, sequence

from traj_integrator_interfaces.srv import ComputeGradient, Integrate

pytestmark = pytest.mark.ros
DOF = 3
WITH_START = sequence(np.zeros((1, 2, DOF)), position=np.zeros(DOF))


def test_without_a_joint_state_only_sequences_that_bring_a_start_are_answered(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node()
    client = connect()
    client.wait_until_active()
    message = sequence(np.zeros((1, 2, DOF)))
    assert client.integrate(message).message.startswith("no_joint_state: start")
    assert client.integrate(WITH_START).success
    assert_counted(client, lambda: client.sequences.publish(message), "no_joint_state")
    # The gradient is linear: without data it depends on no state.
    request = ComputeGradient.Request(actions=sequence(np.zeros((1, 2, DOF))), grad_position=floats(np.ones(6)))
    request.actions.data = floats([])
    assert client.compute_gradient(request).success
    client.publish_state([0.0] * 2, names=["finger_1", "finger_2"])
    assert client.integrate(message).message.startswith("no_joint_state")
    assert client.counts()["rejected.joint_missing"] == "0", "a message about other joints is nothing wrong"


def test_a_joint_state_that_is_too_old_is_refused_until_a_new_one_arrives(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node({"state_timeout": 1.0})
    client = connect()
    client.wait_until_active()
    message = sequence(np.zeros((1, 2, DOF)))
    client.settle_state([0.0] * DOF)
    assert client.integrate(message).success
    client.spin(1.1)
    assert client.integrate(message).message.startswith("state_too_old: start")
    status = client.status()
    assert status.level == status.STALE
    client.settle_state([0.0] * DOF)
    assert client.integrate(message).success


def test_too_many_sequences_cost_the_oldest_and_are_counted(start_node: NodeFactory, connect: ClientFactory) -> None:
    start_node()
    client = connect()
    client.wait_until_active()
    large = sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF))
    client.answer(large)  # what a planner sent before the node heard of it cannot be counted
    sent = 300
    for number in range(sent):
        large.header.stamp.sec = number + 1
        client.sequences.publish(large)
    client.wait_for(lambda: int(client.counts()["sequences"]) >= sent + 1, "all accounted for", 20.0)
    counts = client.counts()
    assert int(counts["published"]) + int(counts["rejected.queue_overflow"]) == sent + 1
    assert int(counts["rejected.queue_overflow"]) > 0
    client.wait_for(lambda: client.batches[-1].header.stamp.sec == sent, "the answer to the newest, which is kept")


def test_exhausted_device_memory_is_reported_and_the_next_request_is_served(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node(program=[str(Path(__file__).parent / "node_short_of_memory.py")])
    client = connect()
    client.wait_until_active()
    large = sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF))
    gradient = ComputeGradient.Request(actions=large, grad_position=floats(np.zeros(64 * 64 * DOF)))
    for refused in (client.integrate(large), client.compute_gradient(gradient)):
        assert not refused.success
        assert refused.message.startswith("out_of_device_memory: batch: out of memory on cpu: tried to allocate ")
    client.wait_for(lambda: any(status.level == status.ERROR for status in client.statuses), "level ERROR")
    assert client.integrate(WITH_START).success
    assert_counted(client, lambda: client.sequences.publish(large), "out_of_device_memory")
    client.answer(WITH_START)
    assert client.counts()["rejected.out_of_device_memory"] == "3"


def test_two_planners_at_once_are_both_answered_and_counted(start_node: NodeFactory, connect: ClientFactory) -> None:
    start_node()
    first, second = connect(), connect()
    first.wait_until_active()
    first.wait_until_connected()
    second.wait_until_connected()
    for number in range(100):
        for planner, stamp in ((first, 1_000 + number), (second, 2_000 + number)):
            message = sequence(np.zeros((1, 2, DOF)), position=np.zeros(DOF))
            message.header.stamp.sec = stamp
            planner.sequences.publish(message)
        # Never more than the node's queue holds: what it loses of two planners cannot be counted with every rclpy.
        first.wait_for(lambda sent=2 * number: len(first.batches) > sent - 6, "answers")
    first.wait_for(lambda: int(first.counts()["sequences"]) == 200, "all accounted for")
    assert first.counts()["published"] == "200"
    assert {batch.header.stamp.sec for batch in first.batches} == {*range(1_000, 1_100), *range(2_000, 2_100)}


def test_a_service_client_that_disappears_mid_call_does_no_harm(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node()
    client = connect()
    client.wait_until_active()
    for _ in range(4):
        passing = RosClient(client.joint_names)
        caller = passing.node.create_client(Integrate, f"{client.node_name}/integrate")
        passing.wait_for(caller.service_is_ready, "service")
        caller.call_async(Integrate.Request(actions=sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF))))
        passing.close()
    assert client.integrate(WITH_START).success
    assert client.counts()["rejected.internal_error"] == "0"
