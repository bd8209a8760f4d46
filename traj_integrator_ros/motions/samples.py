"""Samples of a motion as read from a file of any format. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

import numpy as np

QUANTITIES = ("position", "velocity", "acceleration", "jerk")


class RecordingError(Exception):
    """A recording cannot be used; the message is one line for the user."""


class Nature(Enum):
    """The origin of the numbers, which determines how well they agree with each other."""

    MEASURED = "measured"
    SET_POINTS = "set points"
    EXACT = "exact"


@dataclass(frozen=True)
class Samples:
    """N samples of D joints.

    Arrays are float64. `time` is [N] in s, strictly increasing, starting at 0; the others are [N, D] in rad (m for a
    prismatic joint), rad/s, rad/s² and rad/s³, None if the file has none. Numbers are finite and times increase,
    except in samples that were read to be checked (`as_is`).
    """

    joint_names: tuple[str, ...]
    time: np.ndarray
    position: np.ndarray
    velocity: np.ndarray | None
    acceleration: np.ndarray | None
    jerk: np.ndarray | None
    source: str
    kind: str
    nature: Nature

    @property
    def dof(self) -> int:
        """D."""
        return len(self.joint_names)

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1])


def checked_samples(
    path: Path,
    joint_names: Sequence[str],
    time: np.ndarray,
    position: np.ndarray,
    velocity: np.ndarray | None = None,
    acceleration: np.ndarray | None = None,
    jerk: np.ndarray | None = None,
    *,
    kind: str,
    nature: Nature,
    as_is: bool = False,
) -> Samples:
    """The samples that a reader found; RecordingError for none, a joint twice, and numbers or times that are no motion.

    With `as_is` only that there are any is checked, and times begin at 0 where the first one is a number.
    """
    if len(time) == 0:
        raise RecordingError(f"{path}: expected samples, got none")
    if not as_is:
        twice = next((name for name in joint_names if list(joint_names).count(name) > 1), None)
        if twice is not None:
            raise RecordingError(f"{path}: expected every joint once, got {twice} twice")
        _check_numbers(path, (time, position, velocity, acceleration, jerk), joint_names)
    begin = time[0] if np.isfinite(time[0]) else 0.0
    names = tuple(joint_names)
    return Samples(names, time - begin, position, velocity, acceleration, jerk, str(path), kind, nature)


def _check_numbers(path: Path, arrays: Sequence[np.ndarray | None], joint_names: Sequence[str]) -> None:
    for name, values in zip(("time", *QUANTITIES), arrays, strict=True):
        if values is not None and not np.all(np.isfinite(values)):
            row, *column = np.argwhere(~np.isfinite(values))[0].tolist()
            of = f" of {joint_names[column[0]]}" if column else ""
            got = f"{values[(row, *column)]:g} as {name}{of} in sample {row}"
            raise RecordingError(f"{path}: expected finite numbers, got {got}")
    time = arrays[0]
    backwards = np.flatnonzero(np.diff(time) <= 0)
    if backwards.size:
        k = int(backwards[0]) + 1
        raise RecordingError(
            f"{path}: expected increasing times, got {time[k]:.6f} s after {time[k - 1]:.6f} s in sample {k}"
        )
