"""The demo's motion: read from a recording, and planned on it without repeated frames and noise. Knows no ROS."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.interpolate import BPoly, make_lsq_spline

from ..motions.files import read_samples
from ..motions.samples import QUANTITIES, RecordingError, Samples
from ..motions.writing import write_bag, write_table

AT_REST = 1e-3
"""Velocities up to this, rad/s, count as standing still, so that equal frames are no contradiction."""
FASTEST = 30.0
"""rad/s, which no joint of a robot turns with: twice what the fastest small arms do."""
MIN_SAMPLES, MIN_DURATION = 16, 0.3
STEP, LEAST_STEPS = 0.01, 32
"""Step of what is planned, s, unless that gives too few."""
DEGREE, KNOTS_S, ROWS_A_KNOT = 5, 0.2, 5
"""Spline near measured positions: its degree, and the least time, s, and number of samples between its knots."""
TABLE, BAG = "motion.csv", "motion.mcap"


@dataclass(frozen=True)
class Motion(Samples):
    """Samples with velocities, without jerk, and notes about them for the user."""

    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """N."""
        return len(self.time)

    @property
    def size(self) -> str:
        """Duration, joints and samples in words."""
        return f"{self.duration:.1f} s, {self.dof} joints, {self.samples} samples"

    @property
    def step(self) -> float:
        """Mean step, s."""
        return self.duration / (self.samples - 1)

    @property
    def repeated(self) -> np.ndarray:
        """Samples that repeat position and velocity of the one before exactly although a joint moves, bool `[N]`."""
        states = np.hstack([self.position, self.velocity])
        moving = np.any(np.abs(self.velocity[1:]) > AT_REST, axis=1)
        return np.append(False, np.all(states[1:] == states[:-1], axis=1) & moving)

    def with_note(self, note: str) -> Motion:
        """The motion with one more note."""
        return replace(self, notes=(*self.notes, note))


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in a file, or of a topic of a bag, with repeated frames.

    Velocities that it lacks are those of its positions, and angles that pass pi go on, as its notes say. Raises
    RecordingError where it is too short, nothing moves, or it cannot be read.
    """
    notes: list[str] = []
    samples = read_samples(path, topic, notes.append)
    time, position, velocity = samples.time, samples.position, samples.velocity
    if len(time) < MIN_SAMPLES or samples.duration < MIN_DURATION:
        least = f"expected at least {MIN_SAMPLES} samples and {MIN_DURATION} s"
        raise RecordingError(f"{path}: too short: {least}, got {len(time)} and {samples.duration:.3f} s")
    steps = np.diff(position, axis=0)
    jumps = (np.abs(steps) > np.pi) & (np.abs(steps) > FASTEST * np.diff(time)[:, None])  # the motion of no joint
    if turned := [name for name, of_joint in zip(samples.joint_names, jumps.T, strict=True) if of_joint.any()]:
        notes.append(f"{', '.join(turned)}: turned on where angles pass pi")
        turns = np.where(jumps, np.rint(steps / (2 * np.pi)), 0.0).cumsum(axis=0)
        position = position - 2 * np.pi * np.vstack([0 * turns[:1], turns])
    if velocity is None:
        velocity = np.gradient(position, time, axis=0, edge_order=2)
        notes.append("no velocities in the recording: those of its own positions are used")
    if not np.any(velocity):
        raise RecordingError(f"{path}: nothing moves in it: every velocity is 0")
    return Motion(**{**vars(samples), "position": position, "velocity": velocity, "jerk": None}, notes=tuple(notes))


def cut(motion: Motion, seconds: float) -> Motion:
    """The first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    short = motion.rows(slice(0, int(np.searchsorted(motion.time, seconds, side="right"))))
    return short.with_note(f"cut to its first {short.duration:.1f} s of {motion.duration:.1f} s")


def plan_on(recording: Motion) -> Motion:
    """The plan to send: the motion at equal steps, with accelerations; measured ones are those of a smooth spline.

    Noise over the square of a step is an acceleration, which no robot makes.
    """
    motion = recording
    if repeated := int(recording.repeated.sum()):
        motion = recording.rows(~recording.repeated).with_note(f"{repeated} repeated frames dropped")
    time, step = motion.time, min(STEP, motion.duration / LEAST_STEPS)
    if motion.acceleration is not None:
        states = motion.position, motion.velocity, motion.acceleration
        spline = BPoly.from_derivatives(time, np.stack(states, axis=1))
    else:
        pieces = max(1, int(motion.duration / max(KNOTS_S, ROWS_A_KNOT * motion.step)))
        inside = time[np.linspace(0, motion.samples - 1, pieces + 1).astype(int)]
        knots = np.concatenate([[0.0] * DEGREE, inside, [time[-1]] * DEGREE])
        spline = make_lsq_spline(time, motion.position, knots, DEGREE)
        moved = 1e3 * np.abs(spline(time) - motion.position).max()
        motion = motion.with_note(f"planned on a spline near the motion, at most {moved:.1f} mrad away")
    grid = np.arange(int(motion.duration / step + 1e-9) + 1) * step
    planned = {name: spline.derivative(order)(grid) for order, name in enumerate(QUANTITIES[:3])}
    return replace(motion, time=grid, **planned)


def write_recordings(motion: Motion, folder: Path) -> str:
    """Write a table, and a bag where rosbags is installed; return what was written."""
    write_table(folder / TABLE, motion)
    if importlib.util.find_spec("rosbags") is None:
        return TABLE
    write_bag(folder / BAG, [motion], accelerations=False, states_only=True)
    return f"{TABLE}, {BAG}"
