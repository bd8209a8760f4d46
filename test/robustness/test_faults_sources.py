"""Sources that die and come back: of joint states, and of simulated time."""

from __future__ import annotations

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from robot_process import beside
from ros_client import RosClient, sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
FROM_ROBOT = sequence(np.zeros((1, 4, 3)))
"""Starts from the latest joint state."""


def answered(client: RosClient) -> bool:
    return client.integrate(FROM_ROBOT).success


def refused(client: RosClient, reason: str) -> bool:
    return client.integrate(FROM_ROBOT).message.startswith(f"{reason}: start")


def assert_accounted(client: RosClient) -> None:
    counts = client.counts()
    rejected = sum(int(value) for key, value in counts.items() if key.startswith("rejected."))
    # Calls of the service that were refused are counted, too.
    assert int(counts["published"]) <= int(counts["sequences"]) <= int(counts["published"]) + rejected
    assert counts["rejected.internal_error"] == "0"


def test_joint_states_that_stop_and_resume_while_a_planner_continues(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    start_node({"state_timeout": 0.5})
    client = connect()
    client.wait_until_active()
    planner = client.node.create_timer(0.02, lambda: client.sequences.publish(FROM_ROBOT))
    client.wait_for(lambda: refused(client, "no_joint_state"), "no joint state yet")
    for _ in range(2):
        with beside("states", 100):
            client.wait_for(lambda: answered(client), "served with joint states", 20.0)
            client.batches.clear()
            client.wait_for(lambda: len(client.batches) > 5, "answers to the planner", 20.0)
        client.wait_for(lambda: refused(client, "state_too_old"), "refused without them", 20.0)
        client.wait_for(lambda: client.status(fresh=False).level == client.status().STALE, "level STALE", 20.0)
    client.node.destroy_timer(planner)
    assert_accounted(client)
