"""Fades: what they begin with, where they end, how far they lead away."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.extremes import extremes
from traj_integrator_ros.execution.fade import join, settle
from traj_integrator_ros.execution.holds import acceleration_hold
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.spline import cubic_spline


def a_plan(count: int = 32, dof: int = 3, step: float = 0.02):
    times = np.arange(count + 1) * step
    return cubic_spline(np.full(count, step), np.sin(times[:, None] + np.arange(dof)), np.cos(np.arange(dof) * 1.0))


@settings(max_examples=30)
@given(st.integers(2, 40), st.sampled_from([0.002, 0.02, 0.1]), st.floats(0.01, 0.5), st.integers(0, 10**6))
def test_the_seam_is_c2_and_the_plan_is_followed_exactly_afterwards(count, step, fade_time, seed):
    plan = a_plan(count, step=step)
    begin, random = plan.state_at(0.0), np.random.default_rng(seed)
    state = State(*(part + random.normal(size=3) * size for part, size in zip(begin, (0.05, 0.3, 1), strict=True)))
    joined = join(plan, state, fade_time)
    for part, expected in zip(joined.state_at(0.0), state, strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)
    before = joined.knots[1:-1] - 1e-9
    jumps = np.abs(joined.states_at(joined.knots[1:-1]) - joined.states_at(before))[:3]
    rates = np.abs(joined.states_at(before))[1:].max(initial=1)
    assert jumps.max(initial=0) <= 1e-8 * rates + 1e-6
    last = max(np.searchsorted(plan.knots, fade_time * (1 + 1e-9), side="right") - 1, 1)
    over = plan.knots[min(last + (plan.knots[last] < 0.8 * fade_time), len(plan.knots) - 1)]
    times = np.linspace(over, plan.duration, 20)[:-1]
    np.testing.assert_allclose(joined.states_at(times), plan.states_at(times), rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(joined.end.position, plan.end.position, rtol=1e-9, atol=1e-9)


def test_nothing_is_carried_over_without_a_fade_time():
    plan = a_plan()
    assert join(plan, State(np.ones(3), np.ones(3), np.ones(3)), 0.0) is plan


def test_an_unknown_acceleration_is_the_plans():
    plan = a_plan()
    begin = plan.state_at(0.0)
    joined = join(plan, State(begin.position + 0.1, begin.velocity), 0.2)
    np.testing.assert_allclose(joined.state_at(0.0).acceleration, begin.acceleration)


def test_one_joint_that_steps_leaves_the_fades_of_the_others_alone():
    steps, rows = np.full(16, 0.02), np.zeros((17, 2))
    rows[1:, 0] = 1.0
    times = np.arange(17) * 0.02
    rows[:, 1] = times**2
    start = State(np.zeros(2), np.zeros(2), np.array([0.0, 1.9]))
    both = join(cubic_spline(steps, rows, start.velocity), start, 0.2)
    alone = join(cubic_spline(steps, rows[:, 1:], start.velocity[1:]), State(*(part[1:] for part in start)), 0.2)
    np.testing.assert_allclose(both.coefficients[:, :, 1:], alone.coefficients, rtol=1e-9, atol=1e-9)


def test_at_rest_the_last_acceleration_fades_to_zero_and_the_end_stays():
    times = np.arange(33) * 0.02
    rows = np.minimum(times, 0.5)[:, None] ** 2
    rows[-1] = rows[-2]
    spline = cubic_spline(np.full(32, 0.02), rows, np.zeros(1), ends_at_rest=True)
    settled = settle(spline, 0.2)
    assert np.abs(spline.end.acceleration).max() > 1e-6
    np.testing.assert_allclose(settled.end.acceleration, 0, atol=1e-9)
    np.testing.assert_allclose(settled.end.position, spline.end.position, rtol=1e-12)
    assert np.abs(extremes(settled)[:, 2]).max() <= 1.01 * np.abs(extremes(spline)[:, 2]).max()


def test_a_hold_takes_over_position_and_velocity_as_cubics():
    actions = np.random.default_rng(0).normal(size=(20, 2))
    plan = acceleration_hold(np.full(20, 0.02), actions, State(np.zeros(2), np.zeros(2)))
    state = State(np.full(2, 0.01), np.full(2, -0.1), np.full(2, 3.0))
    joined = join(plan, state, 0.2)
    assert joined.degree == 3 and not joined.with_accelerations
    np.testing.assert_allclose(joined.state_at(0.0)[:2], state[:2])
    np.testing.assert_allclose(joined.coefficients[10:, :3], plan.coefficients[10:], rtol=1e-9, atol=1e-9)
    before = joined.states_at(joined.knots[1:-1] - 1e-10)
    np.testing.assert_allclose(before[:2], joined.states_at(joined.knots[1:-1])[:2], atol=1e-8)


@pytest.mark.parametrize("first", [0.0002, 0.01])
def test_a_fade_ends_no_earlier_than_a_full_step(first):
    plan = a_plan().from_time(0.02 - first)
    begin = plan.state_at(0.0)
    joined = join(plan, State(begin.position, begin.velocity, begin.acceleration + 5), 0.005)
    assert np.abs(extremes(joined)[:, 3]).max() < 9 * 5 / 0.02 * 1.1
