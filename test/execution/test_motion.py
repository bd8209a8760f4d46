"""A motion: evaluation, what comes after its end, its parts and their joints; motions of single joints, united."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import padded
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.polynomial import polynomial

from traj_integrator_ros.execution.motion import BESIDE, Motion, united
from traj_integrator_ros.execution.rows import motion_of_points, points_of


def a_motion(pieces: int, degree: int, dof: int, seed: int = 0) -> Motion:
    random = np.random.default_rng(seed)
    knots = np.concatenate([[0.0], random.uniform(0.01, 0.5, pieces).cumsum()])
    return Motion(knots, padded(random.normal(size=(pieces, degree + 1, dof))))


@settings(max_examples=30)
@given(st.integers(1, 6), st.integers(1, 5), st.integers(1, 3), st.integers(0, 10**6))
def test_states_are_values_and_derivatives_of_the_pieces(pieces, degree, dof, seed):
    motion = a_motion(pieces, degree, dof, seed)
    times = [*motion.knots[:-1], *np.random.default_rng(seed).uniform(0, motion.duration, 20)]
    states = motion.states_at(times)
    for column, time in enumerate(times):
        piece = int(np.searchsorted(motion.knots, time, side="right")) - 1
        for order in range(4):
            derivative = polynomial.polyder(motion.coefficients[piece], order)
            expected = polynomial.polyval(time - motion.knots[piece], derivative)
            np.testing.assert_allclose(states[order, column], expected, rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(motion.state_at(time), states[:3, column], rtol=1e-11, atol=1e-11)


def test_after_its_end_it_rests_where_it_arrived():
    motion = a_motion(2, 3, 2)
    for time in (motion.duration, motion.duration + 5):
        state = motion.state_at(time)
        np.testing.assert_array_equal(state.position, motion.end.position)
        assert not np.any(state.velocity) and not np.any(state.acceleration)
        np.testing.assert_array_equal(motion.states_at(np.array([time]))[:3, 0], state)
    assert np.any(motion.end.velocity)


@pytest.mark.parametrize("degree", [1, 2, 3, 5])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_the_rest_of_a_motion_is_the_motion(degree, share):
    motion = a_motion(4, degree, 2)
    time = share * motion.duration
    rest = motion.from_time(time)
    assert rest.duration == pytest.approx(motion.duration - time)
    times = np.linspace(0, rest.duration, 50)[:-1]
    np.testing.assert_allclose(rest.states_at(times), motion.states_at(times + time), rtol=1e-9, atol=1e-9)


def test_a_rest_too_short_for_a_point_is_left_to_the_next_piece():
    motion = a_motion(3, 3, 1)
    rest = motion.from_time(motion.knots[1] - 1e-7)
    assert len(rest.coefficients) == 2
    assert rest.knots[1] == pytest.approx(motion.knots[2] - motion.knots[1] + 1e-7)
    np.testing.assert_allclose(rest.state_at(1e-7).position, motion.coefficients[1, 0], rtol=1e-12)


def test_before_its_start_a_motion_is_its_first_segment_and_no_part_of_the_plan():
    motion = a_motion(3, 3, 1)._replace(start_ns=10**9)
    earlier = motion.from_time(-0.1)
    assert (earlier.start_ns, earlier.plan_from) == (9 * 10**8, 0.1) and len(earlier.coefficients) == 3
    for time in (-0.1, 0.0, 0.9 * motion.knots[1]):
        np.testing.assert_allclose(earlier.state_at(time + 0.1), motion.state_at(time), rtol=1e-9, atol=1e-9)


def test_there_is_no_rest_of_a_motion_that_is_over():
    with pytest.raises(ValueError, match="time: expected less than the duration"):
        a_motion(3, 3, 1).from_time(100.0)


def test_one_motion_after_another_is_both():
    first, second = a_motion(2, 3, 2), a_motion(3, 5, 2, seed=1)
    both = first.then(second)
    times = np.linspace(0, both.duration, 40)[:-1]
    early = times < first.duration
    np.testing.assert_allclose(both.states_at(times)[:, early], first.states_at(times[early]))
    np.testing.assert_allclose(
        both.states_at(times)[:, ~early], second.states_at(times[~early] - first.duration), rtol=1e-9, atol=1e-12
    )


# Tracks: every knot counts once


@given(st.integers(0, 2**32 - 1))
def test_each_joint_moves_as_its_track_and_rests_after_it(seed):
    random = np.random.default_rng(seed)
    tracks = {}
    for joint in range(3):
        count = int(random.integers(1, 8))
        knots = np.append(0.0, random.integers(10**6, 10**8, count).cumsum() * 1e-9)
        if joint == 2:  # close to the knots of another joint
            knots = tracks[1].knots + 1e-9 * random.integers(-2000, 2000)
            knots[0] = 0.0
        tracks[joint] = Motion(knots, random.normal(size=(len(knots) - 1, 6, 1)))
    motion = united(tracks)
    gaps = np.diff(motion.knots)
    assert gaps.min() >= 0.999e-6 and motion.duration == pytest.approx(
        max(track.knots[-1] for track in tracks.values())
    )
    times = random.uniform(0, motion.duration, 200)
    for joint, track in tracks.items():
        clear = np.abs(times[:, None] - track.knots).min(axis=1) > 2e-6
        states = motion.states_at(times[clear])[:, :, joint]
        np.testing.assert_allclose(states, track.states_at(times[clear])[:, :, 0], rtol=1e-7, atol=1e-7)


def test_joints_without_a_track_are_taken_from_the_motion():
    motion = Motion(np.array([0.0, 0.5, 1.0]), padded(np.random.default_rng(0).normal(size=(2, 4, 3))))
    track = Motion(np.array([0.0, 0.3]), np.ones((1, 6, 1)))
    both = united({1: track}, motion)
    times = np.array([0.1, 0.29, 0.31, 0.7])
    np.testing.assert_allclose(both.states_at(times)[:, :, [0, 2]], motion.states_at(times)[:, :, [0, 2]], atol=1e-9)
    np.testing.assert_allclose(both.of(1).coefficients[0], track.coefficients[0], atol=1e-9)


@pytest.mark.parametrize("stop", [0.008, 0.016, 0.5])
@pytest.mark.parametrize("later", [4e-7, -4e-7])
def test_long_pieces_beside_merged_knots_are_played_as_they_are(stop, later):
    """The acceleration jumps there, which points cannot express: the oscillation that they express instead is short."""
    jerk = 1000.0
    first = np.array([[0.0, jerk * stop**2 / 2, -jerk * stop / 2, jerk / 6]])[:, :, None]
    second = Motion(np.array([0.0, stop + later, stop + later + 1.5]), np.zeros((2, 6, 1)))
    motion = united({0: Motion(np.array([0.0, stop]), padded(first)), 1: second})
    before = [stop - BESIDE] * (stop > 1.5 * BESIDE)
    np.testing.assert_allclose(motion.knots, [0.0, *before, stop, stop + BESIDE, stop + 1.5], atol=1e-6)
    times = np.linspace(0.0, motion.duration, 50_000)
    played = motion_of_points(points_of(motion))
    most = 0.0173 * abs(later) * jerk * (1.5 * BESIDE) ** 2
    assert np.abs(played.states_at(times)[0] - motion.states_at(times)[0]).max() < most


def test_slivers_are_left_out_and_the_end_stays():
    knots = np.array([0.0, 0.1, 0.1 + 4e-7, 0.2, 0.3 - 5e-7, 0.3])
    coefficients = np.zeros((5, 6, 1))
    coefficients[:, 0, 0], coefficients[:, 1, 0] = knots[:-1], 1.0
    whole = Motion(knots, coefficients).without_slivers()
    np.testing.assert_allclose(whole.knots, [0, 0.1, 0.2, 0.3])
    np.testing.assert_allclose(whole.states_at(np.array([0.05, 0.15, 0.25]))[0, :, 0], [0.05, 0.15, 0.25], atol=1e-9)
