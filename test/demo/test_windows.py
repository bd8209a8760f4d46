from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from motions import SINE, sine_motion

from traj_integrator_ros.demo.planned import planned_motion
from traj_integrator_ros.demo.recording import MIN_SAMPLES, load_recording, plan_on, repeated
from traj_integrator_ros.demo.windows import BATCH, cut_window, horizon_of, write_node_parameters
from traj_integrator_ros.kernels import ControlSpace, Trajectory, control_map
from traj_integrator_ros.motions.samples import QUANTITIES, Samples


def integrate(actions: np.ndarray, fields: dict[str, object]) -> Trajectory:
    """Integrate a window by the plain torch reference, in float64."""
    state = [torch.from_numpy(fields[name])[None] for name in QUANTITIES[:3]]
    goal = {name: torch.from_numpy(rows) for name, rows in fields.items() if name in [f"goal_{q}" for q in QUANTITIES]}
    map_ = control_map(fields["control_space"])
    return map_.step(torch.from_numpy(actions), *state, dt=fields["dt"], backend="reference", **goal)


def assert_follows(motion: Samples, first: int, space: ControlSpace, tolerance: float) -> None:
    actions, fields = cut_window(space, motion, first, np.random.default_rng(0))
    found = [rows.numpy() for rows in integrate(actions, fields)[:3]]
    rows = slice(first, first + found[0].shape[1])
    assert found[0].shape[1] - horizon_of(motion) in (0, 1)
    np.testing.assert_allclose(found[0][0], motion.position[rows], atol=tolerance)
    for order, quantity in enumerate(QUANTITIES[:3]):
        expected = getattr(motion, quantity)[first]
        np.testing.assert_allclose(found[order][:, 0], np.tile(expected, (BATCH, 1)), atol=1e-9)
    assert np.ptp(found[0][:, -1], axis=0).min() > 1e-4, "candidates do not differ"


@pytest.mark.parametrize("accelerations", [True, False])
def test_the_shortest_recording_has_room_for_windows(accelerations):
    for recording in (sine_motion(MIN_SAMPLES, 0.02), sine_motion(MIN_SAMPLES, 0.1)):
        motion = plan_on(recording if accelerations else dataclasses.replace(recording, acceleration=None))
        assert len(motion.time) > horizon_of(motion) >= 16
        for space in ControlSpace:
            assert_follows(motion, len(motion.time) - 1 - horizon_of(motion), space, 0.02)


RECORDINGS = [
    ("unisa-panda-exciting/panda_exciting_trajectory.db3", (727, 7, 14)),
    ("generated-ruckig/panda_ruckig_p2p_500hz.csv", (488, 7, 0)),
    (None, (5241, 7, 0)),
]


@pytest.mark.parametrize(("path", "size"), RECORDINGS)
def test_windows_of_recordings_follow_them(shared_data, path, size):
    recording = planned_motion() if path is None else load_recording(shared_data(path))
    assert (len(recording.time), recording.dof, repeated(recording).sum()) == size
    motion = plan_on(recording)
    for space in ControlSpace:
        assert_follows(motion, len(motion.time) // 3, space, 6e-3)


def test_the_nodes_parameters_have_the_robots_limits_or_assume_some(tmp_path: Path):
    def written(recording: Samples) -> dict[str, object]:
        write_node_parameters(recording, plan_on(recording), tmp_path / "new" / "node.yaml")
        return yaml.safe_load((tmp_path / "new" / "node.yaml").read_text())["/**"]["ros__parameters"]

    unknown, panda = written(SINE), written(planned_motion())
    assert unknown["joint_names"] == list(SINE.joint_names) and unknown["dt"] == 0.01
    assert unknown["warmup"] == ["32x32"] and unknown["max_batch"] == 64
    assert unknown["limits.action"] == "warn" and unknown["limits.assumed_velocity"] > np.abs(SINE.velocity).max()
    assert panda["limits.action"] == "retime" and len(panda["limits.velocity"]) == len(panda["limits.jerk"]) == 7
    slow = dataclasses.replace(SINE, time=100 * SINE.time)
    assert written(slow)["state_timeout"] == pytest.approx(6.0), "three of its steps"
