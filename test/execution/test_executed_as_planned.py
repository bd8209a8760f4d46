"""What the controller commands at 1 kHz is what was meant: design document `execution.md`, section 6."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import LARGEST_JERK, bounds, jerk_limited, played
from scipy.interpolate import CubicSpline

from traj_integrator_ros.demo.recordings import load_recording
from traj_integrator_ros.execution.extremes import extremes
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.points import points_of
from traj_integrator_ros.execution.rows import Hold, motion_of_actions, motion_of_positions
from traj_integrator_ros.execution.spline import cubic_spline
from traj_integrator_ros.handling.ending import stopped_at_end

SEEDS = range(6)
LONGEST_STEPS = {0.02: 1.05, 0.05: 1.25, 0.1: 1.25}
"""How much larger than what was meant accelerations may be."""
JERK = {Hold.POSITION: 2.0, Hold.VELOCITY: 2.0, Hold.JERK: 1.5, Hold.ACCELERATION: np.inf}


@pytest.mark.parametrize("dt", LONGEST_STEPS)
@pytest.mark.parametrize("hold", JERK)
def test_jerk_limited_motions_are_commanded_as_meant(hold, dt):
    for seed in SEEDS:
        meant = jerk_limited(seed, dt)
        motion = motion_of_actions(hold, meant.steps, meant.actions(hold), meant.start, rest_tolerance=0.01)
        ends_in_motion = hold is Hold.ACCELERATION or not motion.ends_at_rest
        commanded = played(points_of(motion), meant.start, ends_in_motion=ends_in_motion)
        acceleration, jerk = commanded.peaks
        assert acceleration <= LONGEST_STEPS[dt] * np.abs(meant.states[2]).max()
        assert jerk <= JERK[hold] * LARGEST_JERK
        least, most = extremes(motion)
        assert (commanded.acceleration <= most[2] + 1e-6).all() and (commanded.acceleration >= least[2] - 1e-6).all()


@pytest.mark.parametrize("hold", JERK)
@pytest.mark.parametrize("count", [4, 11, 17])
def test_a_stream_that_stops_while_it_moves_comes_to_rest_within_limits(hold, count):
    for seed in SEEDS:
        meant = jerk_limited(seed, 0.02).cut(count)
        plan = motion_of_actions(hold, meant.steps, meant.actions(hold), meant.start, rest_tolerance=0.01)
        end = plan.end
        motion = stopped_at_end(plan, bounds(7, acceleration=1.05 * 5, jerk=2 * LARGEST_JERK), 0.0)
        commanded = played(points_of(motion), meant.start)
        acceleration, jerk = commanded.peaks
        assert acceleration <= 1.06 * 5
        if hold is not Hold.ACCELERATION:
            assert jerk <= 2.01 * LARGEST_JERK
        assert np.abs(commanded.velocity[-1]).max() <= 0.01
        braking = commanded.time > meant.dt * count
        released = end.velocity + end.acceleration * np.abs(end.acceleration) / (4 * LARGEST_JERK)
        onwards = np.sign(end.velocity) * released > 0.01
        onwards &= np.abs(motion.state_at(plan.duration).velocity - end.velocity) < 1e-6  # the others do not turn
        assert (np.sign(end.velocity) * commanded.velocity[braking] >= -1e-9)[:, onwards].all()


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


def test_noise_is_commanded_no_larger_than_the_spline_makes_it():
    random = np.random.default_rng(0)
    meant = jerk_limited(1, 0.02)
    noisy = meant.states[0] + random.normal(scale=1e-4, size=meant.states[0].shape)
    spline = cubic_spline(meant.steps, noisy, meant.start.velocity)
    start = State(noisy[0], *meant.start[1:])
    motion = motion_of_positions(meant.steps, noisy[1:], start)
    commanded = played(points_of(motion), start, ends_in_motion=True)
    assert commanded.peaks[0] <= 1.001 * np.abs(extremes(spline)[:, 2]).max()
