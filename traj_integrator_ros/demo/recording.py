"""The demo's motion: read from a recording, and planned on it without repeated frames and noise. Knows no ROS."""

from __future__ import annotations

import shutil
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.interpolate import BPoly, BSpline

from ..motions.extras import require
from ..motions.files import read_samples
from ..motions.samples import QUANTITIES, RecordingError, Samples
from ..motions.writing import write_bag, write_table

AT_REST = 1e-3
"""Velocities up to this, rad/s, count as standing still, so that equal frames are no contradiction."""
FASTEST = 30.0
"""rad/s, which no joint of a robot turns with: twice what the fastest small arms do."""
MIN_SAMPLES, MIN_DURATION = 16, 0.3
STEP, LEAST_STEPS = 0.01, 32
"""s, of what is planned; what was measured more slowly keeps its own mean step, unless that gives too few steps."""
DEGREE, KNOTS_S, ROWS_A_KNOT = 5, 0.2, 5
"""Spline near measured positions: its degree, and the least time, s, and number of samples between its knots."""
LARGEST_DISAGREEMENT = 0.25
"""Largest RMS difference of velocities from the slopes of positions, as a share of the velocities' RMS."""
TABLE, BAG = "motion.csv", "motion_bag"


@dataclass(frozen=True)
class Motion(Samples):
    """Samples with velocities, without jerk."""

    notes: tuple[str, ...] = ()

    @property
    def samples(self) -> int:
        """N."""
        return len(self.time)

    @property
    def step(self) -> float:
        """Mean step, s."""
        return self.duration / (self.samples - 1)

    @property
    def repeated(self) -> np.ndarray:
        """Samples that repeat position and velocity of the one before exactly although a joint moves, bool `[N]`."""
        states = np.hstack([self.position, self.velocity])
        moving = np.any(np.abs(self.velocity[1:]) > AT_REST, axis=1)
        return np.concatenate([[False], np.all(states[1:] == states[:-1], axis=1) & moving])

    def with_note(self, note: str, **changes: object) -> Motion:
        """The motion with some fields changed and one more sentence about it for the report."""
        return replace(self, notes=(*self.notes, note), **changes)  # type: ignore[arg-type]


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in a file, or of a topic of a bag, with repeated frames.

    Velocities that it lacks are those of its positions, and angles that pass pi go on, as its notes say. Raises
    RecordingError where it is too short, nothing moves, or it cannot be read.
    """
    notes: list[str] = []
    samples = read_samples(path, topic, notes.append)
    if len(samples.time) < MIN_SAMPLES or samples.duration < MIN_DURATION:
        least = f"expected at least {MIN_SAMPLES} samples and {MIN_DURATION} s"
        raise RecordingError(f"{path}: too short: {least}, got {len(samples.time)} and {samples.duration:.3f} s")
    position, turned = _turned_on(samples)
    if turned:
        notes.append(f"{', '.join(turned)}: turned on where angles pass pi")
    velocity = samples.velocity
    if velocity is None:
        velocity = np.gradient(position, samples.time, axis=0, edge_order=2)
        notes.append("no velocities in the recording: those of its own positions are used")
    if not np.any(velocity):
        raise RecordingError(f"{path}: nothing moves in it: every velocity is 0")
    return Motion(**{**vars(samples), "position": position, "velocity": velocity, "jerk": None}, notes=tuple(notes))


def _turned_on(samples: Samples) -> tuple[np.ndarray, list[str]]:
    """Positions that go on where they jump by whole turns, which is the motion of no joint; and the joints that do."""
    steps = np.diff(samples.position, axis=0)
    jumps = (np.abs(steps) > np.pi) & (np.abs(steps) > FASTEST * np.diff(samples.time)[:, None])
    turns = np.where(jumps, -2 * np.pi * np.rint(steps / (2 * np.pi)), 0.0).cumsum(axis=0)
    turned = [name for name, of_joint in zip(samples.joint_names, turns.T, strict=True) if of_joint.any()]
    return samples.position + np.vstack([np.zeros((1, samples.dof)), turns]), turned


def cut(motion: Motion, seconds: float) -> Motion:
    """The first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    short = motion.rows(slice(0, int(np.searchsorted(motion.time, seconds, side="right"))))
    return short.with_note(f"cut to its first {short.duration:.1f} s of {motion.duration:.1f} s")


