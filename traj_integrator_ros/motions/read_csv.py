"""Reads motions from CSV tables: this project's own columns, or the log of a Universal Robots controller (RTDE)."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of

UR_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
"""Order of the RTDE columns: base, shoulder, elbow, wrist 1 to 3; names as in ur_description."""
RTDE = ("target_q_", "target_qd_", "target_qdd_")


def read_csv(path: Path) -> Samples:
    """The motion in a table of `time, position_<joint>…`, also velocity_, acceleration_ and jerk_, or of RTDE columns
    `timestamp, target_q_0…5, target_qd_0…5, target_qdd_0…5`, as it is. Times in s. Raises RecordingError.
    """
    table = _Table(path)
    if joints := table.suffixes("position_"):
        rows = [table.group(f"{quantity}_", joints) for quantity in QUANTITIES]
        if rows[2] is None:
            return samples_of(path, joints, table.column("time"), rows, "table of joint states", Nature.MEASURED)
        kind = "table of a motion with its accelerations"
        return samples_of(path, joints, table.column("time"), rows, kind, Nature.EXACT)
    if joints := sorted(filter(str.isdecimal, table.suffixes("target_q_")), key=int):
        names = UR_JOINTS if len(joints) == len(UR_JOINTS) else [f"joint_{i}" for i in joints]
        rows = [table.group(prefix, joints) for prefix in RTDE]
        kind = "set points of a UR controller (RTDE)"
        return samples_of(path, names, table.column("timestamp"), rows, kind, Nature.SET_POINTS)
    raise RecordingError(
        f"{path}: expected columns time, position_<joint>, velocity_<joint> or (RTDE) timestamp, target_q_<i>, "
        f"target_qd_<i>, got {', '.join(table.header[:6])}{', ...' if len(table.header) > 6 else ''}"
    )


def read_actions(path: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None] | None:
    """Joint names, actions [Ha, D] and time steps [Ha] in s of a table of `action_<joint>…`, and `dt` where it is
    there; None if the table has no such columns. Raises RecordingError.
    """
    table = _Table(path)
    joints = tuple(table.suffixes("action_"))
    if not joints:
        return None
    if not table.rows:
        raise RecordingError(f"{path}: expected actions, got none")
    return joints, table.group("action_", joints), table.column("dt") if "dt" in table.header else None


class _Table:
    """Columns of a CSV by name, as numbers."""

    def __init__(self, path: Path) -> None:
        try:
            # Universal newlines: controller logs that went through a spreadsheet end their lines with a bare CR.
            with path.open(encoding="utf-8-sig", newline=None) as file:
                rows = [row for row in csv.reader(file) if row]
        except (UnicodeDecodeError, csv.Error) as error:
            raise RecordingError(f"{path}: not a CSV table: {error}") from None
        except OSError as error:
            raise RecordingError(f"{path}: {error.strerror}") from None
        if not rows:
            raise RecordingError(f"{path}: the file is empty")
        self._path, self.header, self.rows = path, [name.strip() for name in rows[0]], rows[1:]

    def suffixes(self, prefix: str) -> list[str]:
        """What follows the prefix in names of columns."""
        return [name.removeprefix(prefix) for name in self.header if name.startswith(prefix)]

    def column(self, name: str) -> np.ndarray:
        """[N] numbers; RecordingError if the column is missing or occurs twice, or a cell is not a number."""
        if name not in self.header:
            raise RecordingError(f"{self._path}: column {name} is missing")
        if self.header.count(name) > 1:
            raise RecordingError(f"{self._path}: expected column {name} once, got it {self.header.count(name)} times")
        i, values = self.header.index(name), np.empty(len(self.rows))
        for k, row in enumerate(self.rows):
            try:
                values[k] = float(row[i])
            except (ValueError, IndexError):
                got = f"row {k + 2}, got {repr(row[i]) if i < len(row) else 'nothing'}"
                raise RecordingError(f"{self._path}: expected a number in column {name}, {got}") from None
        return values

    def group(self, prefix: str, joints: Sequence[str]) -> np.ndarray | None:
        """[N, D] of the columns of a quantity; None if all of them are missing; an error if only some are."""
        if not any(prefix + joint in self.header for joint in joints):
            return None
        return np.stack([self.column(prefix + joint) for joint in joints], axis=1)
