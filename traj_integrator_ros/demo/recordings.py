"""Opens a recording of a robot as the motion that the demo plays."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ..motions.files import read_samples
from ..motions.samples import Nature, RecordingError, Samples
from .cleaning import find_repeated_frames
from .motion import Motion

MEASURED_BOUND = 0.02
SET_POINT_BOUND = 0.005
EXACT_BOUND = 0.003
"""RMS [rad/s] that integrated velocities may differ, at least, from those of measured states, of set points, of exact
motions.
"""
_BOUNDS = {Nature.MEASURED: MEASURED_BOUND, Nature.SET_POINTS: SET_POINT_BOUND, Nature.EXACT: EXACT_BOUND}
MIN_SAMPLES = 16
MIN_DURATION = 0.3


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in `path`, raw: repeated frames are marked, not dropped.

    `topic` names the JointState topic of a bag. Raises RecordingError with one line that says what is wrong: too
    short, nothing that moves, or unreadable.
    """
    return motion_of(read_samples(path, topic))


def motion_of(samples: Samples) -> Motion:
    """The motion of what was read, or a RecordingError: too short, or nothing moves.

    A recording without velocities gets those of its own positions (second-order differences), which its notes say.
    """
    _check_length(samples)
    velocity = samples.velocity
    notes: tuple[str, ...] = ()
    if velocity is None:
        velocity = np.gradient(samples.position, samples.time, axis=0, edge_order=2)
        notes = ("no velocities in the recording: those of its own positions are used, so errors say little",)
    if not np.any(velocity):
        raise RecordingError(f"{samples.source}: nothing moves in it: every velocity is 0")
    return Motion(
        joint_names=samples.joint_names,
        time=samples.time,
        position=samples.position,
        velocity=velocity,
        acceleration=samples.acceleration,
        source=samples.source,
        kind=samples.kind,
        velocity_bound=_BOUNDS[samples.nature],
        repeated=find_repeated_frames(samples.position, velocity),
        notes=notes,
    )


def _check_length(samples: Samples) -> None:
    count = len(samples.time)
    if count < MIN_SAMPLES:
        raise RecordingError(f"{samples.source}: too short: expected at least {MIN_SAMPLES} samples, got {count}")
    if samples.duration < MIN_DURATION:
        raise RecordingError(
            f"{samples.source}: too short: expected at least {MIN_DURATION} s, got {samples.duration:.3f} s"
        )
