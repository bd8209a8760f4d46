"""Fades: what they begin with, where they end, how far they lead away."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import largest_jumps
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.rows import cubic_spline, settle, taken_up


def a_plan(count: int = 32, dof: int = 3, step: float = 0.02):
    times = np.arange(count + 1) * step
    return cubic_spline(np.full(count, step), np.sin(times[:, None] + np.arange(dof)), np.cos(np.arange(dof) * 1.0))


@settings(max_examples=30)
@given(st.integers(2, 40), st.sampled_from([0.002, 0.02, 0.1]), st.floats(0.01, 0.5), st.integers(0, 10**6))
def test_another_acceleration_at_the_start_fades_and_the_plan_is_followed_exactly_afterwards(
    count, step, fade_time, seed
):
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


@pytest.mark.parametrize("first", [0.0002, 0.01])
def test_a_fade_ends_no_earlier_than_a_full_step(first):
    plan = a_plan().from_time(0.02 - first)
    joined = taken_up(plan, plan.begin.acceleration + 5, 0.005)
    assert np.abs(extremes(joined)[:, 3]).max() < 9 * 5 / 0.02 * 1.1
