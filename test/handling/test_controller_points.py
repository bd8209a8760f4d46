"""Points for joint_trajectory_controller, without ROS."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.engine.integrator import IntegratorConfig, StartState, TrajectoryIntegrator
from traj_integrator_ros.handling.controller_points import TimedPoints, interpolate, publishable_points
from traj_integrator_ros.handling.rejection import Rejected, RejectionReason
from traj_integrator_ros.handling.time_grid import TimeGrid

DOF = 2


def moving(steps: int, end_velocity: float = 0.5) -> tuple[TimeGrid, np.ndarray]:
    """Times and a motion whose velocity ends at `end_velocity`."""
    time = 0.02 * np.arange(steps)
    velocity = np.full((steps, DOF), end_velocity)
    return TimeGrid(time), np.stack([time[:, None] * velocity, velocity, np.ones((steps, DOF))])


def test_a_residual_end_velocity_within_the_tolerance_becomes_exactly_zero() -> None:
    points = publishable_points(*moving(5, 0.009), rest_tolerance=0.01)
    assert len(points.time_ns) == 5
    assert (points.velocity[-1] == 0.0).all()
    assert (points.velocity[-2] == 0.009).all()


def test_a_larger_end_velocity_gets_one_more_point_at_rest_one_step_later() -> None:
    points = publishable_points(*moving(5, 0.5), rest_tolerance=0.01)
    assert points.time_ns.tolist() == [0, 20_000_000, 40_000_000, 60_000_000, 80_000_000, 100_000_000]
    assert (points.position[-1] == points.position[-2]).all()
    assert not points.velocity[-1].any() and not points.acceleration[-1].any()
    assert (points.velocity[-2] == 0.5).all()


def test_one_joint_beyond_the_tolerance_is_enough_for_the_extra_point() -> None:
    times, motion = moving(5, 0.0)
    motion[1, -1, 1] = -0.02
    points = publishable_points(times, motion, rest_tolerance=0.01)
    assert len(points.time_ns) == 6


def test_as_planned_leaves_the_end_alone() -> None:
    points = publishable_points(*moving(5, 0.5), end="as_planned", rest_tolerance=0.01)
    assert len(points.time_ns) == 5 and (points.velocity[-1] == 0.5).all()


def test_what_goes_in_is_not_changed() -> None:
    times, motion = moving(5, 0.001)
    time, copy = times.time_s.copy(), motion.copy()
    publishable_points(times, motion, rest_tolerance=0.01)
    assert (motion == copy).all() and (times.time_s == time).all()


def test_a_single_point_in_motion_comes_to_rest_too() -> None:
    points = publishable_points(*moving(1, 0.5), rest_tolerance=0.01)
    assert len(points.time_ns) == 2 and not points.velocity[-1].any()


def test_a_central_difference_begins_with_the_start_and_ends_at_rest() -> None:
    config = IntegratorConfig(dof=DOF, finite_difference="central", dt=0.02)
    engine = TrajectoryIntegrator(config)
    start = StartState(np.full((1, DOF), 0.1, np.float32), np.full((1, DOF), 0.5, np.float32))
    actions = 0.1 + 0.01 * np.arange(1, 7, dtype=np.float32)[None, :, None] * np.ones((1, 6, DOF), np.float32)
    trajectory = engine.integrate_array(start, actions)[:, 0]
    time = engine.time_from_start(None, 1, 6)
    assert time[0] == pytest.approx(-0.02)
    points = publishable_points(TimeGrid(time), trajectory[:3], rest_tolerance=0.0)
    assert points.time_ns[0] == 0
    assert points.position[0] == pytest.approx(0.1) and points.velocity[0] == pytest.approx(0.5, rel=1e-4)
    assert len(points.time_ns) == 9, "six actions and four more, less the ghost; no extra point at the end"
    assert (points.velocity[-1] == 0.0).all()


@given(
    steps=st.lists(st.floats(1e-6, 1e4), min_size=1, max_size=50),
    end=st.sampled_from(["stop", "as_planned"]),
    velocity=st.floats(-10, 10),
)
def test_times_are_increasing_whole_nanoseconds_for_any_steps(steps: list[float], end: str, velocity: float) -> None:
    time = np.concatenate([[0.0], np.cumsum(steps)])
    rows = np.full((3, len(time), DOF), velocity)
    points = publishable_points(TimeGrid(time), rows, end=end, rest_tolerance=0.01)
    assert points.time_ns.dtype == np.int64
    assert (np.diff(points.time_ns) > 0).all()
    assert np.allclose(points.time_ns[: len(time)] * 1e-9, time, rtol=1e-9, atol=1e-9)
    assert end == "as_planned" or not points.velocity[-1].any()


@pytest.mark.parametrize("time", [[0.0, 1e-10, 2e-10], [0.0, 1e9, 3e9]], ids=["below a nanosecond", "beyond 2^31 s"])
def test_times_that_a_message_cannot_hold_are_rejected(time: list[float]) -> None:
    with pytest.raises(Rejected) as caught:
        publishable_points(TimeGrid(np.asarray(time)), np.zeros((3, 3, DOF)))
    assert caught.value.reason is RejectionReason.INVALID_TIMES


def test_an_end_at_rest_that_a_message_cannot_hold_is_rejected() -> None:
    rows = np.ones((3, 2, DOF))
    times = TimeGrid(np.array([0.0, 1.5e9]))
    assert len(publishable_points(times, rows, end="as_planned").time_ns) == 2
    with pytest.raises(Rejected) as caught:
        publishable_points(times, rows, rest_tolerance=0.01)
    assert caught.value.reason is RejectionReason.INVALID_TIMES


def quintic(coefficients: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Value and two derivatives of polynomials `[DOF]` at times t."""
    return tuple(
        np.stack([np.polynomial.Polynomial(row).deriv(order)(t) if order else np.polynomial.Polynomial(row)(t)
                  for row in coefficients], axis=-1)
        for order in range(3)
    )  # fmt: skip


@given(seed=st.integers(0, 2**32 - 1), where=st.floats(0.0, 1.0))
def test_interpolation_follows_the_quintic_through_its_points(seed: int, where: float) -> None:
    rng = np.random.default_rng(seed)
    coefficients = rng.normal(size=(DOF, 6))
    time = np.cumsum(rng.uniform(0.05, 0.4, size=5))
    time = np.rint((time - time[0]) * 1e9) * 1e-9
    points = TimedPoints(np.rint(time * 1e9).astype(np.int64), np.stack(quintic(coefficients, time)))
    at_ns = int(where * points.time_ns[-1])
    exact = quintic(coefficients, np.asarray(at_ns * 1e-9))
    for value, expected in zip(interpolate(points, at_ns), exact, strict=True):
        assert np.allclose(value, expected, rtol=1e-7, atol=1e-7)
