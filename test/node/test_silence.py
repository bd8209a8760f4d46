"""A network that stands still, or joint states that have ended: the node finds out which before it brakes."""

from __future__ import annotations

import time

import pytest
from node_fixtures import JOINTS, NodeServer, plan

pytestmark = [pytest.mark.ros, pytest.mark.slow]


def test_a_brake_for_joint_states_that_ended_is_sent_once_the_motion_has_arrived_again(serve: NodeServer) -> None:
    _, client = serve({"state_timeout": 0.5})
    with client.periodically(0.01, lambda: client.publish_state([0.0] * len(JOINTS))):
        client.spin(0.3)
        sent = client.answer_plan(plan([3.0], [[0.2] * len(JOINTS)]))
        client.spin(0.3)
    ended_s = time.monotonic()
    client.wait_for(lambda: len(client.trajectories) >= 3, "a brake", 2.0)
    assert time.monotonic() - ended_s < 0.7, "within state_timeout, and not after a second"
    _, again, brake = client.trajectories
    assert again == sent
    assert brake.points[-1].positions[0] < 0.2