def plan_on(recording: Motion) -> Motion:
    """What a planner sends: the motion at equal steps, with accelerations; measured ones are those of a smooth spline.

    Noise over the square of a step is an acceleration, which no robot makes.
    """
    motion, step = clean(recording), STEP
    time, apart, speed = motion.time, velocity_disagreement(motion), float(np.sqrt(np.mean(motion.velocity**2)))
    if motion.acceleration is not None:
        states = motion.position, motion.velocity, motion.acceleration
        spline = BPoly.from_derivatives(time, np.stack(states, axis=1))
    else:
        step = max(STEP, min(motion.step, motion.duration / LEAST_STEPS))
        pieces = max(1, int(motion.duration / max(KNOTS_S, ROWS_A_KNOT * motion.step)))
        inside = np.linspace(0.0, motion.duration, pieces + 1)
        knots = np.concatenate([[0.0] * DEGREE, inside, [motion.duration] * DEGREE])
        basis = BSpline(knots, np.eye(pieces + DEGREE), DEGREE)
        # Velocities weigh as much as the positions they move in one mean step.
        design = np.vstack([basis(time), motion.step * basis.derivative()(time)])
        measured = np.vstack([motion.position, motion.step * motion.velocity])
        spline = BSpline(knots, np.linalg.lstsq(design, measured, rcond=None)[0], DEGREE)
        moved = 1e3 * np.abs(spline(time) - motion.position).max()
        motion = motion.with_note(f"planned on a spline near the motion, at most {moved:.1f} mrad away")
    if apart > LARGEST_DISAGREEMENT * speed:
        told = f"velocities ({speed:.3f} rad/s RMS) are {apart:.3f} rad/s RMS away from the slopes of positions"
        motion = motion.with_note(f"{told}: check units, joint order and stamps")
    grid = np.arange(int(motion.duration / step + 1e-9) + 1) * step
    planned = {name: spline.derivative(order)(grid) for order, name in enumerate(QUANTITIES[:3])}
    return replace(motion, time=grid, **planned)


def clean(recording: Motion) -> Motion:
    """The recording without frames that its driver repeated, which claim that the robot stood still.

    It keeps its stamps, or is evenly timed if its velocities say so: a stream on a faster grid loses nothing there.
    """
    if not recording.repeated.any():
        return recording
    kept = recording.rows(~recording.repeated)
    evenly = replace(kept, time=np.linspace(0.0, kept.duration, kept.samples))
    is_even = velocity_disagreement(evenly) < velocity_disagreement(kept)
    how = "the rest timed evenly, as its velocities say" if is_even else "recorded stamps kept"
    return (evenly if is_even else kept).with_note(f"{recording.repeated.sum()} repeated frames dropped, {how}")


def velocity_disagreement(motion: Motion) -> float:
    """RMS of the slopes between neighbouring positions against the means of their velocities, rad/s."""
    slope = np.diff(motion.position, axis=0) / np.diff(motion.time)[:, None]
    return float(np.sqrt(np.mean((slope - (motion.velocity[1:] + motion.velocity[:-1]) / 2) ** 2)))


def write_recordings(motion: Motion, folder: Path) -> str:
    """Write a table and a bag, in place of those of an earlier run; return what was written."""
    write_table(folder / TABLE, motion)
    bag = folder / BAG
    if bag.is_dir() and {path.name for path in bag.iterdir()} <= {"metadata.yaml", f"{BAG}.db3"}:
        shutil.rmtree(bag)
    try:
        require("rosbags", "writing bags", extra="demo")
        write_bag(bag, [motion], accelerations=False, states_only=True)
    except RecordingError as error:
        return f"{TABLE} (no {BAG}: {str(error).removeprefix('--out: ')})"
    return f"{TABLE}, {BAG}"
