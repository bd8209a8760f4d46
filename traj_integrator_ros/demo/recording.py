"""The demo's motion: a recording, and a plan along it without repeated frames and noise. Knows no ROS."""

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
"""Velocities up to this, rad/s, count as standing still, so that equal frames are no contradiction."""
FASTEST = 30.0
"""rad/s, faster than any robot's joint turns: twice the fastest speed of small arms."""
MIN_SAMPLES, MIN_DURATION = 16, 0.3
STEP, LEAST_STEPS = 0.01, 32
"""Time step of a plan, s; a short motion gets a smaller one."""
DEGREE, KNOTS_S, ROWS_A_KNOT = 5, 0.2, 5
"""Spline near measured positions: its degree, and the least time, s, and number of samples between its knots."""
TABLE, BAG = "motion.csv", "motion.mcap"


def load_recording(path: Path, topic: str | None = None) -> Samples:
    """The motion in a file, or of a topic of a bag, with velocities, without jerk, and with repeated frames.

    Velocities that it lacks are those of its positions, and angles that pass pi go on, which notes tell. Raises
    RecordingError where it is too short, nothing moves, or it cannot be read.
    """
    samples = read_samples(path, topic, note)
    time, position, velocity = samples.time, samples.position, samples.velocity
    if len(time) < MIN_SAMPLES or samples.duration < MIN_DURATION:
        least = f"expected at least {MIN_SAMPLES} samples and {MIN_DURATION} s"
        raise RecordingError(f"{path}: too short: {least}, got {len(time)} and {samples.duration:.3f} s")
    steps = np.diff(position, axis=0)
    jumps = (np.abs(steps) > np.pi) & (np.abs(steps) > FASTEST * np.diff(time)[:, None])  # no joint moves so fast
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
    """Flags of samples, bool `[N]`, that exactly repeat the previous position and velocity although a joint moves."""
    states = np.hstack([motion.position, motion.velocity])
    moving = np.any(np.abs(motion.velocity[1:]) > AT_REST, axis=1)
    return np.append(False, np.all(states[1:] == states[:-1], axis=1) & moving)


def mean_step(motion: Samples) -> float:
    """Mean step of a motion, s."""
    return motion.duration / (len(motion.time) - 1)


def cut(motion: Samples, seconds: float) -> Samples:
    """The first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    note(f"cut to its first {seconds:.1f} s of {motion.duration:.1f} s")
    return motion.rows(motion.time <= seconds)


def plan_on(recording: Samples) -> Samples:
    """The plan to send: the motion at equal steps, with accelerations; a smooth spline gives those of measured motions.

    Noise over the square of a step is an acceleration, which no robot makes.
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
