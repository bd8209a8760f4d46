"""Opens a recording of a robot, whatever its format: a rosbag2 file, a CSV table, or a MoveIt RobotTrajectory in
YAML.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .cleaning import find_repeated_frames
from .motion import Motion

MEASURED_BOUND = 0.02
SET_POINT_BOUND = 0.005
EXACT_BOUND = 0.003
"""RMS [rad/s] that integrated velocities may differ, at least, from those of measured states, of set points, of exact
motions.
"""
MIN_SAMPLES = 16
MIN_DURATION = 0.3
BAG_SUFFIXES = (".db3", ".mcap")
TABLE_SUFFIXES = (".csv", ".txt")
YAML_SUFFIXES = (".yaml", ".yml")


class RecordingError(Exception):
    """A recording cannot be used; the message is one line for the user."""


def load_recording(path: Path, topic: str | None = None) -> Motion:
    """The motion in `path`, raw: repeated frames are marked, not dropped.

    `topic` names the JointState topic of a bag. Raises RecordingError with one line that says what is wrong.
    """
    if not path.exists():
        raise RecordingError(f"{path}: no such file or folder")
    if path.is_dir() or path.suffix in BAG_SUFFIXES:
        from .read_bag import read_bag

        return read_bag(path, topic)
    if path.suffix.lower() in TABLE_SUFFIXES:
        from .read_csv import read_csv

        return read_csv(path)
    if path.suffix.lower() in YAML_SUFFIXES:
        from .read_robot_trajectory import read_robot_trajectory

        return read_robot_trajectory(path)
    known = ", ".join((*BAG_SUFFIXES, *TABLE_SUFFIXES, *YAML_SUFFIXES))
    raise RecordingError(f"{path}: expected a rosbag2 folder or a file ending in {known}")


def checked_motion(
    path: Path,
    joint_names: Sequence[str],
    time: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray | None,
    acceleration: np.ndarray | None,
    *,
    kind: str,
    velocity_bound: float,
) -> Motion:
    """The motion of what a reader found, or a RecordingError: too short, not finite, times that do not increase.

    A recording without velocities gets those of its own positions (second-order differences), which its notes say.
    """
    _check_length(path, time)
    for name, values in (
        ("time", time),
        ("position", position),
        ("velocity", velocity),
        ("acceleration", acceleration),
    ):
        if values is not None and not np.all(np.isfinite(values)):
            row = int(np.argwhere(~np.isfinite(values))[0][0])
            raise RecordingError(f"{path}: expected finite numbers, got a {name} that is not, in sample {row}")
    backwards = np.flatnonzero(np.diff(time) <= 0)
    if backwards.size:
        k = int(backwards[0]) + 1
        raise RecordingError(
            f"{path}: expected increasing times, got {time[k]:.6f} s after {time[k - 1]:.6f} s in sample {k}"
        )
    notes: tuple[str, ...] = ()
    if velocity is None:
        velocity = np.gradient(position, time, axis=0)
        notes = ("no velocities in the recording: those of its own positions are used, so errors say little",)
    if not np.any(velocity):
        raise RecordingError(f"{path}: nothing moves in it: every velocity is 0")
    return Motion(
        joint_names=tuple(joint_names),
        time=time - time[0],
        position=position,
        velocity=velocity,
        acceleration=acceleration,
        source=str(path),
        kind=kind,
        velocity_bound=velocity_bound,
        repeated=find_repeated_frames(position, velocity),
        notes=notes,
    )


def _check_length(path: Path, time: np.ndarray) -> None:
    if len(time) < MIN_SAMPLES:
        raise RecordingError(f"{path}: too short: expected at least {MIN_SAMPLES} samples, got {len(time)}")
    if time[-1] - time[0] < MIN_DURATION:
        raise RecordingError(f"{path}: too short: expected at least {MIN_DURATION} s, got {time[-1] - time[0]:.3f} s")
