"""Motions made of rows and actions: splines against scipy's, holds against the maps, fades, recordings as chunks."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import largest_jumps, settle, taken_up
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.rows import action_steps, cubic_spline, rests_at_end

# Splines

STEPS = {
    "uniform": lambda n: np.full(n, 0.02),
    "non-uniform": lambda n: np.random.default_rng(n).uniform(0.005, 0.2, n),
    "one of another length": lambda n: np.where(np.arange(n) == n // 2, 0.05, 0.02),
    "milliseconds": lambda n: np.full(n, 0.001),
}


@pytest.mark.parametrize("steps", STEPS.values(), ids=STEPS)
@pytest.mark.parametrize("count", [1, 2, 3, 32, 129])
@pytest.mark.parametrize("ends_at_rest", [True, False])
def test_equals_scipys_clamped_spline(steps, count, ends_at_rest):
    h, random = steps(count), np.random.default_rng(0)
    positions, velocity = random.normal(size=(count + 1, 3)), random.normal(size=3)
    spline = cubic_spline(h, positions, velocity, ends_at_rest=ends_at_rest)
    np.testing.assert_allclose(spline.knots, np.append(0, h.cumsum()), rtol=1e-12)
    if ends_at_rest:
        reference = CubicSpline(spline.knots, positions, bc_type=((1, velocity), (1, np.zeros(3))))
        assert not np.any(spline.end.velocity)
    else:
        # An open end has no jerk in its last piece: scipy is given our curvature at the end.
        assert np.abs(spline.coefficients[-1, 3]).max() <= 1e-9 * np.abs(spline.coefficients[:, 3]).max() + 1e-9
        reference = CubicSpline(spline.knots, positions, bc_type=((1, velocity), (2, spline.end.acceleration)))
    times = np.linspace(0, spline.duration, 200)[:-1]
    states = spline.states_at(times)
    for order, values in enumerate(states[:3]):
        expected = reference(times, order)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_an_open_start_has_no_jerk_in_its_first_piece():
    times = np.arange(9) * 0.1
    quadratic = np.stack([1 + 2 * times - 3 * times**2], axis=1)
    spline = cubic_spline(np.full(8, 0.1), quadratic)
    np.testing.assert_allclose(spline.state_at(0.0).velocity, 2, rtol=1e-12)
    np.testing.assert_allclose(spline.end.acceleration, -6, rtol=1e-9)
    np.testing.assert_allclose(cubic_spline(np.ones(1), np.array([[1.0], [3.0]])).state_at(0.5), [[2], [2], [0]])


def test_what_counts_as_rest_at_the_end():
    positions = np.array([[0.0, 0.0], [1.0, 1.0], [1.0001, 1.0]])
    assert rests_at_end(positions, 0.02, 0.01)
    assert not rests_at_end(positions, 0.005, 0.01)


# Every action is a step of the motion


def test_steps_of_actions_are_those_that_lead_to_their_rows():
    np.testing.assert_array_equal(action_steps(0.1, 3), [0.1, 0.1, 0.1])
    np.testing.assert_array_equal(action_steps(np.array([0.1, 0.2, 0.3]), 3), [0.2, 0.3, 0.3])
    np.testing.assert_array_equal(action_steps(np.array([0.1]), 1), [0.1])


# Fades: their beginning, their end, their distance from the plan


def a_plan(count: int = 32, dof: int = 3, step: float = 0.02):
    times = np.arange(count + 1) * step
    return cubic_spline(np.full(count, step), np.sin(times[:, None] + np.arange(dof)), np.cos(np.arange(dof) * 1.0))


@settings(max_examples=30)
@given(st.integers(2, 40), st.sampled_from([0.002, 0.02, 0.1]), st.floats(0.01, 0.5), st.integers(0, 10**6))
def test_another_acceleration_at_the_start_fades_into_the_plan(count, step, fade_time, seed):
    plan = a_plan(count, step=step)
    begin = plan.begin
    acceleration = begin.acceleration + np.random.default_rng(seed).normal(size=3)
    faded = taken_up(plan, acceleration, fade_time)
    for part, expected in zip(faded.begin, begin._replace(acceleration=acceleration), strict=True):
        np.testing.assert_allclose(part, expected, rtol=1e-12, atol=1e-12)
    assert (largest_jumps(faded) <= [1e-12, 1e-10, 1e-8 / step]).all()
    rest = plan.knots[3:] if count > 3 else plan.knots[-1:]
    np.testing.assert_allclose(faded.states_at(rest)[:2], plan.states_at(rest)[:2], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(faded.end.position, plan.end.position, rtol=1e-9, atol=1e-9)


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
