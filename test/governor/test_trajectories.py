"""Trajectories for the controller: points of one motion, from its present command to rest."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import leads_back
from hypothesis import given
from hypothesis import strategies as st
from pipelines import HELD, NOW_S, SimulatedNode, limits, rejected

from traj_integrator_ros.engine.call import call_of, ends_of
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.rows import motion_of_points
from traj_integrator_ros.kernels import ControlSpace, control_map
from traj_integrator_ros.requests.rejection import Rejected, RejectionReason

LINE = 0.01 * np.arange(1, 11)[:, None] * np.ones(2)
"""Positions every 20 ms at 0.5 rad/s."""
MOVING = (np.zeros(2), np.full(2, 0.5), np.zeros(2))
LEAD = 0.02


# Points of one motion


@pytest.mark.parametrize("times", [[0.4], [0.0, 0.4]])
def test_a_single_position_is_a_goal_at_which_the_robot_rests(times: list[float]) -> None:
    node = SimulatedNode()
    node.report(0.0)
    trajectory = node.plan(times, [[0.0, 0.0], [0.1, -0.1]][-len(times) :])
    assert np.allclose(trajectory.motion.end.position, [0.1, -0.1])
    least, most = extremes(trajectory.motion)
    assert most[0, 0] <= 0.1 + 1e-9 and least[0, 1] >= -0.1 - 1e-9, "no overshoot"
    assert trajectory.motion.plan_until == np.inf and trajectory.motion.duration == pytest.approx(0.4)


def test_a_goal_that_nobody_can_reach_is_refused() -> None:
    node = SimulatedNode(limits__start_deviation=0.0)
    node.measure(0.0)
    assert "place: expected one that can be reached" in rejected(node.send, [[1e30, 0.0]]).message


@pytest.mark.parametrize("count", [1, 10])
def test_velocities_of_zero_are_the_fastest_stop(count: int) -> None:
    node = SimulatedNode(limits__velocity=[2.0] * 2, limits__acceleration=[5.0] * 2, limits__jerk=[100.0] * 2)
    node.measure(0.0)
    node.execute(0.0, [1.0, -0.5], at=NOW_S + LEAD)
    trajectory = node.send(np.zeros((count, 2)), space=ControlSpace.VELOCITY)
    assert not trajectory.points.velocity[-1].any()
    stop = 1.0 / 5 + 5 / 100
    assert trajectory.motion.state_at(LEAD + stop - 1e-4).velocity[0] > 0
    way = [stop / 2, -(0.5 / 5 + 5 / 100) / 4]
    assert np.allclose(trajectory.motion.state_at(LEAD + stop).position, way, atol=1e-4)


def test_nothing_is_published_without_a_limit_of_velocity() -> None:
    node = SimulatedNode(limits__assumed_velocity=0.0, limits__velocity=[1.0, np.inf])
    node.measure(0.0)
    refused = rejected(node.send, LINE)
    assert refused.reason is RejectionReason.NO_LIMITS and "got none for b" in refused.message


@pytest.mark.parametrize("space", HELD)
def test_the_motion_has_a_point_at_each_row_of_the_map(space: ControlSpace) -> None:
    rng = np.random.default_rng(0)
    start = rng.normal(scale=0.1, size=(3, 2))
    actions = start[0] + 0.1 * np.sin(0.4 * np.arange(1, 9))[:, None] * [1.0, 2.0]
    faded = 4 if space in (ControlSpace.POSITION, ControlSpace.VELOCITY) else 0  # the start's acceleration
    node = SimulatedNode(publish__lead_time=0.0)
    trajectory = node.send_from(start, actions, space=space, dt=0.1)
    kernel, float32 = control_map(space), [row[None].astype(np.float32) for row in start]
    call = call_of(kernel, actions[None].astype(np.float32), 0.1, ends_of(float32))
    first = kernel.start_row
    planned = node.pipeline.batches.engine.integrate(call)[0, 0, first + faded : first + 8]
    assert np.allclose(trajectory.meant.states_at(0.1 * np.arange(faded, 8))[0], planned, atol=1e-6)
    assert {100_000_000 * k for k in range(9)} <= set(trajectory.points.time_ns.tolist())


@pytest.mark.parametrize("space", HELD)
@pytest.mark.parametrize("start_from", ["measured", "previous"])
def test_a_controller_repeats_the_motion_exactly(space: ControlSpace, start_from: str) -> None:
    rng = np.random.default_rng(space.value)
    node = SimulatedNode(start_from=start_from)
    node.measure(0.0)
    for k in range(2):  # the second trajectory takes over from the first
        scale = 0.02 if space is ControlSpace.POSITION else 0.5
        actions = rng.normal(scale=scale, size=(7, 2))
        trajectory = node.send(actions, space=space, dt=0.05, now=NOW_S + 0.33 * k, took=0.001)
    points = trajectory.points
    played = motion_of_points(points)
    begin = points.time_ns[0] * 1e-9
    times = np.linspace(begin, trajectory.motion.duration, 500, endpoint=False)
    meant, commanded = (motion.states_at(t)[:3] for motion, t in ((trajectory.motion, times), (played, times - begin)))
    for value, played_value, tolerance in zip(meant, commanded, (1e-9, 1e-8, 1e-6), strict=True):
        assert np.abs(value - played_value).max() < tolerance  # points of a brake are rounded to nanoseconds


@given(steps=st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=30), velocity=st.floats(-10, 10),
       end=st.sampled_from(["stop", "as_planned"]), space=st.sampled_from(HELD))  # fmt: skip
def test_times_increase_by_whole_nanoseconds_for_any_steps(
    steps: list[float], velocity: float, end: str, space: ControlSpace
) -> None:
    node = SimulatedNode(publish__end=end, publish__lead_time=0.0)
    dt = steps * 2 if len(steps) == 1 else steps
    try:
        trajectory = node.send_from(MOVING, np.full((len(dt), 2), velocity), space=space, dt=dt)
    except Rejected as refused:
        assert refused.reason in (RejectionReason.BRAKE_IMPOSSIBLE, RejectionReason.NON_FINITE_RESULT)
        return
    time_ns = trajectory.points.time_ns
    assert time_ns.dtype == np.int64 and (np.diff(time_ns) > 0).all() and time_ns[0] == 0
    assert np.isfinite(trajectory.points.position).all()
    assert end == "as_planned" or not trajectory.points.velocity[-1].any()


# The end


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.VELOCITY])
def test_a_plan_that_rests_at_its_end_is_clamped_to_rest_and_gets_no_brake(space: ControlSpace) -> None:
    positions = 0.01 * np.minimum(np.arange(1, 11), 7)[:, None] * np.ones(2)
    actions = positions if space is ControlSpace.POSITION else np.diff(positions, axis=0, prepend=0.0) / 0.02
    trajectory = SimulatedNode(publish__lead_time=0.0).send_from(MOVING, actions, space=space)
    assert trajectory.motion.plan_until == np.inf and trajectory.meant.duration == pytest.approx(0.2)
    assert not trajectory.points.velocity[-1].any()
    assert np.allclose(trajectory.points.position[-1], 0.07)


@pytest.mark.parametrize("space", HELD)
def test_an_end_in_motion_is_braked_within_the_limits(space: ControlSpace) -> None:
    acceleration, jerk = [4.0, 6.0], [60.0, 90.0]
    node = SimulatedNode(limits__acceleration=acceleration, limits__jerk=jerk, publish__lead_time=0.0)
    velocity = np.array([1.0, -0.7])
    actions = {
        ControlSpace.POSITION: 0.02 * np.arange(1, 21)[:, None] * velocity,
        ControlSpace.VELOCITY: np.tile(velocity, (20, 1)),
        ControlSpace.ACCELERATION: np.zeros((20, 2)),
        ControlSpace.JERK: np.zeros((20, 2)),
    }[space]
    trajectory = node.send_from((np.zeros(2), velocity, np.zeros(2)), actions, space=space)
    assert not node.warnings
    assert trajectory.motion.plan_until == pytest.approx(0.4, abs=1e-6)
    assert not trajectory.points.velocity[-1].any()
    least, most = extremes(trajectory.motion)
    assert (np.maximum(-least, most)[2] <= np.multiply(acceleration, 1 + 1e-5)).all()
    assert (np.maximum(-least, most)[3] <= np.multiply(jerk, 1 + 1e-5)).all()
    assert (least[1] >= [-1e-6, -0.7001]).all() and (most[1] <= [1.0001, 1e-6]).all(), "no joint turns back"


@pytest.mark.parametrize("deceleration", [2.0, 8.0])
def test_brakes_and_stops_use_the_deceleration_and_plans_are_held_to_it(deceleration: float) -> None:
    given = {"limits__acceleration": [4.0] * 2, "limits__deceleration": [deceleration] * 2, "limits__action": "reject"}
    node = SimulatedNode(**given, limits__jerk=[200.0] * 2)
    braked = node.send_from(MOVING, LINE)
    assert -extremes(braked.motion)[0, 2].min() == pytest.approx(deceleration, rel=1e-3)
    stopped = node.stop(NOW_S + 0.05)
    assert -extremes(stopped.motion)[0, 2].min() == pytest.approx(deceleration, rel=1e-3)
    node = SimulatedNode(**given, limits__jerk=[2000.0] * 2)
    rows = np.repeat([3.5, -0.9 * deceleration], [20, 8])[:, None] * np.ones(2)
    assert node.send_from((np.zeros(2),), rows, space=ControlSpace.ACCELERATION) is not None
    rows[20:] = -1.1 * deceleration
    told = rejected(node.send_from, (np.zeros(2), np.full(2, 2.0)), rows, space=ControlSpace.ACCELERATION).message
    assert "deceleration of a exceeds its limit by 10 %" in told


@pytest.mark.parametrize("action", ["warn", "reject"])
def test_a_brake_that_takes_minutes_is_refused(action: str) -> None:
    node = SimulatedNode(limits__jerk=[1e-6, 1e-6], limits__action=action)
    refused = rejected(node.send_from, MOVING, np.zeros((20, 2)), space=ControlSpace.ACCELERATION)
    assert refused.reason is RejectionReason.BRAKE_IMPOSSIBLE and "a moves at 0.5" in refused.message


# Limits between the points


def test_an_excess_between_points_has_time_joint_and_value() -> None:
    # Rows within 0.1 .. 0.2; in between, the motion swings further.
    rows = np.zeros((10, 2))
    rows[3:, 1] = 0.1
    node = SimulatedNode(limits__position_max=[1.0, 0.0505], limits__action="reject")
    refused = rejected(node.send_from, (np.zeros(2),), rows, dt=0.1)
    assert refused.reason is RejectionReason.LIMITS
    assert refused.message.startswith("position of b exceeds its limit by 0.0")
    assert refused.message.endswith("of 0.0505)")
    node = SimulatedNode(limits__position_max=[1.0, 0.1005], limits__action="reject")
    assert extremes(node.send_from((np.zeros(2),), rows, dt=0.1).motion)[1, 0, 1] <= 0.1005 + 1e-7, "near it, within"


@pytest.mark.parametrize("action", ["retime", "reject", "warn"])
def test_a_joint_brakes_earlier_before_a_position_limit(action: str) -> None:
    gentle = {"limits__acceleration": [2.0] * 2, "limits__jerk": [100.0] * 2, "publish__lead_time": 0.0}
    node = SimulatedNode(limits__position_max=[0.12, 1.0], limits__action=action, **gentle)
    made = node.send_from(MOVING, LINE)
    motion, most = made.motion, extremes(made.motion)[1]
    assert 0.115 < most[0, 0] <= 0.12 + 1e-7 and motion.ends_at_rest
    assert leads_back(motion, motion.duration) < 3e-5, "as every blend"
    np.testing.assert_allclose(made.meant.state_at(0.2).position, 0.1, atol=1e-9)  # what later plans continue
    assert np.allclose(motion.state_at(0.2)[:2], [[motion.state_at(0.2).position[0], 0.1], [0.4, 0.5]], atol=0.11)
    assert motion.state_at(0.2).position[1] == pytest.approx(0.1, abs=1e-6), "the other joint follows its plan"
    node = SimulatedNode(limits__position_max=[0.06, 1.0], **gentle)
    refused = rejected(node.send_from, (np.full(2, 0.05), *MOVING[1:]), 0.05 + LINE)
    assert refused.reason is RejectionReason.LIMITS and refused.message.endswith("of 0.06)")


def test_a_joint_that_begins_outside_a_limit_may_come_back() -> None:
    node = SimulatedNode(limits__position_max=[0.0, 1.0], limits__velocity=[0.4, 1.0], limits__action="reject")
    back = np.linspace(0, -0.01, 10)[:, None] * np.ones(2)
    outside = (np.array([0.0005, 0.0]), np.zeros(2))
    node.send_from(outside, back)
    assert extremes(node.send_from(outside, -back).motion)[1, 0, 0] <= 0.0005 + 1e-6, "and goes no further"


def test_held_accelerations_keep_the_jerk_limit_step_by_step() -> None:
    node = SimulatedNode(limits__jerk=[100.0, 100.0], limits__action="reject")
    actions = np.zeros((10, 2))
    actions[4:, 1] = 3.0
    refused = rejected(node.send_from, (np.zeros(2),), actions, space=ControlSpace.ACCELERATION)
    assert refused.message.startswith(
        "jerk of b exceeds its limit by 50 % in a step of acceleration at 0.080 s (150 of 100)"
    )
    actions[4:, 1] = 2.001  # within 0.1 %
    node.send_from((np.zeros(2),), actions, space=ControlSpace.ACCELERATION)


@pytest.mark.parametrize("jerk", [400.0, 40.0, 3.0])
def test_a_plan_that_slows_down_to_its_end_is_not_refused(jerk: float):
    """It asks for 1.2 rad/s^3, and more to come to rest in its last steps: it is followed as near as limits allow."""
    u = np.linspace(0, 1, 51)[1:, None] * np.ones(2)
    node = SimulatedNode(limits__action="reject", **limits(velocity=1.0, acceleration=2.0, jerk=jerk))
    node.report(0.0), node.measure(0.0)
    trajectory = node.send(0.1 * u * u * (3 - 2 * u), dt=0.02)
    assert np.abs(extremes(trajectory.motion)[:, 3]).max() <= jerk * 1.001
    assert (extremes(trajectory.motion)[1, 0] <= 0.101).all()


@pytest.mark.parametrize("away", [0.004, 0.05, 0.2])
def test_with_warn_a_plan_beyond_a_position_limit_is_joined(away: float) -> None:
    """Its last rows, and its brake, exceed the limit."""
    bounds = limits(position_min=-1.0, position_max=1.0, velocity=2.0, acceleration=10.0, jerk=300.0)
    node = SimulatedNode(limits__action="warn", limits__start_deviation=0.0, **bounds)
    node.report(0.7 - away), node.measure(0.7 - away)
    trajectory = node.send(np.linspace(0.7, 1.1, 21)[1:, None] * np.ones(2), dt=0.05)
    assert extremes(trajectory.motion)[1, 0].min() > 1.1
    assert [finding.reason for finding in node.warnings] == [RejectionReason.LIMITS]
