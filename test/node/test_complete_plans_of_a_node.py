"""Plans of planners that do not use our messages, as a robot gets them: they end at their goal."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
from node_fixtures import JOINTS, NodeServer, plan
from trajectory_msgs.msg import JointTrajectory

from traj_integrator_interfaces.msg import Rejection
from traj_integrator_ros.execution.limits import Limits, extremes, worst_violations
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.rows import Points, motion_of_points

pytestmark = pytest.mark.ros
LIMITS = {"velocity": 2.0, "acceleration": 5.0, "jerk": 50.0, "position_min": 0.0, "position_max": 2.0}
PARAMETERS = {f"limits.{name}": [value] * len(JOINTS) for name, value in LIMITS.items()} | {
    "limits.action": "retime",
    "limits.assumed_velocity": 0.0,
}
GOAL_RAD = 1e-6
OUTSIDE = -3e-4
"""rad that the robot is measured outside of a limit."""


def played(message: JointTrajectory) -> Motion:
    """What the controller makes of a message."""
    time_ns = [point.time_from_start.sec * 10**9 + point.time_from_start.nanosec for point in message.points]
    parts = (np.array([getattr(point, part) for point in message.points]) for part in ("positions", "velocities"))
    accelerations = np.array([point.accelerations for point in message.points])
    return motion_of_points(Points(np.array(time_ns), *parts, accelerations if accelerations.size else None))


def with_velocities(message: JointTrajectory, rows: object) -> JointTrajectory:
    for point, row in zip(message.points, rows, strict=True):
        point.velocities = array("d", row)
    return message


@pytest.fixture(scope="module", params=[(0.0, 0.0, 0.0), (OUTSIDE, 0.0, 0.1)], ids=["at a limit", "outside of it"])
def start(request: pytest.FixtureRequest) -> tuple[float, ...]:
    """Where the robot stands."""
    return request.param


PLANS = {
    "few positions": ([0.0, 0.5, 1.0], [[0.0, 0.0, 0.1], [0.4, 0.2, 0.1], [1.2, 0.2, 0.1]], None),
    "velocities": (
        [0.0, 0.5, 1.0],
        [[0.0, 0.0, 0.1], [0.4, 0.2, 0.1], [1.2, 0.2, 0.1]],
        [[0.0] * 3, [1.0, 0.0, 0.0], [0.0] * 3],
    ),
    "no point at time 0": ([0.75, 1.5], [[0.2, 0.1, 0.1], [0.4, 0.2, 0.1]], None),
    "there and back": ([0.0, 0.6, 1.2], [[0.0, 0.0, 0.1], [0.5, 0.3, 0.4], [0.0, 0.0, 0.1]], None),
    "uneven, and a short last step": (
        [0.0, 0.1, 0.8, 0.801],
        [[0.0, 0.0, 0.1], [0.01, 0.0, 0.1], [0.6, 0.2, 0.3], [0.601, 0.2, 0.3]],
        None,
    ),
    "one point at time 0": ([0.0], [[0.5, 0.3, 0.2]], None),
    "to a limit": ([0.0, 0.3, 0.6], [[0.0, 0.0, 0.1], [1.5, 0.3, 0.1], [2.0, 0.5, 0.0]], None),
}


@pytest.mark.parametrize("name", PLANS)
def test_a_plan_ends_at_rest_at_its_goal_within_limits_and_never_beyond(
    serve: NodeServer, start: tuple[float, ...], name: str
) -> None:
    times, rows, velocities = PLANS[name]
    _, client = serve(PARAMETERS)
    client.settle_state(start)
    message = plan(times, rows)
    if velocities is not None:
        with_velocities(message, velocities)
    answer = client.answer_plan(message)
    motion, last = played(answer), answer.points[-1]
    np.testing.assert_allclose(last.positions, rows[-1], atol=GOAL_RAD)
    assert not any(last.velocities)
    everywhere = np.vstack([np.asarray(start), rows])
    least, most = extremes(motion)[:, 0]
    assert (least >= everywhere.min(axis=0) - GOAL_RAD).all() and (most <= everywhere.max(axis=0) + GOAL_RAD).all()
    rates = ("velocity", "acceleration", "jerk") if last.accelerations else ("velocity", "acceleration")
    limits = Limits(**{rate: np.full(len(JOINTS), LIMITS[rate]) for rate in rates})
    assert not worst_violations(motion, limits, of_points=True)


def test_what_leads_further_outside_or_does_not_end_at_rest_is_refused_by_name(serve: NodeServer) -> None:
    _, client = serve(PARAMETERS)
    client.settle_state([OUTSIDE, 0.0, 0.1])
    outward = plan([0.0, 1.0], [[OUTSIDE, 0.0, 0.1], [2 * OUTSIDE, 0.2, 0.1]])
    moving = with_velocities(plan([0.0, 1.0], [[0.0, 0.0, 0.1], [0.2, 0.2, 0.1]]), [[0.0] * 3, [0.0, 0.3, 0.0]])
    told: list[Rejection] = []
    client.subscribe(Rejection, "~/rejections", told.append, 100)
    client.wait_until_connected()
    for message, reason, words in (
        (outward, "limits_violated", "position of joint_a exceeds its limit"),
        (moving, "goal_in_motion", "points[-1].velocities: expected 0 at the goal, got 0.3 for joint_b"),
    ):
        told.clear()
        client.plans.publish(message)
        client.wait_for(lambda: told, "a rejection")
        assert told[-1].reason == reason and words in told[-1].text
    assert not client.trajectories


def test_a_trapezoid_at_exactly_the_limits_passes_as_it_is(serve: NodeServer) -> None:
    _, client = serve({name: value for name, value in PARAMETERS.items() if name != "limits.jerk"})
    client.settle_state([0.0, 0.0, 0.1])
    times, a, v = np.linspace(0, 1, 11), LIMITS["acceleration"], LIMITS["velocity"]
    rising, left = v / a, 1 - times
    parts = [
        np.select([times < rising, left < rising], [begin, end], cruise)
        for begin, end, cruise in (
            (a * times**2 / 2, v * (1 - rising) - a * left**2 / 2, v * (times - rising / 2)),
            (a * times, a * left, np.full(11, v)),
            (np.full(11, a), np.full(11, -a), np.zeros(11)),
        )
    ]
    position, velocity, acceleration = (part[:, None] * [1.0, 0.5, 0.25] for part in parts)
    message = with_velocities(plan(times, position + np.array([0.0, 0.0, 0.1])), velocity)
    for point, row in zip(message.points, acceleration, strict=True):
        point.accelerations = array("d", row)
    answer = client.answer_plan(message)
    assert [point.time_from_start for point in answer.points] == [point.time_from_start for point in message.points]
    for part in ("positions", "velocities", "accelerations"):
        found, sent = ([getattr(point, part) for point in one.points] for one in (answer, message))
        np.testing.assert_allclose(found, sent, atol=1e-9)
    counts = client.counts()
    assert (counts["slowed"], counts["slowed_by_s"], counts["trajectories_published"]) == ("0", "0.000", "1")


def test_joints_that_a_plan_leaves_out_stay_where_they_are(serve: NodeServer) -> None:
    _, client = serve(PARAMETERS)
    client.settle_state([0.1, 0.2, 0.3])
    answer = client.answer_plan(plan([0.0, 0.5, 1.0], [[0.2], [0.5], [1.1]], JOINTS[1:2]))
    rows = np.array([point.positions for point in answer.points])
    np.testing.assert_allclose(rows[-1], [0.1, 1.1, 0.3], atol=GOAL_RAD)
    np.testing.assert_allclose(rows[:, [0, 2]], [[0.1, 0.3]] * len(rows), atol=1e-12)
    assert extremes(played(answer))[1, 0, 1] <= 1.1 + GOAL_RAD


def test_a_plan_that_asks_for_too_much_says_by_how_much_it_ends_later(serve: NodeServer) -> None:
    _, client = serve(PARAMETERS)
    client.settle_state([0.0, 0.0, 0.1])
    client.statuses.clear()
    answer = client.answer_plan(plan([0.0, 0.1], [[0.0, 0.0, 0.1], [1.0, 0.2, 0.1]]))
    last = answer.points[-1].time_from_start

    def told() -> list[float]:
        """By how much, in each message since then."""
        return [float(pair.value) for one in client.statuses for pair in one.values if pair.key == "slowed_by_s"]

    client.wait_for(lambda: any(told()), "a status that tells of it")
    assert max(told()) == pytest.approx(last.sec + last.nanosec * 1e-9 - 0.1, abs=2e-3)
    assert client.counts()["slowed"] == "1"
