"""Motions made of rows and actions: splines against scipy's, steps of actions, corrections."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import clamped_spline, cubic_spline, largest_jumps
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.rows import action_steps, brought_to_rest, rests_at_end

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
    positions, (begin, end) = random.normal(size=(count + 1, 3)), random.normal(size=(2, 3))
    end *= not ends_at_rest
    spline = clamped_spline(h, positions, begin, end)
    np.testing.assert_allclose(spline.knots, np.append(0, h.cumsum()), rtol=1e-12)
    reference = CubicSpline(spline.knots, positions, bc_type=((1, begin), (1, end)))
    np.testing.assert_allclose(spline.end.velocity, end, atol=1e-9)
    times = np.linspace(0, spline.duration, 200)[:-1]
    states = spline.states_at(times)
    for order, values in enumerate(states[:3]):
        expected = reference(times, order)
        np.testing.assert_allclose(values, expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max())


def test_what_counts_as_rest_at_the_end():
    positions = np.array([[0.0, 0.0], [1.0, 1.0], [1.0001, 1.0]])
    assert rests_at_end(positions, 0.02, 0.01)
    assert not rests_at_end(positions, 0.005, 0.01)


# Every action is a step of the motion


def test_steps_of_actions_are_those_that_lead_to_their_rows():
    np.testing.assert_array_equal(action_steps(0.1, 3), [0.1, 0.1, 0.1])
    np.testing.assert_array_equal(action_steps(np.array([0.1, 0.2, 0.3]), 3), [0.2, 0.3, 0.3])
    np.testing.assert_array_equal(action_steps(np.array([0.1]), 1), [0.1])


# Corrections of a motion: their ends, and what lies outside of them


@settings(max_examples=30)
@given(
    st.integers(4, 40),
    st.sampled_from([0.002, 0.02, 0.1]),
    st.tuples(st.integers(0, 4), st.integers(0, 4)),
    st.integers(0, 10**6),
)
def test_a_correction_adds_its_states_and_stays_between_its_knots(count, step, places, seed):
    random = np.random.default_rng(seed)
    first, last = min(places), max(places)
    if first == last:
        first, last = 0, count
    rows = np.sin(np.arange(count + 1)[:, None] * step + np.arange(3))
    plan = cubic_spline(np.full(count, step), rows, np.cos(np.arange(3) * 1.0))
    states = random.normal(size=(3, 2, 3))
    whole = plan.corrected(states, plan.knots[first], plan.knots[last])
    apart = whole.coefficients - plan.coefficients
    assert not apart[:first].any() and not apart[last:].any()
    own = Motion(plan.knots[first : last + 1] - plan.knots[first], apart[first:last])
    for state, expected in ((own.begin, states[:, 0]), (own.end, states[:, 1])):
        np.testing.assert_allclose(np.array(state), expected, rtol=1e-6, atol=1e-6 / step**2)
    assert (largest_jumps(own) <= 1e-9 * np.array([1, 1 / step, 1 / step**2]) * 100).all()


def test_an_end_in_motion_is_brought_to_rest_where_it_is():
    plan = cubic_spline(np.full(32, 0.02), np.arange(33)[:, None] ** 2 * 1e-4, np.zeros(1))
    rests = brought_to_rest(plan, 0.1)
    assert rests.ends_at_rest and np.abs(rests._replace(ends_at_rest=False).end[1:]).max() < 1e-9
    np.testing.assert_allclose(rests.end.position, plan.end.position, rtol=1e-12)
    np.testing.assert_array_equal(rests.coefficients[:27], plan.coefficients[:27])
