"""The demo's motion: a recording, and a plan along it without its repeated frames and noise. Knows no ROS."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy.interpolate import BPoly, make_lsq_spline

from ..motions.files import read_samples
from ..motions.samples import QUANTITIES, RecordingError, Samples
from ..motions.writing import write_bag, write_table
from ..tools.command_line import note

AT_REST = 1e-3
"""Largest velocity, rad/s, that counts as standing still, so that equal frames do not contradict it."""
FASTEST = 30.0
"""Speed, rad/s, that no joint of a robot reaches: twice the fastest speed of small arms."""
MIN_SAMPLES = 16
"""Smallest number of samples of a recording."""
MIN_DURATION = 0.3
"""Shortest duration of a recording, s."""
STEP = 0.01
"""Time step of a plan, s; a short motion gets a smaller one."""
LEAST_STEPS = 32
"""Smallest number of steps of a plan."""
DEGREE = 5
"""Degree of the spline near measured positions."""
KNOTS_S = 0.2
"""Shortest time between two knots of that spline, s."""
ROWS_A_KNOT = 5
"""Smallest number of samples between two knots of that spline."""
TABLE = "motion.csv"
BAG = "motion.mcap"


def load_recording(path: Path, topic: str | None = None) -> Samples:
    """Read the motion in a file, or of a topic of a bag, with velocities, without jerk, and with repeated frames.

    Missing velocities are derived from positions, and angles are unwrapped, which notes report. Raises RecordingError
    if the motion is too short, does not move, or cannot be read.
    """
    samples = read_samples(path, topic, note)
    time, position, velocity = samples.time, samples.position, samples.velocity
    if len(time) < MIN_SAMPLES or samples.duration < MIN_DURATION:
        least = f"expected at least {MIN_SAMPLES} samples and {MIN_DURATION} s"
        raise RecordingError(f"{path}: too short: {least}, got {len(time)} and {samples.duration:.3f} s")
    steps = np.diff(position, axis=0)
    jumps = (np.abs(steps) > np.pi) & (np.abs(steps) > FASTEST * np.diff(time)[:, None])  # No joint moves so fast.
    if turned := [name for name, of_joint in zip(samples.joint_names, jumps.T, strict=True) if of_joint.any()]:
        note(f"{', '.join(turned)}: turned on where angles pass pi")
        turns = np.where(jumps, np.rint(steps / (2 * np.pi)), 0.0).cumsum(axis=0)
        position = position - 2 * np.pi * np.vstack([0 * turns[:1], turns])
    if velocity is None:
        note("no velocities in the recording: those of its own positions are used")
        velocity = np.gradient(position, time, axis=0, edge_order=2)
    if not np.any(velocity):
        raise RecordingError(f"{path}: nothing moves in it: every velocity is 0")
    return replace(samples, position=position, velocity=velocity, jerk=None)


def repeated(motion: Samples) -> np.ndarray:
    """Return which samples, bool `[N]`, repeat the previous position and velocity exactly although a joint moves."""
    states = np.hstack([motion.position, motion.velocity])
    moving = np.any(np.abs(motion.velocity[1:]) > AT_REST, axis=1)
    return np.append(False, np.all(states[1:] == states[:-1], axis=1) & moving)


def mean_step(motion: Samples) -> float:
    """Return the mean step of a motion, s."""
    return motion.duration / (len(motion.time) - 1)


def cut(motion: Samples, seconds: float) -> Samples:
    """Return the first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    note(f"cut to its first {seconds:.1f} s of {motion.duration:.1f} s")
    return motion.rows(motion.time <= seconds)


def plan_on(recording: Samples) -> Samples:
    """Return the plan to send: the motion at equal steps, with accelerations, which come from a smooth spline if
    measured.

    Differences would turn noise, divided by the square of a step, into accelerations that no robot makes.
    """
    motion = recording.rows(~(again := repeated(recording)))
    if again.any():
        note(f"planned without {again.sum()} repeated frames")
    time, step = motion.time, min(STEP, motion.duration / LEAST_STEPS)
    if motion.acceleration is not None:
        states = motion.position, motion.velocity, motion.acceleration
        spline = BPoly.from_derivatives(time, np.stack(states, axis=1))
    else:
        pieces = max(1, int(motion.duration / max(KNOTS_S, ROWS_A_KNOT * mean_step(motion))))
        inside = time[np.linspace(0, len(time) - 1, pieces + 1).astype(int)]
        knots = np.concatenate([[0.0] * DEGREE, inside, [time[-1]] * DEGREE])
        spline = make_lsq_spline(time, motion.position, knots, DEGREE)
        moved = 1e3 * np.abs(spline(time) - motion.position).max()
        note(f"planned on a spline near the motion, at most {moved:.1f} mrad away")
    grid = np.arange(int(motion.duration / step + 1e-9) + 1) * step
    planned = {name: spline.derivative(order)(grid) for order, name in enumerate(QUANTITIES[:3])}
    return replace(motion, time=grid, **planned)


def write_recordings(motion: Samples, folder: Path) -> str:
    """Write a table, and a bag if rosbags is installed; returns the paths."""
    write_table(folder / TABLE, motion)
    if importlib.util.find_spec("rosbags") is None:
        return TABLE
    write_bag(folder / BAG, [motion], accelerations=False, states_only=True)
    return f"{TABLE}, {BAG}"
