"""Motions begin at the controller's command, or where the robot is if that is unknown; and not far from the robot."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import NOW_S, SimulatedNode, at, limits, ns, rejected

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.polynomials import between
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

ROWS = np.linspace(0.2, 0.3, 30)[:, None] * np.ones(2)
LINE = 0.01 * np.arange(1, 11)[:, None] * np.ones(2)
"""Positions every 20 ms at 0.5 rad/s."""


def test_a_robot_moved_while_nothing_was_executed_starts_where_it_is() -> None:
    node = SimulatedNode()
    node.execute(0.3, at=NOW_S - 1)
    for k in range(200):
        node.measure(min(0.3 + 0.01 * k, 0.7), now=NOW_S + 0.01 * k)
        assert node.tick(NOW_S + 0.01 * k) is None
    trajectory = node.send(0.7 + LINE[:8] / 2, dt=0.05, now=NOW_S + 2.0)
    assert np.allclose(trajectory.motion.begin.position, 0.7) and trajectory.start_ns > ns(NOW_S + 2.0)


def test_nothing_begins_with_a_moving_robot_and_an_unknown_controller() -> None:
    """The controller may still execute a motion that the node published before its restart."""
    node = SimulatedNode(start_from="previous", limits__start_deviation=0.0)
    node.measure(0.0, np.array([0.0, 0.3]))
    error = rejected(node.send, ROWS, dt=0.05)
    assert error.reason is RejectionReason.DEVIATION and "b moves at 0.3" in error.message
    node.measure(0.0, np.array([0.0, 0.01]), now=NOW_S + 0.1)
    trajectory = node.send(ROWS, dt=0.05, now=NOW_S + 0.1)
    assert not trajectory.motion.begin.position.any() and not trajectory.motion.begin.velocity.any()


@pytest.mark.parametrize(("moves", "says"), [(0.3, 0.0), (0.0, 0.3)])
def test_whether_a_robot_rests_is_seen_by_where_it_is(moves: float, says: float) -> None:
    """Velocities are noise in some drivers, and missing in others."""
    node = SimulatedNode(start_from="previous", limits__start_deviation=0.0)
    for time in np.arange(0.0, 0.3, 0.02):
        node.measure(moves * time, says, now=NOW_S + time)
    if moves:
        error = rejected(node.send, ROWS, dt=0.05, now=NOW_S + 0.3)
        assert error.reason is RejectionReason.DEVIATION and f"moves at {moves:g}" in error.message
    else:
        assert not node.send(ROWS, dt=0.05, now=NOW_S + 0.3).motion.begin.velocity.any()


@pytest.mark.parametrize("inference", [0.0, 0.1])
def test_the_first_chunk_for_a_robot_that_moves_meets_it_where_it_will_be(inference: float) -> None:
    node = SimulatedNode(start_from="previous", limits__start_deviation=0.0, publish__start_moving=True)
    velocity = np.array([1.0, -0.5])
    node.measure(velocity * inference, velocity)
    positions = 0.02 * np.arange(1, 31)[:, None] * velocity
    trajectory = node.send(positions, stamp=NOW_S - inference)
    bridged = NOW_S + 0.2
    assert trajectory.start_ns == ns(bridged)
    for time in bridged + np.linspace(0, 0.2, 20):
        expected = (time - NOW_S + inference) * velocity, velocity
        assert np.allclose(at(trajectory, time)[:2], expected, atol=1e-5)


def held_node(**given: float) -> SimulatedNode:
    """A node with limits, whose controller holds 0 because the previous motion is over."""
    usual = {"limits__start_deviation": 0.0, "publish__start_moving": True}
    node = SimulatedNode(start_from="previous", **usual, **limits(**given))
    node.execute(0.0)
    node.published.drop()
    return node


@pytest.mark.parametrize("velocity", [0.0, 0.02, -0.3])
@pytest.mark.parametrize("gap", [2e-4, 0.2])
def test_the_controller_has_time_to_bridge_a_gap_to_joints_that_move(gap: float, velocity: float) -> None:
    """Twice the acceleration in the first cycle, as if its last command were a cycle older, keeps the limit of jerk."""
    node = held_node(velocity=2.0, acceleration=10.0, jerk=60.0)
    node.measure(gap, velocity)
    trajectory = node.send(ROWS, dt=0.05)
    first = at(trajectory, trajectory.start_ns * 1e-9)
    span = trajectory.start_ns * 1e-9 - NOW_S - node.parameters.publish_lead_time
    way = Motion(np.array([0.0, span]), between(np.array([span]), np.stack([np.zeros((3, 2)), first], axis=1)))
    _, speed, acceleration, jerk = np.abs(extremes(way)).max(axis=(0, 2))
    assert jerk <= 60.0 / 3.9 and acceleration <= 10.0 and speed <= 2.0


def test_a_start_that_the_robot_will_have_reached_by_then_is_none_away() -> None:
    node = SimulatedNode(start_from="previous")
    options = {"start": (np.full(2, 0.15), np.ones(2)), "stamp": NOW_S + 0.15}
    node.execute(0.0, 1.0)
    node.measure(0.0, 1.0)
    assert node.send(0.15 + 2 * LINE, **options) is not None
    node.measure(0.0, 0.0, now=NOW_S + 0.001)
    further = options | {"start": (np.full(2, 0.3), np.ones(2)), "now": NOW_S + 0.001}
    assert rejected(node.send, 0.3 + 2 * LINE, **further).reason is RejectionReason.START_MISMATCH
    node.measure(0.12, 0.0, now=NOW_S + 0.02)
    assert node.send(0.15 + 2 * LINE, now=NOW_S + 0.02, **options) is not None


def test_chunks_may_begin_where_the_robot_was_when_they_were_observed() -> None:
    node, ago = SimulatedNode(start_from="previous"), 0.6
    node.execute(0.0, 1.0)
    for now in NOW_S + 0.1 * np.arange(1, 8):
        node.measure(*node.commanded(now)[:2], now=now)
        rows = now - ago - NOW_S + 0.05 * np.arange(1, 17)[:, None] * np.ones(2)
        assert node.send(rows, dt=0.05, now=now, stamp=now - ago) is not None


def test_a_plan_away_from_a_robot_that_is_away_from_its_command_is_refused():
    node = SimulatedNode()
    node.report(0.0)
    node.measure(0.2)
    error = rejected(node.send, 0.27 + LINE)
    assert error.reason is RejectionReason.DEVIATION and "first position of a is 0.28" in error.message
    assert node.send(0.2 + LINE) is not None, "it leads back to where the robot is"


FAR = {"held": 0.0, "moving": 0.5}
"""Speeds of plans, rad/s."""


@pytest.mark.parametrize("follows", [True, False], ids=["in execution", "reported at rest"])
@pytest.mark.parametrize("speed", FAR.values(), ids=FAR)
@pytest.mark.parametrize("stamped", [True, False])
@pytest.mark.parametrize("away", [0.05, 0.2, -1.6])
def test_the_same_distance_is_refused_with_a_start_and_without(
    away: float, stamped: bool, speed: float, follows: bool
) -> None:
    rows = away + speed * 0.04 * np.arange(1, 25)[:, None] * np.ones(2)
    outcomes = []
    for start in ((np.full(2, away), np.full(2, speed)), ()):
        node = SimulatedNode(start_from="previous", **limits(velocity=2.0, acceleration=15.0, jerk=1000.0))
        node.measure(0.0)
        node.report(0.0)
        if follows:
            node.execute(0.0)
        try:
            node.send(rows, dt=0.04, start=start, stamp=NOW_S * stamped)
            outcomes.append(None)
        except Rejected as error:
            outcomes.append(error.reason)
    assert outcomes == [RejectionReason.START_MISMATCH if abs(away) > 0.1 else None] * 2


@pytest.mark.parametrize("follows", [True, False], ids=["in execution", "reported at rest"])
@pytest.mark.parametrize("speed", [0.1, 0.5])
@pytest.mark.parametrize("away", [-0.05, 0.09])
def test_a_gap_is_closed_as_the_bandwidth_says(away: float, speed: float, follows: bool) -> None:
    node = SimulatedNode(1, start_from="previous", **{name: [most] for name, most in BOUNDS.items()})
    node.measure(0.0)
    node.report(0.0)
    if follows:
        node.execute(0.0)
    rows = away + speed * 0.04 * np.arange(1, 200)[:, None]
    motion = node.send(rows, dt=0.04, stamp=NOW_S).motion
    assert np.abs(extremes(motion)[:, 1]).max() <= 1.5 * speed + 0.5 * abs(away) * 2 * np.pi * 2.5


BOUNDS = {"limits__velocity": 2.0, "limits__acceleration": 15.0, "limits__jerk": 1000.0}


def test_a_chunk_may_begin_wherever_a_long_motion_is_yet_to_pass() -> None:
    """A stream that is slowed is behind its chunks: the motion in execution has still to come to where they begin."""
    node = SimulatedNode(1, start_from="previous", limits__start_deviation=0.3)
    node.measure(0.3)
    node.plan([0.0, 50.0, 50.3, 50.6, 100.0], np.array([[0.3, 0.3, 0.9, 0.3, 0.3]]).T, velocities=np.zeros((5, 1)))
    node.measure(0.3, now=NOW_S + 1.0)
    further = rejected(node.send, 1.3 + LINE[:, :1] / 10, now=NOW_S + 1.0)
    assert further.reason is RejectionReason.START_MISMATCH
    assert node.send(0.9 + LINE[:, :1] / 10, now=NOW_S + 1.0) is not None
