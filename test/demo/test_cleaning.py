from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motions import AMPLITUDE, PHASE, RATE, sine_motion

from traj_integrator_ros.demo.cleaning import (
    clean,
    filter_states,
    fit_parabolas,
    plan_on,
    states_of_positions,
    velocity_disagreement,
)
from traj_integrator_ros.demo.motion import (
    Motion,
    accelerations,
    cut,
    find_repeated_frames,
    largest_acceleration,
    resample,
    thin_out,
)


def held(motion: Motion, at: list[int]) -> Motion:
    """The motion held onto a faster grid: every frame of `at` comes twice, under stamps of equal steps."""
    index = np.sort(np.concatenate([np.arange(motion.samples), at]))
    position, velocity = motion.position[index], motion.velocity[index]
    time = np.linspace(0, motion.duration, len(index))
    repeated = find_repeated_frames(position, velocity)
    return dataclasses.replace(
        motion, time=time, position=position, velocity=velocity, acceleration=None, repeated=repeated
    )


def with_gaps(motion: Motion, at: list[int]) -> Motion:
    """The motion with frames that repeat the one before in place of their own: what was measured there is missing."""
    position, velocity = motion.position.copy(), motion.velocity.copy()
    for k in at:
        position[k], velocity[k] = position[k - 1], velocity[k - 1]
    repeated = find_repeated_frames(position, velocity)
    return dataclasses.replace(motion, position=position, velocity=velocity, acceleration=None, repeated=repeated)


def test_repeated_frames_are_those_that_contradict_their_velocity(sine):
    assert np.flatnonzero(held(sine, [10, 55, 120]).repeated).tolist() == [11, 57, 123]
    at_rest = np.zeros((5, 2))
    assert not find_repeated_frames(at_rest, at_rest).any()


def test_held_stream_is_timed_evenly(sine):
    recording = held(sine, [20, 60, 100, 140, 180])
    cleaned = clean(recording)
    assert cleaned.samples == sine.samples
    np.testing.assert_allclose(cleaned.time, sine.time, atol=1e-9)
    assert velocity_disagreement(cleaned) < 0.01 * velocity_disagreement(recording)
    assert "5 repeated frames dropped and the rest timed evenly" in cleaned.notes[-1]


def test_stream_with_missing_frames_keeps_its_stamps_and_a_clean_one_all(sine):
    assert clean(sine) is sine and plan_on(sine) is sine
    cleaned = clean(with_gaps(sine, [20, 60, 100]))
    np.testing.assert_array_equal(cleaned.time, np.delete(sine.time, [20, 60, 100]))
    assert "recorded stamps kept" in cleaned.notes[-1]


def test_filter_reduces_noise_and_its_states_are_consistent():
    exact = sine_motion(300, 0.03)
    random = np.random.default_rng(0)
    noisy = dataclasses.replace(
        exact,
        position=exact.position + 2e-4 * random.standard_normal(exact.position.shape),
        velocity=exact.velocity + 1e-2 * random.standard_normal(exact.velocity.shape),
        acceleration=None,
    )
    planned = filter_states(noisy)
    assert np.abs(planned.position - exact.position).max() < 2e-3
    # A trajectory that starts with the noisy velocity would accelerate by noise / dt.
    assert (
        np.abs(planned.acceleration - exact.acceleration).max()
        < 1.0
        < np.abs(np.diff(noisy.velocity, axis=0)).max() / 0.03
    )


@pytest.mark.parametrize("uniform", [True, False])
def test_parabolas_are_fitted_exactly_up_to_the_ends(uniform):
    motion = sine_motion(60, 0.02)
    time = motion.time if uniform else motion.time + 0.004 * np.sin(np.arange(60))
    time = time - time[0]
    p0, v0, a0 = np.array([1.0, -2.0, 0.5]), np.array([0.3, 0.1, -0.4]), np.array([1.5, -0.7, 0.2])
    t = time[:, None]
    parabola = dataclasses.replace(
        motion, time=time, position=p0 + v0 * t + a0 * t**2 / 2, velocity=v0 + a0 * t, acceleration=None
    )
    position, velocity, acceleration = fit_parabolas(parabola)
    np.testing.assert_allclose(position, parabola.position, atol=1e-10)
    np.testing.assert_allclose(velocity, parabola.velocity, atol=1e-9)
    np.testing.assert_allclose(acceleration, np.broadcast_to(a0, position.shape), atol=1e-7)


def test_plan_with_wrong_velocities_starts_with_those_of_its_positions(sine):
    wrong = dataclasses.replace(sine, velocity=0.9 * sine.velocity)
    planned = plan_on(wrong)
    np.testing.assert_allclose(planned.velocity[1:-1], sine.velocity[1:-1], atol=1e-3)
    np.testing.assert_allclose(planned.acceleration[1:-1], sine.acceleration[1:-1], atol=1e-2)
    np.testing.assert_array_equal(states_of_positions(wrong).velocity[[0, -1]], wrong.velocity[[0, -1]])
    assert "disagree" in planned.notes[-1]


def test_resampling_keeps_states_at_samples_and_is_consistent_between_them():
    motion = sine_motion(50, 0.08)
    fine = resample(motion, 0.01)
    np.testing.assert_allclose(fine.position[::8], motion.position, atol=1e-12)
    np.testing.assert_allclose(fine.velocity[::8], motion.velocity, atol=1e-12)
    np.testing.assert_allclose(fine.position, AMPLITUDE * np.sin(fine.time[:, None] * RATE + PHASE), atol=1e-5)
    np.testing.assert_allclose(np.gradient(fine.position, 0.01, axis=0)[1:-1], fine.velocity[1:-1], atol=2e-3)


def test_cut_and_thin_out_keep_samples(sine):
    short = cut(sine, 1.0)
    assert short.duration == pytest.approx(1.0) and "cut to its first 1.0 s" in short.notes[-1]
    assert cut(sine, 100.0) is sine
    thin = thin_out(sine_motion(500, 0.002), 0.01)
    assert thin.samples == 100 and thin.step == pytest.approx(0.01)
    assert thin_out(sine, 0.01).samples == sine.samples


def test_largest_acceleration_leaves_out_one_sided_differences(sine):
    velocity = sine.velocity.copy()
    velocity[0] += 5.0  # a first sample that is off shows in one one-sided difference, and half in the next
    spoiled = dataclasses.replace(sine, velocity=velocity, acceleration=None)
    assert np.abs(accelerations(spoiled)[0]).max() > 200
    assert largest_acceleration(spoiled) < 130
