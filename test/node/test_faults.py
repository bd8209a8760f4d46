"""Memory that runs out, planners side by side: each test with a node of its own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeServer

from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.traffic.messages import floats, sequence

pytestmark = pytest.mark.ros
DOF = 3
WITH_START = sequence(np.zeros((1, 2, DOF)), position=np.zeros(DOF))


def test_exhausted_device_memory_is_reported_and_the_next_request_is_served(serve: NodeServer) -> None:
    _, client = serve(program=[str(Path(__file__).parent / "node_short_of_memory.py")])
    large = sequence(np.zeros((64, 64, DOF)), position=np.zeros(DOF))
    gradient = ComputeGradient.Request(actions=large, grad_position=floats(np.zeros(64 * 64 * DOF)))
    for refused in (client.integrate(large), client.compute_gradient(gradient)):
        assert not refused.success
        assert refused.message.startswith("out_of_device_memory: batch: out of memory on cpu: tried to allocate ")
    client.wait_for(lambda: any(status.level == status.ERROR for status in client.statuses), "level ERROR")
    assert client.integrate(WITH_START).success
    client.sequences.publish(large)
    client.wait_for(lambda: client.counts()["rejected.out_of_device_memory"] == "3", "one more counted")
    assert not client.batches and not client.trajectories
    client.answer(WITH_START)


def test_two_planners_at_once_are_both_answered_and_counted(serve: NodeServer, connect: ClientFactory) -> None:
    (_, first), second = serve(), connect()
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
