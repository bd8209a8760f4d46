"""What a node costs: an idle one wakes seldom, and whatever answers a message has run before the first one comes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer, changed, plan
from rclpy.qos import DurabilityPolicy, QoSProfile
from ros_client import RosClient
from std_msgs.msg import String

from kit.node_process import NodeProcess
from traj_integrator_ros.client import sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
LIMITS = {
    "given": {"limits.velocity": [2.0] * len(JOINTS), "limits.acceleration": [10.0] * len(JOINTS)},
    "described": {"limits.assumed_velocity": 2.0},
}
JOINT = '<joint name="{}" type="revolute"><limit lower="-3" upper="0.2" velocity="9" acceleration="4"/></joint>'
ROWS = np.tile(np.linspace(0.01, 0.3, 16)[:, None], len(JOINTS))
MOST_IDLE = 37.0
"""Wake-ups/s: 3 % of a core, at 0.8 ms each."""
LEAST_BUSY = 25.0
"""The robot is supervised 100 times a second; beside other tests on two cores, 35 wake-ups a second were seen."""
SETTLES_S, LOOKED_S = 0.7, 1.0


@pytest.mark.parametrize("limits", ["given", pytest.param("described", marks=pytest.mark.thorough)])
def test_the_first_messages_load_nothing(serve: NodeServer, monkeypatch: pytest.MonkeyPatch, limits: str) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")  # Python writes a line about each module that it loads
    changes = {"limits.action": "retime", "limits.urdf": "topic", "position_trajectory.without_times": "path"}
    process, client = serve(LIMITS[limits] | changes, kind=NodeProcess)
    client.settle_state([0.0] * len(JOINTS))
    loaded = process.output.count("import time:")
    assert loaded > 100
    for rows in (ROWS, ROWS + 0.03, 5 * ROWS):
        client.answer(sequence(rows[None], dt=[0.05]))
    if limits == "given":  # only limits can time a path; it waits for the stop of a moving robot
        client.plans.publish(plan([0.0] * 16, ROWS))
        ends = lambda: [message.points[-1].positions for message in client.trajectories]  # noqa: E731
        client.wait_for(lambda: any(np.allclose(place, ROWS[-1], atol=1e-4) for place in ends()), "the path")
    client.trajectories.clear()
    latched = QoSProfile(depth=1, durability=DurabilityPolicy.TRANSIENT_LOCAL)
    description = client.node.create_publisher(String, "robot_description", latched)
    description.publish(String(data=f"<robot>{''.join(map(JOINT.format, JOINTS))}</robot>"))
    client.wait_for(lambda: client.trajectories, "the motion in execution within the limits of the URDF")
    assert process.output.count("import time:") == loaded, process.output[-2000:]


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
