"""The spline against scipy's, at open and clamped ends, and what steps and noise become."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import cubic_spline, motion_of_positions, rests_at_end

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


def test_a_step_in_velocity_overshoots_its_positions_by_at_most_15_percent_of_a_row():
    rows = np.maximum(np.arange(33) - 12, 0) * 0.02
    start = State(np.zeros(1), np.zeros(1), np.zeros(1))
    motion = motion_of_positions(np.full(32, 0.02), rows[1:, None], start)
    times = np.linspace(0, motion.duration, 2000)[:-1]
    planned = np.maximum(times - 0.24, 0)
    position, velocity = motion.states_at(times)[:2, :, 0]
    assert np.abs(position - planned).max() <= 0.15 * 0.02
    knots = motion.states_at(motion.knots[:-1])[1, :, 0]
    assert knots.max() <= 1.15 and knots.min() >= -0.15
    assert np.abs(velocity[times > 0.36] - 1).max() <= 1e-3


def test_noise_comes_out_no_larger_than_a_c2_cubic_spline_makes_it():
    random = np.random.default_rng(5)
    times = np.arange(33) * 0.02
    ours, scipys = [], []
    for _ in range(20):
        positions = np.sin(times[:, None] * np.arange(1, 8) / 4) + random.normal(scale=1e-4, size=(33, 7))
        velocity = np.arange(1, 8) / 4.0
        motion = motion_of_positions(np.full(32, 0.02), positions[1:], State(positions[0], velocity, np.zeros(7)))
        ours.append(np.abs(extremes(motion)[:, 2]).max())
        spline = cubic_spline(np.full(32, 0.02), positions, velocity)
        assert ours[-1] <= np.abs(extremes(spline)[:, 2]).max() * 1.001
        scipys.append(np.abs(CubicSpline(times, positions, bc_type=((1, velocity), "not-a-knot"))(times, 2)).max())
    assert np.mean(ours) <= np.mean(scipys)


def test_an_acceleration_fades_alike_for_any_rounding_of_the_other_joints():
    random, steps = np.random.default_rng(5), np.full(20, 1 / 30)
    rows = random.normal(size=(20, 1))
    for velocity in random.normal(size=(200, 1)):
        start = State(rows[0] * 0, np.array([0.5]), np.array([3.0]))
        both = State(*(np.append(part, other) for part, other in zip(start, (0.0, velocity, 1.0), strict=True)))
        alone = motion_of_positions(steps, rows, start)
        beside = motion_of_positions(steps, np.hstack([rows, rows * 0.1]), both)
        np.testing.assert_allclose(beside.coefficients[:, :3, :1], alone.coefficients[:, :3], rtol=1e-9, atol=1e-9)
