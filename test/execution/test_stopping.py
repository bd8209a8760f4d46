"""The fastest stops of joints."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
import ruckig
from execution_cases import bounds, largest_jumps
from hypothesis import given
from hypothesis import strategies as st

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.stopping import fastest_stop


def states(count: int):
    """States to stop from, and limits; some accelerations exceed the limit, or are too large for the velocity."""
    random = np.random.default_rng(7)
    for index in range(count):
        dof = int(random.integers(1, 8))
        velocity, acceleration = random.normal(size=(2, dof))
        acceleration *= (1, 8, 0)[index % 3]
        resting = random.random(dof) < 0.2
        velocity[resting], acceleration[resting] = 0.0, 0.0
        state = State(random.normal(size=dof), velocity, acceleration)
        yield state, random.uniform(0.5, 5, dof), random.uniform(1, 50, dof)


def test_a_stop_keeps_its_limits_everywhere_and_ends_at_rest():
    for state, acceleration, jerk in states(200):
        motion = fastest_stop(state, bounds(len(jerk), acceleration=acceleration, jerk=jerk))
        for part, expected in zip(motion.begin, state, strict=True):
            np.testing.assert_allclose(part, expected, atol=1e-12)
        assert (largest_jumps(motion) <= [1e-12, 1e-10, 1e-7]).all()
        least, most = extremes(motion)
        reached = np.maximum(-least, most)
        assert np.isfinite(reached).all()
        assert (reached[2] <= np.maximum(acceleration, np.abs(state.acceleration)) * (1 + 1e-6)).all()
        assert (reached[3] <= jerk * (1 + 1e-6)).all()
        np.testing.assert_allclose(motion._replace(ends_at_rest=False).end[1:], 0, atol=1e-7)
        assert motion.ends_at_rest
        _, velocity, held = state
        direction = np.sign(velocity)
        onwards = (direction * (velocity + held * np.abs(held) / (2 * jerk)) >= 0) & (direction != 0)
        slowest = np.where(direction > 0, least[1], -most[1])
        assert (slowest[onwards] >= -1e-9).all(), "no joint turns back while its acceleration lets it"


@pytest.mark.parametrize("deceleration", [2.0, 20.0])
def test_a_stop_uses_the_deceleration(deceleration):
    limits = replace(bounds(1, acceleration=10.0, jerk=500.0), deceleration=np.array([deceleration]))
    motion = fastest_stop(State(np.zeros(1), np.ones(1), np.zeros(1)), limits)
    assert np.abs(extremes(motion)[:, 2]).max() == pytest.approx(deceleration, rel=1e-6)


def test_no_stop_takes_longer_than_that_of_ruckig():
    for state, acceleration, jerk in states(200):
        for joint in range(len(jerk)):
            request = ruckig.InputParameter(1)
            request.control_interface = ruckig.ControlInterface.Velocity
            position, velocity, held = (float(part[joint]) for part in state)
            request.current_position, request.current_velocity = [position], [velocity]
            request.current_acceleration = [held]
            request.max_velocity = [1e9]
            request.max_acceleration, request.max_jerk = [float(acceleration[joint])], [float(jerk[joint])]
            fastest = ruckig.Trajectory(1)
            ruckig.Ruckig(1).calculate(request, fastest)
            ours = fastest_stop(state.of(joint), bounds(1, acceleration=acceleration[joint], jerk=jerk[joint]))
            assert ours.duration == pytest.approx(fastest.duration, rel=1e-6, abs=1.1e-6)
            (end,), *_ = fastest.at_time(fastest.duration)
            assert ours.end.position[0] == pytest.approx(end, rel=1e-8, abs=1e-7)


@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
@pytest.mark.parametrize(("part", "value"), [*product(range(3), (np.nan, np.inf, -np.inf)), (1, 1e300), (2, -1e300)])
def test_from_a_state_beyond_all_measure_there_is_no_stop(part, value):
    state = [np.zeros(2), np.ones(2), np.zeros(2)]
    state[part][1] = value
    with pytest.raises(ValueError, match="finite values"):
        fastest_stop(State(*state), bounds(2))


@pytest.mark.filterwarnings("ignore:divide", "ignore:invalid")
def test_without_acceleration_or_jerk_there_is_no_stop():
    for limits in ({"acceleration": 0.0}, {"jerk": 0.0}):
        with pytest.raises(ValueError, match="finite values"):
            fastest_stop(State(np.zeros(1), np.ones(1), np.zeros(1)), bounds(1, **limits))


@given(st.lists(st.floats(0.2, 5.0), min_size=3, max_size=3), st.floats(1.0, 3.0))
def test_a_release_that_just_stops_a_joint_leaves_no_velocity_backwards(a, more):
    """Some joints are in the last phase of a time-optimal plan: a = sqrt(2 j v)."""
    a, sides, jerk = np.array(a), np.array([1.0, -1.0, 1.0]), 50.0
    velocity = a * a / (2 * jerk) * [1.0, 1.0, more]
    motion = fastest_stop(State(np.array([0.3, -1.0, 2.0]), velocity * sides, -a * sides), bounds(3, jerk=jerk))
    least, most = extremes(motion)
    assert np.where(sides > 0, least[1], -most[1]).min() >= -1e-8  # knots are whole nanoseconds
    assert np.abs(extremes(motion)[:, 3]).max() <= jerk * (1 + 1e-6)


def test_joints_at_rest_stay_and_stop_no_later_than_others_need():
    motion = fastest_stop(State(np.ones(2), np.array([0.0, 1.0]), np.zeros(2)), bounds(2, acceleration=5.0, jerk=50.0))
    np.testing.assert_array_equal(motion.coefficients[:, 0, 0], 1.0)
    assert not motion.coefficients[:, 1:, 0].any()
    assert motion.duration == pytest.approx(1.0 / 5 + 5 / 50)


@given(st.floats(-7, -2), st.booleans())
def test_a_joint_that_hardly_moves_stops_within_the_jerk_limit(scale, moves):
    """The stop would take microseconds, but messages count whole nanoseconds."""
    a, v = 10.0**scale * np.array([not moves, 1e-3 * moves])
    state = State(np.zeros(2), np.array([v, 1.0]), np.array([a, 0.0]))
    motion = fastest_stop(state, bounds(2, acceleration=20.0, jerk=2e3))
    assert np.abs(extremes(motion)[:, 3]).max() <= 2e3 * (1 + 1e-4)
    assert np.abs(motion.end.velocity).max() < 1e-9
