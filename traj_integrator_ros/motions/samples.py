"""Samples of a motion as read from a file of any format. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import TypeVar

import numpy as np

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
OfSamples = TypeVar("OfSamples", bound="Samples")


_LONGEST = 1600, 300
"""Largest numbers of characters of a message's begin and end: damage makes names of megabytes."""


class RecordingError(Exception):
    """A recording cannot be used; the message is one line for the user, in which nothing controls a terminal."""

    def __init__(self, message: str) -> None:
        begin, end = _LONGEST
        shown = message if len(message) <= begin + end else f"{message[:begin]} ... {message[-end:]}"
        super().__init__("".join(one if one.isprintable() else ascii(one)[1:-1] for one in shown))


class Nature(Enum):
    """The origin of the numbers, which determines how well quantities agree with each other."""

    MEASURED = "measured"
    SET_POINTS = "set points"
    EXACT = "exact"


@dataclass(frozen=True)
class Samples:
    """N samples of D joints.

    Arrays are float64. `time` is [N] in s, strictly increasing, starting at 0; the others are [N, D] in rad (m for a
    prismatic joint), rad/s, rad/s² and rad/s³, None if the file has none. Numbers are finite and times increase once
    they are `checked`.
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
        """Number of joints D."""
        return len(self.joint_names)

    @property
    def duration(self) -> float:
        """Time from the first to the last sample [s]."""
        return float(self.time[-1])

    def rows(self: OfSamples, index: np.ndarray | slice) -> OfSamples:
        """The motion at some of its samples, its time starting at 0 again."""
        found = {name: getattr(self, name) for name in ("time", *QUANTITIES)}
        chosen = {name: values[index] for name, values in found.items() if values is not None}
        return replace(self, **{**chosen, "time": chosen["time"] - chosen["time"][0]})

    def checked(self) -> Samples:
        """The same samples, checked. Raises RecordingError for double joints, bad numbers and bad times."""
        names, source = self.joint_names, self.source
        twice = next((name for name, count in Counter(names).items() if count > 1), None)
        if twice is not None:
            raise RecordingError(f"{source}: expected every joint once, got {twice} twice")
        for name in ("time", *QUANTITIES):
            values = getattr(self, name)
            if values is not None and not np.all(np.isfinite(values)):
                row, *column = np.argwhere(~np.isfinite(values))[0].tolist()
                of = f" of {names[column[0]]}" if column else ""
                got = f"{values[(row, *column)]:g} as {name}{of} in sample {row}"
                raise RecordingError(f"{source}: expected finite numbers, got {got}")
        time = self.time
        for k in 1 + np.flatnonzero(np.diff(time) <= 0)[:1]:
            got = f"{time[k]:.6f} s after {time[k - 1]:.6f} s in sample {k}"
            raise RecordingError(f"{source}: expected increasing times, got {got}")
        return self


def samples_of(
    path: Path | str,
    joint_names: Sequence[str],
    time: np.ndarray,
    quantities: Sequence[np.ndarray | None],
    kind: str,
    nature: Nature,
) -> Samples:
    """Samples from the first time on; position, and the other quantities if known. Raises RecordingError."""
    if len(time) == 0:
        raise RecordingError(f"{path}: expected samples, got none")
    begin = time[0] if np.isfinite(time[0]) else 0.0
    lacking = [None] * (len(QUANTITIES) - len(quantities))
    return Samples(tuple(joint_names), time - begin, *quantities, *lacking, str(path), kind, nature)
