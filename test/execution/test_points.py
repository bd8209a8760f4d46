"""Points of a motion in whole nanoseconds, and the controller's interpolation of points."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import HELD, bounds, motion_of_actions

from kit.controller import Controller
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, State, united
from traj_integrator_ros.execution.rows import Points, motion_of_points, points_of
from traj_integrator_ros.execution.stopping import fastest_stop


def random_points(random: np.random.Generator, columns: int) -> Points:
    count, dof = int(random.integers(2, 12)), int(random.integers(1, 8))
    time_ns = random.integers(1_000_000, 200_000_000, count).cumsum() - 1_000_000
    time_ns -= time_ns[0]
    parts = list(random.normal(size=(3, count, dof)))
    return Points(time_ns, *(parts[k] if k < columns else None for k in range(3)))


@pytest.mark.parametrize("columns", [3, 2, 1])
def test_evaluates_points_as_the_controller_does(columns):
    """Thousands of states of hundreds of trajectories, at times on no grid."""
    random = np.random.default_rng(columns)
    for _ in range(100):
        points = random_points(random, columns)
        motion = motion_of_points(points)
        model = Controller([f"joint{k}" for k in range(points.position.shape[1])], hard_replacement=True)
        arrays = points.position, points.velocity, points.acceleration
        assert model.receive(model.joints, points.time_ns, *arrays, stamp_ns=5 * 10**9) or columns > 1
        model.moving_end = True
        assert model.receive(model.joints, points.time_ns, *arrays, stamp_ns=5 * 10**9), model.refusal
        model.update(0)
        for time in random.uniform(0, motion.duration * 0.999, 10):
            time_ns = round(time * 1e9)
            commanded = model._state_at(5 * 10**9 + time_ns).parts
            ours = motion.state_at(time_ns * 1e-9)
            for part, expected in zip(ours[:3], commanded, strict=True):
                np.testing.assert_allclose(part, expected, rtol=1e-9, atol=1e-9 * (1 + np.abs(expected).max()))


@pytest.mark.parametrize("before", [2e-4, 9e-3])
def test_the_longer_piece_leads_to_a_change_of_jerk_that_was_moved(before):
    """A joint whose jerk changes 0.7 us after a knot of another one, between a long piece and one of 0.2 ms."""
    switch, last = before + 7e-7, 9.2e-3
    bang = Motion(np.array([0.0, switch, last]), np.zeros((2, 6, 1)))
    bang.coefficients[:, 3, 0] = 1e4 / 6, -1e4 / 6
    bang.coefficients[1, :3, 0] = [1e4 / 6 * switch**3, 1e4 / 2 * switch**2, 1e4 / 2 * switch]
    motion = united({0: bang, 1: Motion(np.array([0.0, before, last]), np.zeros((2, 6, 1)))})
    motion = motion._replace(ends_at_rest=False)
    np.testing.assert_allclose(motion.knots, [0.0, before, last])
    jerk = np.abs(extremes(motion_of_points(points_of(motion)))[:, 3, 0]).max()
    assert jerk < 1e4 * (1 + 10 * 2 * 7e-7 / 9e-3)


@pytest.mark.parametrize("dt", [0.001, 0.02, 1 / 30, np.pi / 100])
@pytest.mark.parametrize("name", HELD)
def test_points_bring_back_their_motion(name, dt):
    random = np.random.default_rng(1)
    actions = random.normal(size=(20, 4)) * (dt if name == "clique" else 1)
    start = State(np.zeros(4), random.normal(size=4), random.normal(size=4))
    motion = motion_of_actions(name, np.full(20, dt), actions, start)
    points = points_of(motion)
    assert points.time_ns.dtype == np.int64 and (np.diff(points.time_ns) > 0).all()
    again = motion_of_points(points)
    times = random.uniform(0, motion.duration - 1e-6, 500)
    times = times[np.abs(times[:, None] - motion.knots).min(axis=1) > 1e-8]
    ours, theirs = motion.states_at(times)[:3], again.states_at(times)[:3]
    # Rounding of positions, divided by dt up to twice, and half a nanosecond at knots between two of them, as the end.
    rates = np.abs(motion.states_at(times)[1:]).max(axis=(1, 2))
    tolerance = np.array([1e-13, 1e-12 / dt, 1e-12 / dt**2]) + 2e-9 * (rates + rates[0] / dt ** np.arange(3))
    assert (np.abs(ours - theirs).max(axis=(1, 2)) <= tolerance).all()


def test_points_bring_back_a_stop_which_ends_at_rest():
    random = np.random.default_rng(1)
    for _ in range(100):
        motion = fastest_stop(State(*random.normal(size=(3, 4))), bounds(4))
        points = points_of(motion)
        np.testing.assert_array_equal(points.velocity[-1], 0)
        times = random.uniform(0, motion.duration - 1e-6, 100)
        apart = np.abs(motion.states_at(times) - motion_of_points(points).states_at(times))[:3].max(axis=(1, 2))
        assert (apart <= [1e-8, 1e-7, 1e-5]).all(), apart
