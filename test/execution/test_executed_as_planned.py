"""Chunks of recordings are commanded as meant; test/benchmarks/test_executed.py has the other requirements."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.interpolate import CubicSpline

from traj_integrator_ros.demo.recordings import load_recording
from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import motion_of_positions

RECORDINGS = [
    "unisa-panda-exciting/panda_exciting_trajectory.derived.csv",
    "rad-ur3e-rtde/L0L1.csv",
    "rad-ur3e-rtde/L1L2.csv",
    "rad-ur3e-rtde/L2L3.csv",
    "generated-ruckig/panda_ruckig_p2p_500hz.csv",
]


@pytest.mark.parametrize("path", RECORDINGS)
def test_recordings_as_position_chunks_accelerate_no_more_than_the_spline_through_them(shared_data, path):
    recording = load_recording(shared_data(path))
    step = float(np.median(np.diff(recording.time)))
    whole = CubicSpline(recording.time, recording.position)
    times = np.arange(int(recording.duration / step)) * step
    rows = whole(times)
    state = State(*(whole(0.0, order) for order in range(3)))
    largest, ratios = np.abs(whole(np.linspace(0, times[-1], 20 * len(times)), 2)).max(), []
    for begin in range(0, min(len(rows), 500) - 17, 8):  # 16 steps each, replaced after 8
        chunk = rows[begin + 1 : begin + 17]
        motion = motion_of_positions(np.full(16, step), chunk, state)
        ratios.append(np.abs(extremes(motion)[:, 2]).max() / largest)
        state = motion.state_at(8 * step)
    assert max(ratios) <= 1.25
