from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from motion_tables import write_table
from motions import JOINTS, SINE

from traj_integrator_ros.demo.recording import load_recording
from traj_integrator_ros.motions.samples import RecordingError, Samples


def assert_same(loaded: Samples, motion: Samples, *, atol: float = 2e-9) -> None:
    """Equal to the bit, except for times, which some files store as nanoseconds."""
    assert loaded.joint_names == motion.joint_names
    np.testing.assert_allclose(loaded.time, motion.time, atol=atol)
    np.testing.assert_array_equal(loaded.position, motion.position)
    np.testing.assert_array_equal(loaded.velocity, motion.velocity)


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
    assert_same(bag, table)
