"""Recordings of a robot: opened as the motion that the demo plays, and written for the tools."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np

from ..motions.extras import MissingLibrary, require
from ..motions.files import read_samples
from ..motions.samples import RecordingError, Samples
from ..tools.command_line import UserError
from ..tools.integration_output import write_bag, write_table
from .cleaning import find_repeated_frames
from .motion import Motion

MIN_SAMPLES = 16
MIN_DURATION = 0.3
TABLE, BAG = "motion.csv", "motion_bag"


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in `path`, raw: repeated frames are marked, not dropped.

    A recording without velocities gets those of its own positions (second-order differences), which its notes say.
    `topic` names the JointState topic of a bag. Raises RecordingError with one line that says what is wrong: too
    short, nothing that moves, or unreadable.
    """
    samples = read_samples(path, topic)
    _check_length(samples)
    velocity = samples.velocity
    notes: tuple[str, ...] = ()
    if velocity is None:
        velocity = np.gradient(samples.position, samples.time, axis=0, edge_order=2)
        notes = ("no velocities in the recording: those of its own positions are used, so errors say little",)
    if not np.any(velocity):
        raise RecordingError(f"{samples.source}: nothing moves in it: every velocity is 0")
    fields = {**vars(samples), "velocity": velocity, "jerk": None}
    return Motion(**fields, repeated=find_repeated_frames(samples.position, velocity), notes=notes)


def _check_length(samples: Samples) -> None:
    count = len(samples.time)
    if count < MIN_SAMPLES:
        raise RecordingError(f"{samples.source}: too short: expected at least {MIN_SAMPLES} samples, got {count}")
    if samples.duration < MIN_DURATION:
        raise RecordingError(
            f"{samples.source}: too short: expected at least {MIN_DURATION} s, got {samples.duration:.3f} s"
        )


def write_motion(motion: Motion, path: Path) -> None:
    """Write a table (.csv) or a bag (no suffix). Raises RecordingError for other suffixes, UserError for an old bag."""
    if path.suffix not in ("", ".csv"):
        raise RecordingError(f"expected .csv, or no suffix for a bag, got {path}")
    if path.suffix == "":
        require("rosbags", "writing bags", extra="demo")
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix:
        write_table(path, motion)
    else:
        write_bag(path, [motion], accelerations=False, states_only=True)


def write_recordings(motion: Motion, folder: Path) -> str:
    """Write both beside the demo's report, in place of those of an earlier run; return what was written."""
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
