"""Sources that fall silent, planners that are too fast: each test with a node of its own."""

from __future__ import annotations

import numpy as np
import pytest
from conftest import ClientFactory, NodeFactory
from ros_client import assert_counted, floats, sequence

from traj_integrator_interfaces.srv import ComputeGradient

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


def test_a_joint_state_that_is_too_old_is_refused_until_a_new_one_comes(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node({"state_timeout": 0.3})
    client = connect()
    client.wait_until_active()
    message = sequence(np.zeros((1, 2, DOF)))
    client.settle_state([0.0] * DOF)
    assert client.integrate(message).success
    client.spin(0.4)
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
    sent = 300
    for number in range(sent):
        large.header.stamp.sec = number + 1
        client.sequences.publish(large)
    client.wait_for(lambda: int(client.counts()["sequences"]) >= sent, "all accounted for", 20.0)
    counts = client.counts()
    assert int(counts["published"]) + int(counts["rejected.queue_overflow"]) == sent
    assert int(counts["rejected.queue_overflow"]) > 0
    assert client.batches[-1].header.stamp.sec == sent, "the newest is kept"
