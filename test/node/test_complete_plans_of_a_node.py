"""Plans from planners without this package's messages, over DDS; test/governor tests how plans are executed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from node_fixtures import JOINTS, changed, plan
from ros_client import RosClient

from traj_integrator_interfaces.srv import Stop

pytestmark = pytest.mark.ros
V, A = 2.0, 5.0
LIMITS = {"limits__velocity": [V] * 3, "limits__acceleration": [A] * 3, "limits__action": "retime"}


@pytest.fixture
def limited(client: RosClient) -> Iterator[RosClient]:
    """A client of a node with limits, whose robot rests."""
    with changed(client, **LIMITS):
        client.settle_state([0.1, 0.2, 0.3])
        yield client


def test_a_plan_of_one_joint_that_asks_too_much_reaches_its_goal_later(limited: RosClient) -> None:
    before = int(limited.counts()["slowed"])
    limited.statuses.clear()
    answer = limited.answer_plan(plan([0.0, 0.1], [[0.2], [1.1]], JOINTS[1:2]))
    rows, last = np.array([point.positions for point in answer.points]), answer.points[-1].time_from_start
    np.testing.assert_allclose(rows[:, [0, 2]], [[0.1, 0.3]] * len(rows), atol=1e-12)
    assert rows[-1, 1] == pytest.approx(1.1, abs=1e-6)

    def told() -> list[float]:
        """Seconds by which each message since then was slowed."""
        return [float(pair.value) for one in limited.statuses for pair in one.values if pair.key == "slowed_by_s"]

    limited.wait_for(lambda: any(told()), "a status that tells of it")
    assert max(told()) == pytest.approx(last.sec + last.nanosec * 1e-9 - 0.1, abs=2e-3)
    assert int(limited.counts()["slowed"]) == before + 1


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_plans_of_thousands_of_points_pass_as_they_are(limited: RosClient, count: int) -> None:
    share = np.arange(1, count + 1)[:, None] / count
    rows = [0.1, 0.2, 0.3] + share**3 * (10 - 15 * share + 6 * share**2) * [0.4, -0.3, 0.2]
    limited.trajectories.clear()
    limited.plans.publish(plan(1e-3 * np.arange(1, count + 1), rows))
    limited.wait_for(lambda: limited.trajectories, "a trajectory", 30.0)
    answer = limited.trajectories[-1]
    assert len(answer.points) == count + 1
    np.testing.assert_allclose([point.positions for point in answer.points[1:]], rows, atol=1e-6)
    assert limited.call(Stop, "stop", Stop.Request()).success
