"""Cost of an idle node: how often it wakes, with input and without, and that it is awake in motion."""

from __future__ import annotations

from pathlib import Path

import pytest
from node_fixtures import changed, plan
from ros_client import RosClient

from kit.node_process import NodeProcess

pytestmark = pytest.mark.ros
MOST_IDLE = 37.0
"""Wake-ups/s: 3 % of a core, at 0.8 ms each."""
LEAST_BUSY = 25.0
"""The robot is supervised 100 times a second; beside other tests on two cores, 35 wake-ups a second were seen."""
SETTLES_S, LOOKED_S = 0.7, 1.0


def wake_ups(process: NodeProcess) -> int:
    """Number of times that the thread that handles input has begun to work."""
    status = Path(f"/proc/{process.pid}/task/{process.pid}/status").read_text(encoding="utf-8")
    (count,) = [line.split()[1] for line in status.splitlines() if line.startswith("voluntary_ctxt_switches")]
    return int(count)


def wakes_a_second(process: NodeProcess, client: RosClient) -> float:
    before = wake_ups(process)
    client.spin(LOOKED_S)
    return (wake_ups(process) - before) / LOOKED_S


def test_an_idle_node_wakes_seldom_and_a_moving_one_often(shared_node: NodeProcess, client: RosClient) -> None:
    with changed(client, diagnostics__period=1.0, limits__velocity=[1.0] * 3):
        client.spin(SETTLES_S)
        assert wakes_a_second(shared_node, client) < MOST_IDLE
        with client.periodically(0.01, lambda: client.publish_state([0.0] * 3)):
            client.spin(SETTLES_S)
            assert wakes_a_second(shared_node, client) < MOST_IDLE
            client.answer_plan(plan([5.0], [[0.3] * 3]))
            assert max(wakes_a_second(shared_node, client) for _ in range(3)) > LEAST_BUSY
