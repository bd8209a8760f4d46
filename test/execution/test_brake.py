"""The brake against ruckig: its duration, its limits between the points, its direction."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traj_integrator_ros.execution.brake import brake, brake_duration, needed_jerk
from traj_integrator_ros.execution.extremes import extremes
from traj_integrator_ros.execution.motion import State


def ruckig_durations(velocity, acceleration, largest, jerk) -> np.ndarray:
    ruckig = pytest.importorskip("ruckig")
    dof = len(velocity)
    inputs = ruckig.InputParameter(dof)
    inputs.control_interface = ruckig.ControlInterface.Velocity
    inputs.current_velocity, inputs.current_acceleration = velocity.tolist(), acceleration.tolist()
    inputs.max_acceleration, inputs.max_jerk = largest.tolist(), jerk.tolist()
    trajectory = ruckig.Trajectory(dof)
    assert ruckig.Ruckig(dof).calculate(inputs, trajectory) >= 0
    return np.array(trajectory.independent_min_durations)


def cases(count: int):
    random = np.random.default_rng(7)
    for index in range(count):
        dof = int(random.integers(1, 8))
        velocity, acceleration = random.normal(size=(2, dof))
        if index % 3 == 1:
            acceleration *= 8  # beyond the limit, or more than the velocity can bear
        if index % 3 == 2:
            acceleration *= 0
        yield velocity, acceleration, random.uniform(0.5, 5, dof), random.uniform(1, 50, dof), random


def test_is_as_short_as_ruckigs_from_any_state():
    for velocity, acceleration, largest, jerk, _ in cases(2000):
        expected = ruckig_durations(velocity, acceleration, largest, jerk)
        np.testing.assert_allclose(
            brake_duration(velocity, acceleration, largest, jerk), expected, rtol=1e-6, atol=1e-9
        )


def test_keeps_its_limits_between_the_points_and_comes_to_rest_on_the_grid():
    for velocity, acceleration, largest, jerk, random in cases(500):
        spacing = float(random.choice([0.002, 0.02, 0.1, 1.0]))
        motion = brake(State(np.zeros(len(velocity)), velocity, acceleration), spacing, acceleration=largest, jerk=jerk)
        reached = np.abs(extremes(motion)).max(axis=0)
        assert (reached[2] <= np.maximum(largest, np.abs(acceleration)) * (1 + 1e-9)).all()
        assert (reached[3] <= jerk * (1 + 1e-9) + 1e-9).all()
        np.testing.assert_array_equal(motion.end.velocity, 0)
        np.testing.assert_allclose(motion.end.acceleration, 0, atol=1e-9)
        last = motion.states_at(np.array([motion.duration * (1 - 1e-9)]))[1]
        np.testing.assert_allclose(last, 0, atol=1e-6)
        shortest = ruckig_durations(velocity, acceleration, largest, jerk).max()
        step = motion.steps.max()  # a release that ends between two points has one of its own
        assert shortest - 1e-9 <= motion.duration <= shortest + 3 * step
        parts = max(spacing / step, step / spacing)  # the points of a very long brake are further apart
        assert parts == pytest.approx(round(parts))


def test_a_joint_does_not_turn_back_while_its_acceleration_lets_it():
    for velocity, acceleration, largest, jerk, _ in cases(500):
        motion = brake(State(np.zeros(len(velocity)), velocity, acceleration), 0.02, acceleration=largest, jerk=jerk)
        released = velocity + acceleration * np.abs(acceleration) / (2 * jerk)
        direction = np.sign(velocity)
        onwards = (direction * released >= 0) & (direction != 0)
        slowest = np.where(direction > 0, extremes(motion)[0, 1], -extremes(motion)[1, 1])
        assert (slowest >= -1e-9 - jerk * motion.knots[1] ** 2 / 8)[onwards].all()
        clearly = direction * released >= jerk * motion.knots[1] ** 2
        assert (slowest >= -1e-9)[onwards & clearly].all()


def test_without_limits_it_takes_the_brake_time():
    state = State(np.zeros(3), np.array([1.0, -0.5, 0.2]), np.array([0.5, 0.0, -0.1]))
    motion = brake(state, 0.02, brake_time=0.25)
    assert 0.25 <= motion.duration <= 0.25 + 2 * 0.02
    np.testing.assert_allclose(
        brake_duration(*state[1:], np.full(3, np.inf), needed_jerk(*state[1:], 0.25)), [0.25] * 3, rtol=1e-9
    )


def test_without_a_jerk_limit_acceleration_is_limited_all_the_same():
    state = State(np.zeros(2), np.array([3.0, 0.01]), np.zeros(2))
    motion = brake(state, 0.02, acceleration=np.array([5.0, np.inf]), brake_time=0.25)
    assert np.abs(extremes(motion)[:, 2, 0]).max() <= 5 * (1 + 1e-9)
    assert motion.duration > 0.6


def test_a_hard_deceleration_is_not_released_so_late_that_the_joint_turns_back():
    state = State(np.zeros(1), np.array([0.1]), np.array([-4.0]))
    motion = brake(state, 0.002, brake_time=0.25)
    assert extremes(motion)[0, 1, 0] >= -1e-9


def test_at_rest_there_is_next_to_nothing_to_brake():
    motion = brake(State(np.ones(2), np.zeros(2), np.zeros(2)), 0.02)
    np.testing.assert_allclose(extremes(motion)[:, :2], [[[1, 1], [0, 0]]] * 2, atol=1e-9)


def test_all_joints_come_to_rest_together():
    state = State(np.zeros(2), np.array([1.0, 0.01]), np.zeros(2))
    motion = brake(state, 0.02, acceleration=np.full(2, 5.0), jerk=np.full(2, 50.0))
    moving = motion.states_at(motion.knots[1:-1])[1]
    assert (moving > 0).all()


@settings(max_examples=60)
@given(data=st.data())
def test_a_release_that_just_stops_a_joint_leaves_no_velocity_backwards(data):
    """Where a time-optimal plan is cut in its last phase: a = sqrt(2 j v), for some of the joints."""
    dof, jerk, spacing = 3, 50.0, data.draw(st.sampled_from([0.005, 0.02, 0.1]))
    a = np.array(data.draw(st.lists(st.floats(0.2, 5.0), min_size=dof, max_size=dof)))
    sides = np.array([1.0, -1.0, 1.0])
    v = a * a / (2 * jerk) * np.array([1.0, 1.0, data.draw(st.floats(1.0, 3.0))])
    state = State(np.array([0.3, -1.0, 2.0]), v * sides, -a * sides)
    motion = brake(state, spacing, acceleration=np.full(dof, 10.0), jerk=np.full(dof, jerk))
    times = np.linspace(0, motion.duration, 4000, endpoint=False)
    _, velocity, acceleration, slope = motion.states_at(times)
    assert (velocity * sides).min() >= -2e-4
    assert np.abs(slope).max() <= jerk * (1 + 1e-5) and np.abs(acceleration).max() <= 10.0 + 1e-9
    ends = np.cumsum(motion.steps)[:-1]
    before, after = motion.states_at(ends - 1e-9), motion.states_at(ends)
    for order, tolerance in ((0, 1e-7), (1, 1e-4), (2, 1e-2)):
        assert np.abs(before[order] - after[order]).max() <= tolerance
