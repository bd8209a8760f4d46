from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motions import AMPLITUDE, PHASE, RATE, SINE, sine_motion

from traj_integrator_ros.demo.recording import plan_on, repeated
from traj_integrator_ros.motions.samples import Samples


def held(motion: Samples, at: list[int]) -> Samples:
    """The motion on a faster grid of equal steps, where every frame of `at` occurs twice."""
    index = np.sort(np.concatenate([np.arange(len(motion.time)), at]))
    position, velocity = motion.position[index], motion.velocity[index]
    time = np.linspace(0, motion.duration, len(index))
    return dataclasses.replace(motion, time=time, position=position, velocity=velocity, acceleration=None)


def with_gaps(motion: Samples, at: list[int]) -> Samples:
    """The motion with some frames replaced by the frame before them, as if they had not been measured."""
    position, velocity = motion.position.copy(), motion.velocity.copy()
    for k in at:
        position[k], velocity[k] = position[k - 1], velocity[k - 1]
    return dataclasses.replace(motion, position=position, velocity=velocity, acceleration=None)


def test_repeated_frames_are_those_that_contradict_their_velocity():
    assert np.flatnonzero(repeated(held(SINE, [10, 55, 120]))).tolist() == [11, 57, 123]
    at_rest = np.zeros_like(SINE.position)
    assert not repeated(dataclasses.replace(SINE, position=at_rest, velocity=at_rest)).any()


@pytest.mark.parametrize("spoiled", [held, with_gaps])
def test_a_plan_is_made_without_repeated_frames(spoiled, capsys):
    planned = plan_on(spoiled(SINE, [20, 60, 100]))
    assert "planned without 3 repeated frames" in capsys.readouterr().err
    np.testing.assert_allclose(planned.position, AMPLITUDE * np.sin(planned.time[:, None] * RATE + PHASE), atol=0.05)


def test_noise_is_filtered(capsys):
    exact = sine_motion(300, 0.03)
    random = np.random.default_rng(0)
    position = exact.position + 2e-4 * random.standard_normal(exact.position.shape)
    velocity = exact.velocity + 1e-2 * random.standard_normal(exact.velocity.shape)
    noisy = dataclasses.replace(exact, position=position, velocity=velocity, acceleration=None)
    planned = plan_on(noisy)
    angle = planned.time[:, None] * RATE + PHASE
    assert np.abs(planned.position - AMPLITUDE * np.sin(angle)).max() < 2e-3
    # A trajectory that starts with the noisy velocity would accelerate by noise / dt.
    apart = np.abs(planned.acceleration + AMPLITUDE * RATE**2 * np.sin(angle)).max()
    assert apart < 1 < np.abs(np.diff(velocity, axis=0)).max() / 0.03
    assert "planned on a spline near the motion" in capsys.readouterr().err


@pytest.mark.parametrize("step", [0.002, 0.08])
def test_a_plan_at_any_step_is_sampled_evenly_and_keeps_its_states(step):
    motion = sine_motion(round(4 / step), step)
    planned = plan_on(motion)
    np.testing.assert_allclose(np.diff(planned.time), 0.01, rtol=1e-9)
    assert planned.duration == pytest.approx(motion.duration, abs=0.01)
    angle = planned.time[:, None] * RATE + PHASE
    np.testing.assert_allclose(planned.position, AMPLITUDE * np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(planned.velocity, AMPLITUDE * RATE * np.cos(angle), atol=1e-5)
    np.testing.assert_allclose(planned.acceleration, -AMPLITUDE * RATE**2 * np.sin(angle), atol=1e-3)
