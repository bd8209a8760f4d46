"""What is played and planned of a recording: angles that go on, no repeated frames, no noise, even steps."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motions import AMPLITUDE, JOINTS, PHASE, RATE, SINE, sine_motion
from recordings import write_table

from traj_integrator_ros.demo.recording import load_recording, plan_on, repeated
from traj_integrator_ros.motions.samples import RecordingError, Samples


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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: dataclasses.replace(m, velocity=0 * m.velocity), "nothing moves"),
        (lambda m: dataclasses.replace(m, time=1e-3 * m.time), "too short: expected at least .* and 0.3 s, got 200"),
        (lambda m: m.rows(slice(15)), "too short: .*got 15 and 0.280 s"),
    ],
)
def test_numbers_that_are_no_motion_are_refused(tmp_path, change, message):
    with pytest.raises(RecordingError, match=message):
        load_recording(write_table(tmp_path / "m.csv", change(SINE)))


@pytest.mark.parametrize("quantities", [("position",), ("position", "velocity")])
def test_angles_that_pass_pi_go_on_and_a_long_way_in_a_long_step_stays(tmp_path, capsys, quantities):
    turning = np.linspace(2.5, 15.0, len(SINE.time))
    position, velocity = SINE.position.copy(), SINE.velocity.copy()
    position[:, 1], velocity[:, 1] = (turning + np.pi) % (2 * np.pi) - np.pi, 12.5 / SINE.duration
    wrapped = dataclasses.replace(SINE, position=position, velocity=velocity)
    loaded = load_recording(write_table(tmp_path / "m.csv", wrapped, quantities))
    np.testing.assert_allclose(loaded.position[:, 1], turning, atol=1e-12)
    np.testing.assert_allclose(loaded.velocity[:, 1], velocity[:, 1], atol=1e-9)
    assert f"{JOINTS[1]}: turned on where angles pass pi" in capsys.readouterr().err
    np.testing.assert_array_equal(np.delete(loaded.position, 1, axis=1), np.delete(position, 1, axis=1))
    slow = dataclasses.replace(SINE, time=SINE.time * 60, position=2 * np.pi * np.sign(SINE.position))  # of 1.2 s
    table = write_table(tmp_path / "m.csv", slow)
    table.write_text(table.read_text().replace("time", "time [s]", 1))  # Steps of 1.2 might be of any unit.
    np.testing.assert_array_equal(load_recording(table).position, slow.position)


def test_bag_equals_its_independent_extraction(shared_data):
    bag = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.db3"))
    table = load_recording(shared_data("unisa-panda-exciting/panda_exciting_trajectory.derived.csv"))
    assert bag.joint_names == table.joint_names
    np.testing.assert_allclose(bag.time, table.time, atol=2e-9, err_msg="whole nanoseconds")
    np.testing.assert_array_equal(bag.position, table.position)
    np.testing.assert_array_equal(bag.velocity, table.velocity)
