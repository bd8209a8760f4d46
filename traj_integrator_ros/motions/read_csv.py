"""Reads motions from CSV tables: this project's own columns, or the log of a Universal Robots controller (RTDE)."""

from __future__ import annotations

import csv
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .samples import Nature, RecordingError, Samples, checked_samples

UR_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
"""Order of the RTDE columns: base, shoulder, elbow, wrist 1 to 3; names as in ur_description."""


def read_csv(path: Path, *, as_is: bool = False) -> Samples:
    """The motion in a table of `time, position_<joint>…`, also velocity_, acceleration_ and jerk_, or of RTDE columns
    `timestamp, target_q_0…5, target_qd_0…5, target_qdd_0…5`. Times in s. Raises RecordingError; with `as_is` not for
    numbers that are not finite, nor for times that do not increase.
    """
    header, rows = _read_rows(path)
    own = [name[len("position_") :] for name in header if name.startswith("position_")]
    if own:
        return _read_own_columns(path, header, rows, own, as_is)
    joints = sorted(
        {int(found.group(1)) for found in (re.fullmatch(r"target_q_(\d+)", name) for name in header) if found}
    )
    if joints:
        return _read_rtde(path, header, rows, joints, as_is)
    raise RecordingError(
        f"{path}: expected columns time, position_<joint>, velocity_<joint> or (RTDE) timestamp, target_q_<i>, "
        "target_qd_<i>, "
        f"got {', '.join(header[:6])}{', ...' if len(header) > 6 else ''}"
    )


def read_actions(path: Path) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None] | None:
    """Joint names, actions [Ha, D] and time steps [Ha] in s of a table of `action_<joint>…`, and `dt` where it is
    there; None if the table has no such columns. Raises RecordingError.
    """
    header, rows = _read_rows(path)
    joints = tuple(name[len("action_") :] for name in header if name.startswith("action_"))
    if not joints:
        return None
    if not rows:
        raise RecordingError(f"{path}: expected actions, got none")
    table = _Table(path, header, rows)
    return (
        joints,
        table.required([f"action_{joint}" for joint in joints]),
        table.column("dt") if "dt" in header else None,
    )


def _read_own_columns(
    path: Path, header: list[str], rows: list[list[str]], joints: Sequence[str], as_is: bool
) -> Samples:
    table = _Table(path, header, rows)
    acceleration = table.group([f"acceleration_{joint}" for joint in joints])
    return checked_samples(
        path,
        joints,
        table.column("time"),
        table.required([f"position_{joint}" for joint in joints]),
        table.group([f"velocity_{joint}" for joint in joints]),
        acceleration,
        table.group([f"jerk_{joint}" for joint in joints]),
        kind="table of joint states" if acceleration is None else "table of a motion with its accelerations",
        nature=Nature.MEASURED if acceleration is None else Nature.EXACT,
        as_is=as_is,
    )


def _read_rtde(path: Path, header: list[str], rows: list[list[str]], joints: Sequence[int], as_is: bool) -> Samples:
    table = _Table(path, header, rows)
    names = UR_JOINTS if len(joints) == len(UR_JOINTS) else [f"joint_{i}" for i in joints]
    return checked_samples(
        path,
        names,
        table.column("timestamp"),
        table.required([f"target_q_{i}" for i in joints]),
        table.required([f"target_qd_{i}" for i in joints]),
        table.group([f"target_qdd_{i}" for i in joints]),
        kind="set points of a UR controller (RTDE)",
        nature=Nature.SET_POINTS,
        as_is=as_is,
    )


def _read_rows(path: Path) -> tuple[list[str], list[list[str]]]:
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
    return [name.strip() for name in rows[0]], rows[1:]


class _Table:
    """Columns of a CSV by name, as numbers."""

    def __init__(self, path: Path, header: list[str], rows: list[list[str]]) -> None:
        self._path, self._header, self._rows = path, header, rows
        self._index: dict[str, int] = {name: i for i, name in enumerate(header)}

    def column(self, name: str) -> np.ndarray:
        """[N] numbers; RecordingError if the column is missing or occurs twice, or a cell is not a number."""
        if name not in self._index:
            raise RecordingError(f"{self._path}: column {name} is missing")
        if self._header.count(name) > 1:
            raise RecordingError(f"{self._path}: expected column {name} once, got it {self._header.count(name)} times")
        i = self._index[name]
        values = np.empty(len(self._rows))
        for k, row in enumerate(self._rows):
            try:
                values[k] = float(row[i])
            except (ValueError, IndexError):
                got = repr(row[i]) if i < len(row) else "nothing"
                raise RecordingError(
                    f"{self._path}: expected a number in column {name}, row {k + 2}, got {got}"
                ) from None
        return values

    def required(self, names: Sequence[str]) -> np.ndarray:
        """[N, D] of the named columns."""
        return np.stack([self.column(name) for name in names], axis=1)

    def group(self, names: Sequence[str]) -> np.ndarray | None:
        """[N, D] of the named columns; None if all of them are missing; an error if only some are."""
        return self.required(names) if any(name in self._index for name in names) else None
