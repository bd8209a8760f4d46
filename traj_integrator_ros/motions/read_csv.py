"""Reads motions and actions from tables with this project's columns, as docs/tools.md lists them."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from .extras import read_text
from .joint_states import Tell, listed
from .samples import QUANTITIES, Nature, RecordingError, Samples, samples_of
from .table_times import date_ns, is_date, is_time, seconds
from .units import ANGLES, UNITS_OF_THE_FILE, GivenUnits, JointUnits, tell_of_degrees, without_unit

_SEPARATORS = ",;\t"
_KINDS = tuple(f"{name}_" for name in (*QUANTITIES, "action"))
"""Beginnings of names of columns that belong to a joint, whose name follows."""


def read_csv(path: Path, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE) -> Samples:
    """The motion in a table of `time, position_<joint>…`, also velocity_, acceleration_ and jerk_, as it is.

    Units are those of the header, else `units`. What is left out or converted is reported. Raises RecordingError.
    """
    table = _Table(path, units, tell)
    joints = table.joints("position_")
    if not joints:
        got = f"{', '.join(table.header[:6])}{', ...' if len(table.header) > 6 else ''}"
        raise RecordingError(f"{path}: expected columns time, position_<joint>, velocity_<joint>, got {got}")
    rows = [table.group(f"{quantity}_", joints) for quantity in QUANTITIES]
    table.tell_left_out([f"{quantity}_" for quantity in QUANTITIES], joints)
    exact = rows[2] is not None
    kind = "table of a motion with its accelerations" if exact else "table of joint states"
    return samples_of(path, joints, table.time(), rows, kind, Nature.EXACT if exact else Nature.MEASURED)


def read_actions(
    path: Path, tell: Tell, units: GivenUnits = UNITS_OF_THE_FILE
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray | None] | None:
    """Joint names, actions [Ha, D] and time steps [Ha] in s of a table of `action_<joint>…`, and `dt` where it is
    there; None if the table has no such columns. What is left out is reported. Raises RecordingError.
    """
    table = _Table(path, units, tell)
    joints = tuple(table.joints("action_"))
    if not joints:
        return None
    table.tell_left_out(_KINDS[: len(QUANTITIES)], ())
    if not table.rows:
        raise RecordingError(f"{path}: expected actions, got none")
    return joints, table.group("action_", joints), table.column("dt") if "dt" in table.header else None


class _Table:
    """Columns of a table by name, as numbers."""

    def __init__(self, path: Path, units: GivenUnits, tell: Tell) -> None:
        lines = [line for line in read_text(path).splitlines() if line.strip()]
        if not lines:
            raise RecordingError(f"{path}: the file is empty")
        self._path, self._units, self._tell = path, units, tell
        separator = max(_SEPARATORS, key=lines[0].count)
        self.header: list[str] = []
        self._sizes: dict[str, float] = {}
        try:
            # Strict: a quotation mark that nothing closes would take the rest of the table for one cell.
            cells = [*csv.reader(lines, delimiter=separator, skipinitialspace=True, strict=True)]
            names, self.rows = _header_and_rows(cells)
            for name in names:
                bare, size = without_unit(name) if name.startswith(_KINDS) else (name, None)
                self.header.append(bare)
                if size is not None:
                    self._sizes[bare] = size
        except csv.Error as error:
            raise RecordingError(f"{path}: not a CSV table: {error}") from None
        except ValueError as error:
            raise RecordingError(f"{path}: {error}") from None
        self._count, self._places = Counter(self.header), {name: i for i, name in enumerate(self.header)}
        if converted := [name for name, size in self._sizes.items() if size != 1.0]:
            tell(f"converted to rad (or m), as the header says: {listed(converted)}")
        self._converted = converted
        self._is_cut = len(self.rows) > 1 and len(self.rows[-1]) < len(self.header)
        if self._is_cut:
            del self.rows[-1]
        for k, row in enumerate(self.rows):
            if any(row[len(self.header) :]):
                got = f"{len(row)} in row {k + 2} (separated by {separator!r})"
                raise RecordingError(f"{path}: expected {len(self.header)} cells, as in the header, got {got}")

    def tell_left_out(self, prefixes: Sequence[str], joints: Sequence[str]) -> None:
        """Tell of a last row that is cut off, and of columns with these prefixes that belong to none of the joints."""
        if self._is_cut:
            self._tell("the last row is cut off, and left out")
        known = {*joints}
        names = [name for prefix in prefixes for name in self.header if name.startswith(prefix)]
        if unused := [name for name in names if name.partition("_")[2] not in known]:
            self._tell(f"columns left out: {listed(unused)}")

    def joints(self, prefix: str) -> list[str]:
        """The parts of column names behind the prefix."""
        return [name.removeprefix(prefix) for name in self.header if name.startswith(prefix)]

    def time(self) -> np.ndarray:
        """[N] times in s. Raises RecordingError."""
        name = next(filter(is_time, self.header), "time")
        place = self._places.get(name)
        if place is not None and self.rows and is_date(self.rows[0][place].strip()):
            return self._dates(name)
        times = self.column(name)
        if not len(times):
            return times
        try:
            # Whole numbers keep all their digits.
            times = np.array([int(row[self._places[name]]) for row in self.rows], np.int64)
        except (ValueError, OverflowError):
            pass
        try:
            return seconds(times, name, self._units.time, self._tell)
        except RecordingError as error:
            raise RecordingError(f"{self._path}: {error}") from None

    def _dates(self, name: str) -> np.ndarray:
        ns = np.empty(len(self.rows), np.int64)
        for k, row in enumerate(self.rows):
            cell = row[self._places[name]].strip()
            try:
                ns[k] = date_ns(cell)
            except ValueError:
                got = f"row {k + 2}, got {cell!r}"
                raise RecordingError(f"{self._path}: expected a date with a time in column {name}, {got}") from None
        return (ns - ns[0]) * 1e-9

    def column(self, name: str, joint: str | None = None) -> np.ndarray:
        """[N] numbers, NaN for an empty cell, those of a joint in rad or m; RecordingError if the column is missing or
        occurs twice, or a cell is no number.
        """
        if name not in self._places:
            raise RecordingError(f"{self._path}: column {name} is missing")
        if self._count[name] > 1:
            raise RecordingError(f"{self._path}: expected column {name} once, got it {self._count[name]} times")
        i, values = self._places[name], np.empty(len(self.rows))
        for k, row in enumerate(self.rows):
            try:
                values[k] = float(row[i].strip() or "nan")
            except (ValueError, IndexError):
                got = f"row {k + 2}, got {repr(row[i]) if i < len(row) else 'nothing'}"
                raise RecordingError(f"{self._path}: expected a number in column {name}, {got}") from None
        return values if joint is None else values * self._size_of(name, joint)

    def _size_of(self, name: str, joint: str) -> float:
        """Return the size of the unit of a joint's column, rad or m: that of the header, or else the given one."""
        given = self._units.of_joint(joint)
        if name not in self._sizes and self._converted and given is None and JointUnits().of(joint)[0] == "rad":
            raise RecordingError(
                f"{self._path}: expected a unit of {name}, since {self._converted[0]} has one; "
                f"say which by --angle-unit ({', '.join(ANGLES)})"
            )
        return self._sizes.get(name, 1.0 if given is None else given)

    def group(self, prefix: str, joints: Sequence[str]) -> np.ndarray | None:
        """[N, D] values of a quantity's columns; None if all of them are missing. Raises an error if only some are."""
        if not any(prefix + joint in self._places for joint in joints):
            return None
        columns = [self.column(prefix + joint, joint) for joint in joints]
        if prefix == "position_":
            unknown = [k for k, joint in enumerate(joints) if prefix + joint not in self._sizes]
            tell_of_degrees([joints[k] for k in unknown], [columns[k] for k in unknown], self._units, self._tell)
        return np.stack(columns, axis=1)


def _header_and_rows(cells: list[list[str]]) -> tuple[list[str], list[list[str]]]:
    """Return the names of columns and the rows below them.

    A header may have two lines, quantities above joints: a quantity counts until the next one, and pandas writes a
    third line with the name of the times alone.
    """
    names, *rows = [[cell.strip() for cell in row] for row in cells]
    is_above = all(name in ("", *QUANTITIES) or is_time(name) for name in names)
    if not is_above or not rows or any(re.fullmatch(r"[-+.\d].*", cell) for cell in rows[0]):
        return names, rows
    joints, *rows = rows
    above, joined = "", []
    for name, joint in zip(names, joints, strict=False):
        above = name or above
        joined.append(f"{above}_{joint}" if above in QUANTITIES else above or joint)
    if rows and [*filter(None, rows[0])] == rows[0][:1] and is_time(rows[0][0]):
        joined[0], rows = rows[0][0], rows[1:]
    return joined, rows
