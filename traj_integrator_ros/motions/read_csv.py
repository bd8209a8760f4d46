"""Reads motions from tables: this project's own columns, or the log of a Universal Robots controller (RTDE)."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .extras import read_text
from .joint_states import Tell, listed, motion_of_states
from .read_exports import states_exported
from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of
from .table_header import SEPARATORS, header_and_rows
from .table_times import (
    is_date,
    nanoseconds_in,
    recording_time,
    seconds,
    stamp_columns,
    unit_by_numbers,
    unit_named,
    with_unknown_unit,
)
from .units import ANGLES, UNITS_OF_THE_FILE, GivenUnits, JointUnits, tell_of_degrees

UR_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "elbow_joint",
    "wrist_1_joint",
    "wrist_2_joint",
    "wrist_3_joint",
)
"""Order of the RTDE columns: base, shoulder, elbow, wrist 1 to 3; names as in ur_description."""
_RTDE = (
    (("target_q_", "target_qd_", "target_qdd_"), "set points of a UR controller (RTDE)", Nature.SET_POINTS),
    (("actual_q_", "actual_qd_"), "measured states of a UR controller (RTDE)", Nature.MEASURED),
)
"""Columns of an RTDE log, in order of preference."""


def read_csv(path: Path, topic: str | None, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE) -> Samples:
    """The motion in a table of `time, position_<joint>…`, also velocity_, acceleration_ and jerk_, or of RTDE columns
    `timestamp, target_q_0…5, target_qd_0…5, target_qdd_0…5`, or actual_q_ and actual_qd_, as it is; or of the joint
    states of a topic. Decimal signs are points or commas; units are those of the header, else `units`, else those that
    the numbers suggest. What is left out or converted is reported. Raises RecordingError.
    """
    table = _Table(path, units, tell)
    if joints := table.suffixes("position_"):
        rows = [table.group(f"{quantity}_", joints) for quantity in QUANTITIES]
        table.tell_left_out([f"{quantity}_" for quantity in QUANTITIES], joints)
        if rows[2] is None:
            return samples_of(path, joints, table.time("time"), rows, "table of joint states", Nature.MEASURED)
        kind = "table of a motion with its accelerations"
        return samples_of(path, joints, table.time("time"), rows, kind, Nature.EXACT)
    for prefixes, kind, nature in _RTDE:
        if joints := sorted(filter(str.isdecimal, table.suffixes(prefixes[0])), key=int):
            names = UR_JOINTS if len(joints) == len(UR_JOINTS) else [f"joint_{i}" for i in joints]
            rows = [table.group(prefix, joints) for prefix in prefixes]
            table.tell_left_out([one for each, *_ in _RTDE for one in each if one not in prefixes], ())
            return samples_of(path, names, table.time("timestamp"), rows, kind, nature)
    if (states := states_exported(path, table, topic, tell, units.time)) is not None:
        return motion_of_states(states, str(path), "table of joint states", tell)
    got = f"{', '.join(table.header[:6])}{', ...' if len(table.header) > 6 else ''}"
    raise RecordingError(
        f"{path}: expected columns time, position_<joint>, velocity_<joint>, or (PlotJuggler) __time, "
        f"/<topic>/<joint>/position, or (RTDE) timestamp, target_q_<i>, target_qd_<i>, or actual_q_<i>, actual_qd_<i>, "
        f"with {', '.join(SEPARATORS.values())} between them, got {got}"
    )


def read_actions(
    path: Path, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None] | None:
    """Joint names, actions [Ha, D] and time steps [Ha] in s of a table of `action_<joint>…`, and `dt` where it is
    there; None if the table has no such columns. What is left out is reported. Raises RecordingError.
    """
    table = _Table(path, units, tell)
    joints = tuple(table.suffixes("action_"))
    if not joints:
        return None
    table.tell_left_out([f"{quantity}_" for quantity in QUANTITIES], ())
    if not table.rows:
        raise RecordingError(f"{path}: expected actions, got none")
    return joints, table.group("action_", joints), table.column("dt") if "dt" in table.header else None


class _Table:
    """Columns of a table by name, as numbers."""

    def __init__(self, path: Path, units: GivenUnits, tell: Tell) -> None:
        # Universal newlines: controller logs that went through a spreadsheet end their lines with a bare CR.
        lines = [line for line in read_text(path).splitlines() if line.strip()]
        if not lines:
            raise RecordingError(f"{path}: the file is empty")
        self._path, self._units, self._tell = path, units, tell
        try:
            found, self.rows = header_and_rows(lines)
        except csv.Error as error:
            raise RecordingError(f"{path}: not a CSV table: {error}") from None
        except RecordingError as error:
            raise RecordingError(f"{path}: {error}") from None
        self.header, self._sizes, self._first = found.names, found.sizes, found.row
        self._count, self._places = Counter(self.header), {name: i for i, name in enumerate(self.header)}
        sized = zip(self.header, self._sizes, strict=True)
        self._converted = [name for name, size in sized if size not in (None, 1.0)]
        if self._converted:
            tell(f"converted to rad (or m), as the header says: {listed(self._converted)}")
        self._is_cut = len(self.rows) > 1 and len(self.rows[-1]) < len(self.header)
        if self._is_cut:
            del self.rows[-1]
        for k, row in enumerate(self.rows):
            if any(row[len(self.header) :]):
                by = f"columns are separated by {SEPARATORS[found.separator]}"
                also = ", so that it cannot be the decimal sign, too" if found.separator == "," else ""
                got = f"{len(row)} in row {k + self._first} ({by}{also})"
                raise RecordingError(f"{path}: expected {len(self.header)} cells, as in the header, got {got}")

    def tell_left_out(self, prefixes: Sequence[str], joints: Sequence[str]) -> None:
        """Tell of a last row that is cut off, and of columns with these prefixes that belong to none of the joints."""
        if self._is_cut:
            self._tell("the last row is cut off, and left out")
        known = {*joints}
        names = [name for prefix in prefixes for name in self.header if name.startswith(prefix)]
        if unused := [name for name in names if name.partition("_")[2] not in known]:
            self._tell(f"columns left out: {listed(unused)}")

    def suffixes(self, prefix: str) -> list[str]:
        """The parts of column names behind the prefix."""
        return [name.removeprefix(prefix) for name in self.header if name.startswith(prefix)]

    def time(self, name: str) -> np.ndarray:
        """[N] times in s, from the column of this name if there is one, else from another. Raises RecordingError."""
        columns = (name,) if name in self.header else stamp_columns(self.header)
        columns = columns or tuple(filter(None, [recording_time(self.header)]))
        if not columns:
            other = with_unknown_unit(self.header)
            problem = f"expected s, ms, us or ns in column {other}" if other else f"column {name} is missing"
            raise RecordingError(f"{self._path}: {problem}")
        try:
            if len(columns) == 1 and not unit_named(columns[0]) and not any(map(is_date, self.texts(columns[0])[:1])):
                values = self.column(columns[0])
                if (self._units.time or unit_by_numbers(values, columns[0])) == "s":
                    return values
            return seconds(nanoseconds_in(columns, self.texts, self._tell, self._units.time))
        except RecordingError as error:
            problem = str(error).removeprefix(f"{self._path}: ")
            raise RecordingError(f"{self._path}: {problem}") from None

    def texts(self, name: str) -> list[str]:
        """[N] cells of a column; empty where rows are too short."""
        i = self._place(name)
        return [row[i] if i < len(row) else "" for row in self.rows]

    def _place(self, name: str) -> int:
        if name not in self._places:
            raise RecordingError(f"{self._path}: column {name} is missing")
        if self._count[name] > 1:
            raise RecordingError(f"{self._path}: expected column {name} once, got it {self._count[name]} times")
        return self._places[name]

    def column(self, name: str, joint: str | None = None) -> np.ndarray:
        """[N] numbers, NaN for an empty cell, those of a joint in rad or m; RecordingError if the column is missing or
        occurs twice, or a cell is no number.
        """
        i, values = self._place(name), np.empty(len(self.rows))
        has_commas = any("," in row[i] for row in self.rows if i < len(row))
        for k, row in enumerate(self.rows):
            try:
                cell = row[i]
                if has_commas:  # one decimal sign for the whole table: the other one may separate thousands
                    cell = cell.replace(".", "x").replace(",", ".")
                values[k] = float(cell or "nan")
            except (ValueError, IndexError):
                got = f"row {k + self._first}, got {repr(row[i]) if i < len(row) else 'nothing'}"
                sign = " with decimal commas" if has_commas else ""
                raise RecordingError(f"{self._path}: expected a number{sign} in column {name}, {got}") from None
        given = None if joint is None else self._units.of_joint(joint)
        if joint is not None and self._sizes[i] is None and self._units.angle is None:
            self._expect_no_choice(name, joint)
        return values * next((size for size in (self._sizes[i], given) if size is not None), 1.0)

    def _expect_no_choice(self, name: str, joint: str) -> None:
        """Raise an error for an angle without a unit in a table where a column has one other than rad."""
        if self._converted and JointUnits().of(joint)[0] == "rad":
            raise RecordingError(
                f"{self._path}: expected a unit of {name}, since {self._converted[0]} has one; "
                f"say which by --angle-unit ({', '.join(ANGLES)})"
            )

    def group(self, prefix: str, joints: Sequence[str]) -> np.ndarray | None:
        """[N, D] values of a quantity's columns; None if all of them are missing. Raises an error if only some are."""
        if not any(prefix + joint in self._places for joint in joints):
            return None
        columns = [self.column(prefix + joint, joint) for joint in joints]
        if prefix == "position_":
            unknown = [k for k, joint in enumerate(joints) if self._sizes[self._place(prefix + joint)] is None]
            tell_of_degrees([joints[k] for k in unknown], [columns[k] for k in unknown], self._units, self._tell)
        return np.stack(columns, axis=1)
