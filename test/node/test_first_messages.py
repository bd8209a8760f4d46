"""Every step that answers a message has run before the node is active, so that the first message is not slower."""

from __future__ import annotations

import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer, plan
from rclpy.qos import DurabilityPolicy, QoSProfile
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
