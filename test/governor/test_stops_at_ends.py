"""The end of a motion: a stop within limits, that adds no way and no speed to a joint that rests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from execution_cases import BANDWIDTH, cubic_spline, motion_of_actions

from traj_integrator_ros.execution.bounds import Bounds
from traj_integrator_ros.execution.following import follow
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.governor.stop import stopped_at_end
from traj_integrator_ros.requests.rejection import Rejected


def limits(dof: int, position: float = np.inf) -> Bounds:
    return Bounds(*(np.full(dof, value) for value in (-position, position, 2.0, 5.0, 100.0)))


def at_the_speed_of(start: State) -> Motion:
    """Half a second of motion at the velocity of a state."""
    return cubic_spline(np.full(10, 0.05), start.position + 0.05 * np.arange(11)[:, None] * start.velocity)


def test_bang_bang_plans_stop_within_limits_beside_a_resting_joint():
    """Jerks that change their sign at random, joint 0 at rest; 500 of them, each cut while it moves."""
    random = np.random.default_rng(0)
    bounds = limits(3)
    for _ in range(500):
        jerks = random.choice([-100.0, 0.0, 100.0], (int(random.integers(1, 12)), 3))
        jerks[:, 0] = 0.0
        plan = motion_of_actions("jerk", np.full(len(jerks), 0.01), jerks, State(*np.zeros((3, 3))))
        motion = stopped_at_end(plan, bounds, 0.0)
        least, most = extremes(motion)
        assert np.isfinite(motion.coefficients).all() and motion.ends_at_rest
        assert not most[:, 0].any() and not least[:, 0].any()
        own = np.abs(extremes(plan)).max(axis=0)
        largest = np.maximum(np.abs(least), np.abs(most))
        assert (largest[2:] <= np.maximum(own[2:], [[5.0], [100.0]]) * (1 + 1e-6) + 1e-6).all()
        end = plan.end
        led = np.abs(end.velocity + end.acceleration * np.abs(end.acceleration) / 200)
        assert (largest[1] <= np.maximum(own[1], led) * (1 + 1e-6) + 1e-6).all(), "no speed beyond what the end demands"


@pytest.mark.parametrize("velocity", [1e3, 1e30, 1e200])
def test_an_end_that_nobody_can_stop_is_refused(velocity):
    start = State(np.zeros(2), np.array([velocity, 0.2]), np.zeros(2))
    plan = at_the_speed_of(start)
    raised = Bounds(*(np.full(2, value) for value in (-np.inf, np.inf, velocity, 8 * velocity, 64 * velocity)))
    for bounds in (limits(2), *[raised] * (velocity > 1e100)):
        with pytest.raises(Rejected, match="brake"):
            stopped_at_end(plan, bounds, 0.01)


@pytest.mark.parametrize("acceleration", [0.2, 2.0, 18.0])
def test_a_plan_whose_last_row_is_where_it_turns_stays_on_its_plan(acceleration):
    """A parabola up to its vertex, where it is as slow as a joint at rest: the next chunk goes on from there."""
    time = 0.01 * np.arange(49) - 0.48
    free = replace(limits(2), acceleration=np.full(2, 40.0), jerk=np.full(2, 2e3), velocity=np.full(2, 20.0))
    plan = cubic_spline(
        np.diff(time), np.repeat(acceleration / 2 * time[:, None] ** 2, 2, axis=1), np.full(2, -0.48 * acceleration)
    )
    motion, times = stopped_at_end(plan, free, 0.01), np.linspace(0.0, 0.48, 200, endpoint=False)
    away = np.abs(motion.states_at(times)[0] - plan.states_at(times)[0]).max()
    assert motion.ends_at_rest and away <= 0.17 * 0.01 * 0.25 + 0.0173 * 10 * 0.01 * 0.25, "as the last velocity allows"


def test_a_plan_that_rests_is_left_alone():
    plan = cubic_spline(np.full(5, 0.1), np.linspace(0, 0.1, 6)[:, None] * np.ones(2), ends_at_rest=True)
    assert stopped_at_end(plan, limits(2), 0.01) is plan


def executed(plan: Motion, bounds: Bounds, rest_tolerance: float = 0.01) -> Motion:
    """A plan and its stop, from its own beginning on."""
    motion = stopped_at_end(plan, bounds, rest_tolerance)
    followed = follow(plan.begin, motion, bounds, BANDWIDTH, most_apart=0.0)
    assert followed is not None
    return followed


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_joint_leaves_its_plan_to_stop_before_a_position_limit(side):
    start = State(np.zeros(2), np.array([side, 0.2]), np.zeros(2))
    plan = at_the_speed_of(start)
    assert abs(executed(plan, limits(2)).end.position[0]) > 0.6
    motion = executed(plan, limits(2, position=0.55))
    assert abs(motion.end.position[0]) == pytest.approx(0.55, abs=1e-3)
    assert np.abs(extremes(motion)[:, 0]).max() <= 0.55 + 1e-6
    np.testing.assert_allclose(motion.states_at(np.array([0.2, 0.499]))[1, :, 1], 0.2, atol=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_joint_that_speeds_up_leaves_its_plan_rather_than_brake_harder(side):
    """Only a larger jerk could end its acceleration before it exceeds its velocity limit."""
    start = State(np.zeros(1), np.array([1.4 * side]), np.array([5.0 * side]))
    plan = motion_of_actions("jerk", np.full(10, 0.01), np.zeros((10, 1)), start)
    motion = executed(plan, limits(1), 0.0)
    largest = np.abs(extremes(motion)).max(axis=0)[:, 0]
    assert largest[1] <= 2.0 * (1 + 1e-3) and largest[3] <= 100.0 * (1 + 1e-3)
    assert motion.state_at(0.08).velocity[0] == pytest.approx(1.8 * side, abs=0.02), "it is left late"
