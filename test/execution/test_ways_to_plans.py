"""The way from a command to a plan: smooth, within limits, without a way back, and on the plan to the last bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from execution_cases import BANDWIDTH, bounds, cubic_spline, followed_from, largest, largest_jumps, spline
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rig.judge import way_back
from traj_integrator_ros.execution.following import follow
from traj_integrator_ros.execution.limits import POSITION_ROUNDING, Limits, extremes, worst_violation
from traj_integrator_ros.execution.motion import Motion, State, resting

BOUNDS = bounds(2, velocity=2.0, acceleration=10.0, jerk=500.0)
SEEDS = st.integers(0, 2**32 - 1)
TAU = 1 / (2 * np.pi * BANDWIDTH)


def a_plan(random: np.random.Generator, *, forward: bool = False) -> Motion:
    """A smooth plan of two joints that keeps the limits and ends at rest."""
    step = float(random.choice([0.02, 0.05, 0.035, 0.002]))  # with knots of the difference between and on its own
    count = round(random.uniform(1, 3) / step)
    u = np.linspace(random.uniform(0, 0.4), 1, count + 1)[:, None]
    rows = random.normal(size=2) + random.uniform(0.2, 0.5, 2) * count * step * u**3 * (10 - 15 * u + 6 * u**2)
    if not forward:
        rows += 0.1 * np.sin(6 * u) * (1 - u) ** 3
    plan = cubic_spline(np.full(count, step), rows, ends_at_rest=True)
    assert (np.abs(extremes(plan)).max(axis=(0, 2))[1:] < [2.0, 10.0, 500.0]).all()
    return plan


def away_from(plan: Motion, random: np.random.Generator, scale: float) -> State:
    """A state near the beginning of a plan, from which a joint can stop within its velocity limit."""
    begin = plan.begin
    velocity = np.clip(begin.velocity + scale * random.normal(size=2), -1.7, 1.7)
    acceleration = np.clip(3 * scale * random.normal(size=2), -9.0, 9.0)
    return State(begin.position + 0.1 * scale * random.normal(size=2), velocity, acceleration)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([1e-6, 1e-3, 0.1, 1.0]))
def test_a_way_begins_in_the_state_keeps_all_limits_and_becomes_the_plan(seed, scale):
    random = np.random.default_rng(seed)
    plan = a_plan(random)
    state = away_from(plan, random, scale)
    motion = follow(state, plan, BOUNDS, BANDWIDTH, most_apart=0.0)
    for part, expected in zip(motion.begin, state, strict=True):
        np.testing.assert_allclose(part, expected, atol=1e-9)
    assert (largest_jumps(motion) <= [1e-9, 1e-8, 0.02]).all(), "C2, but for where the plan begins to rest"
    least, most = extremes(motion)
    assert (np.maximum(-least, most)[1:] <= np.array([[2.0], [10.0], [500.0]]) * (1 + 1e-3)).all()
    np.testing.assert_allclose(motion.end.position, plan.end.position, atol=1e-9)
    times = np.append(np.linspace(0, motion.duration, 100), motion.duration - 0.01)
    difference = np.abs(motion.states_at(times)[0] - plan.states_at(times)[0])
    assert (difference[-1] <= 3e-5 * difference.max(axis=0) + 1e-9).all(), "it is gone at the end of the horizon"


@settings(max_examples=30)
@given(st.tuples(*[st.floats(-1, 1)] * 3))
def test_a_difference_goes_as_three_critically_damped_poles(parts):
    """Of the sum of squares the minimum is known: the characteristic polynomial is (1 + tau s)^3 (spectral factors)."""
    assume(max(map(abs, parts)) > 1e-2)
    p, v, a = np.array(parts) * [0.01, 0.1, 1.0]
    plan = spline(0.05, 0.5 * np.sin(6.0 * np.linspace(0, 3.0, 61)))  # turns by itself
    start = State(*(part + np.array([lack]) for part, lack in zip(plan.begin, (p, v, a), strict=True)))
    motion = follow(start, plan, bounds(1, 1e3, 1e4, 1e6), BANDWIDTH)
    times = np.linspace(0, 0.9, 200)
    linear = v + p / TAU
    expected = (p + linear * times + (a + 2 * v / TAU + p / TAU**2) * times**2 / 2) * np.exp(-times / TAU)
    size = abs(p) + abs(v) * TAU + abs(a) * TAU**2
    difference = motion.states_at(times, 1)[0][:, 0] - plan.states_at(times, 1)[0][:, 0]
    np.testing.assert_allclose(difference, expected, atol=0.02 * size)  # intervals of 20 ms, not of 0


@settings(max_examples=30)
@given(SEEDS, st.sampled_from([1e-3, 0.1, 1.0]), st.sampled_from([(10.0, 4.0), (4.0, 10.0)]))
def test_a_way_keeps_deceleration_and_acceleration_limits(seed, scale, limits):
    random = np.random.default_rng(seed)
    plan = a_plan(random)
    state = away_from(plan, random, scale)
    acceleration, deceleration = (np.full(2, limit) for limit in limits)
    within = Limits(velocity=np.full(2, 2.0), acceleration=acceleration, deceleration=deceleration)
    assume(worst_violation(plan, within) is None)
    speeding = np.sign(state.velocity) * state.acceleration
    assume(((-deceleration <= speeding) & (speeding <= acceleration)).all())
    tighter = replace(bounds(2, velocity=2.0, acceleration=limits[0], jerk=500.0), deceleration=deceleration)
    assert worst_violation(follow(state, plan, tighter, BANDWIDTH), within) is None


def test_a_joint_that_is_on_its_plan_keeps_it_to_the_last_bit():
    plan = a_plan(np.random.default_rng(1))
    assert follow(plan.begin, plan, BOUNDS, BANDWIDTH) is plan
    state = plan.begin._replace(position=plan.begin.position + np.array([0.0, 0.05]))
    motion = follow(state, plan, BOUNDS, BANDWIDTH)
    times = plan.knots[:-1]
    np.testing.assert_array_equal(motion.states_at(times)[:2, :, 0], plan.states_at(times)[:2, :, 0])


@settings(max_examples=40)
@given(SEEDS, st.floats(0.0, 0.3), st.floats(0.0, 1.0))
def test_a_forward_plan_is_followed_without_a_way_back(seed, ahead, speed):
    """The robot is ahead of or behind a plan that goes forward, and does not move backwards itself."""
    random = np.random.default_rng(seed)
    plan = a_plan(random, forward=True)
    position = plan.begin.position + ahead * random.choice([-1.0, 1.0], 2)
    assume((position < plan.end.position - 0.02).all())
    state = State(position, speed * plan.begin.velocity, np.zeros(2))
    motion = follow(state, plan, BOUNDS, BANDWIDTH)
    back = [way_back(one.states_at(np.linspace(0, one.duration, 2000), 1)[0]) for one in (motion, plan)]
    assert (back[0] <= back[1] + 3e-5).all()
    assert (extremes(motion)[1, 0] <= plan.end.position + 2e-6).all(), "never beyond where the plan rests"


@settings(max_examples=30)
@given(SEEDS)
def test_positions_stay_within_their_limits_on_the_way(seed):
    random = np.random.default_rng(seed)
    plan = resting(np.zeros(2), 1.0)
    state = State(random.uniform(0.0, 0.08, 2), random.uniform(0.0, 0.6, 2), np.zeros(2))
    within = bounds(2, velocity=2.0, acceleration=10.0, jerk=500.0, position=0.15)
    motion = follow(state, plan, within, BANDWIDTH)
    least, most = extremes(motion)
    assert most[0].max() <= 0.15 + 2e-6 and least[0].min() >= -0.15 - 2e-6
    np.testing.assert_allclose(motion.end.position, 0.0, atol=1e-9)


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("lasts", [0.4, 3.0])
def test_a_plan_that_rests_beyond_a_limit_of_position_is_followed_to_the_limit(side, lasts):
    u = np.linspace(0, 1, 21)
    plan = spline(lasts / 20, side * 0.2 * u**3 * (10 - 15 * u + 6 * u**2), 0.0, ends_at_rest=True)
    motion = follow(plan.begin, plan, bounds(1, position=0.15), BANDWIDTH)
    assert motion.ends_at_rest and motion.end.position[0] == pytest.approx(side * 0.15, abs=1e-5)
    assert np.abs(extremes(motion)[:, 0]).max() <= 0.15 + 1e-6
    early = np.linspace(0, 0.3 * lasts, 20)
    np.testing.assert_allclose(motion.states_at(early)[0], plan.states_at(early)[0], atol=0.01)


def test_a_joint_passes_no_limit_in_order_to_turn_sooner():
    """A finger comes up from its limit, and its new plan goes on beyond it."""
    rows = -1e-6 * np.array(
        [7.939, 8.57, 10.842, 13.076, 15.262, 17.382, 19.414, 21.332, 23.109, 24.716, 26.125, 27.308]
    )
    plan = cubic_spline(np.append(0.011, np.full(10, 0.04)), rows[:, None], ends_at_rest=True)
    within = replace(bounds(1, velocity=0.2, acceleration=2.0, jerk=40.0), position_min=np.zeros(1))
    start = State(*np.array([[1.0856e-6], [2.4022e-4], [0.013056]]))
    assert extremes(follow(start, plan, within, BANDWIDTH))[0, 0, 0] >= -POSITION_ROUNDING


def test_rows_that_are_yet_to_come_do_not_count_before():
    plan = a_plan(np.random.default_rng(3))
    state = plan.begin._replace(velocity=plan.begin.velocity + 0.2)
    at_once, later = (follow(state, plan._replace(plan_from=at), BOUNDS, BANDWIDTH) for at in (0.0, 0.3))
    times = np.linspace(0.3 + 20 * TAU, plan.duration, 20) if plan.duration > 0.3 + 20 * TAU else plan.knots[-1:]
    np.testing.assert_allclose(later.states_at(times)[0], plan.states_at(times)[0], atol=1e-5)
    assert largest(later, 3) < largest(at_once, 3), "nothing hurries it"


def test_floating_joints_reach_the_velocity_of_their_plan_and_shift_it():
    plan = cubic_spline(np.full(50, 0.02), np.linspace(0, 0.5, 51)[:, None] * np.ones(2), np.full(2, 0.5))
    plan = plan.then(resting(plan.end.position, 0.1))
    plan = Motion(plan.knots, plan.coefficients, True, True)
    motion = followed_from((0.0,), plan, floating=np.array([True, False]))
    shift = motion.end.position - plan.end.position
    assert shift[0] < -1e-3 and abs(shift[1]) < 1e-15
    at = motion.states_at(np.array([0.8]))[:2, 0]
    np.testing.assert_allclose(at[:, 0], [0.4 + shift[0], 0.5], atol=1e-4)
    speeds = motion.states_at(np.linspace(0, 0.8, 300))[1]
    assert speeds[:, 0].max() <= 0.5 + 1e-3, "it does not catch up"
    assert speeds[:, 1].max() > 0.55, "the other does"


def test_a_plan_that_ends_in_motion_before_it_can_be_reached_is_none():
    assert followed_from((1.0,), spline(0.01, [0.0, 0.015, 0.03], 1.5)) is None


def test_plans_of_held_accelerations_are_followed_as_cubics():
    knots = np.array([0.0, 0.5, 1.0])
    coefficients = np.zeros((2, 6, 2))
    coefficients[0, 2], coefficients[1, :3] = 0.5, [[0.125] * 2, [0.5] * 2, [-0.5] * 2]
    plan = Motion(knots, coefficients, with_accelerations=False, ends_at_rest=True)
    motion = followed_from((0.01,), plan)
    assert not motion.with_accelerations and (largest_jumps(motion)[:2] <= [1e-9, 1e-6]).all()
    assert not motion.coefficients[:, 4:].any() or np.abs(motion.coefficients[:, 4:]).max() < 1e-6
    np.testing.assert_allclose(motion.end.position, plan.end.position, atol=1e-9)


@pytest.mark.parametrize("over", [1.05, 1.3, 3.0])
def test_a_plan_beyond_limits_is_followed_as_near_as_limits_allow(over):
    step = 2 * np.pi / 5 / 63
    plan = spline(step, over * 2.0 / 5.0 * (1 - np.cos(5 * step * np.arange(64))), 0.0, ends_at_rest=True)
    start = [part[0] for part in plan.begin]
    given = start, plan, (2.0, 50.0, 5000.0)
    within = Limits(velocity=np.full(1, 2.0), acceleration=np.full(1, 50.0))
    assert worst_violation(followed_from(*given), within) is None
    assert followed_from(*given, most_apart=0.0) is None
    assert (followed_from(*given, most_apart=0.03) is not None) == (over < 1.2), "the distance tells what is followed"


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([0.5, 2.5, 10.0]), st.floats(1e-3, 4.0))
def test_any_start_state_is_led_back_into_the_limits(seed, bandwidth, scale):
    random = np.random.default_rng(seed)
    plan = resting(random.normal(size=2), 0.5)
    state = State(*(scale * random.normal(size=(3, 2)) * np.array([[0.1], [1.0], [5.0]])))
    motion = follow(state, plan, BOUNDS, bandwidth)
    assert motion is not None and np.isfinite(motion.coefficients).all()
    np.testing.assert_allclose(motion.end.position, plan.end.position, atol=1e-9)
    for part, expected in zip(motion.begin, state, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-9)
