"""A recorded or planned joint motion, as the demo reads, plays and writes it. Knows no ROS."""

from __future__ import annotations

import dataclasses
import shutil
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ..motions.extras import MissingLibrary, require
from ..motions.files import read_samples
from ..motions.samples import RecordingError, Samples
from ..motions.writing import BAGS, write_bag, write_table
from ..tools.command_line import UserError

AT_REST = 1e-3
"""Velocities up to this [rad/s] count as standing still, so that equal frames are no contradiction."""
FASTEST = 30.0
"""rad/s, which no joint of a robot turns with: twice what the fastest small arms do."""
MIN_SAMPLES = 16
MIN_DURATION = 0.3
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
    def repeated(self) -> np.ndarray:
        """[N] bool: samples that repeat position and velocity of the one before exactly although a joint moves."""
        position, velocity = self.position, self.velocity
        same = np.all(position[1:] == position[:-1], axis=1) & np.all(velocity[1:] == velocity[:-1], axis=1)
        moving = np.any(np.abs(velocity[1:]) > AT_REST, axis=1)
        return np.concatenate([[False], same & moving])

    @property
    def step(self) -> float:
        """Mean step [s]."""
        return self.duration / (self.samples - 1)

    def with_note(self, note: str, **changes: object) -> Motion:
        """The motion with some fields changed and one more sentence about it for the report."""
        return dataclasses.replace(self, notes=(*self.notes, note), **changes)  # type: ignore[arg-type]


def cut(motion: Motion, seconds: float) -> Motion:
    """The first `seconds` of the motion, or the motion itself if it is not longer."""
    if motion.duration <= seconds:
        return motion
    stop = int(np.searchsorted(motion.time, seconds, side="right"))
    short = motion.rows(slice(0, stop))
    return short.with_note(f"cut to its first {short.duration:.1f} s of {motion.duration:.1f} s")


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in `path`, or of a `topic` of a bag, with repeated frames.

    Velocities that it lacks are those of its positions, and angles that pass pi go on, which its notes say. Raises
    RecordingError where it is too short, nothing moves, or it cannot be read.
    """
    notes: list[str] = []
    samples = _turned_on(read_samples(path, topic, notes.append), notes)
    least, count = f"{samples.source}: too short: expected at least", len(samples.time)
    if count < MIN_SAMPLES:
        raise RecordingError(f"{least} {MIN_SAMPLES} samples, got {count}")
    if samples.duration < MIN_DURATION:
        raise RecordingError(f"{least} {MIN_DURATION} s, got {samples.duration:.3f} s")
    velocity = samples.velocity
    if velocity is None:
        velocity = np.gradient(samples.position, samples.time, axis=0, edge_order=2)
        notes.append("no velocities in the recording: those of its own positions are used")
    if not np.any(velocity):
        raise RecordingError(f"{samples.source}: nothing moves in it: every velocity is 0")
    return Motion(**{**vars(samples), "velocity": velocity, "jerk": None}, notes=tuple(notes))


def _turned_on(samples: Samples, notes: list[str]) -> Samples:
    """The samples with angles that go on where they jump by whole turns, which is the motion of no joint."""
    steps = np.diff(samples.position, axis=0)
    jumps = (np.abs(steps) > np.pi) & (np.abs(steps) > FASTEST * np.diff(samples.time)[:, None])
    turns = np.where(jumps, -2 * np.pi * np.rint(steps / (2 * np.pi)), 0.0).cumsum(axis=0)
    passed = [name for name, turned in zip(samples.joint_names, turns.any(axis=0), strict=True) if turned]
    if not passed:
        return samples
    notes.append(f"{', '.join(passed)}: turned on where angles pass pi")
    position = samples.position + np.concatenate([np.zeros((1, samples.dof)), turns])
    return dataclasses.replace(samples, position=position)


def write_motion(motion: Motion, path: Path) -> None:
    """Write a table (.csv) or a bag (.db3, .mcap, a folder). Raises RecordingError; UserError for an old folder."""
    if path.suffix not in ("", ".csv", *BAGS):
        raise RecordingError(f"expected .csv, .db3, .mcap, or no suffix for a bag, got {path}")
    if path.suffix != ".csv":
        require("rosbags", "writing bags", extra="demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        write_table(path, motion)
    else:
        write_bag(path, [motion], accelerations=False, states_only=True)


def write_recordings(motion: Motion, folder: Path) -> str:
    """Write both beside the demo's report, in place of an earlier run's; return the files written."""
    write_motion(motion, folder / TABLE)
    bag = folder / BAG
    ours = {"metadata.yaml", f"{BAG}.db3"}
    if bag.is_dir() and {path.name for path in bag.iterdir()} <= ours:
        shutil.rmtree(bag)
    try:
        write_motion(motion, bag)
    except (MissingLibrary, UserError) as error:
        return f"{TABLE} (no {BAG}: {str(error).removeprefix('--out: ')})"
    return f"{TABLE}, {BAG}"
