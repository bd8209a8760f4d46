"""The header of a table: its separator, lines before it, units in it or below it, and headers of two lines."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from dataclasses import dataclass

from .read_exports import is_export
from .samples import RecordingError
from .table_times import is_date, is_time, time_unit
from .units import size_of_unit, without_unit

SEPARATORS = {",": "comma", ";": "semicolon", "\t": "tab", " ": "space"}
_QUANTITY = "position|velocity|acceleration|jerk|action|target_qd{0,2}|actual_qd?"
_KNOWN = re.compile(rf"dt|({_QUANTITY})_[^;\t]+")
"""Names of columns by which the separator of a header is found."""
_LEVEL = re.compile(rf"{_QUANTITY}|", re.IGNORECASE)
"""Cells of the first of two header lines; the second one has the joints."""
_LINES_BEFORE = 20
"""Lines, at most, that may stand before the header: titles, comments."""


@dataclass(frozen=True)
class Header:
    """Names of columns without their units, and the sizes of these in rad or m; None where a name has none."""

    separator: str
    names: list[str]
    sizes: list[float | None]
    row: int
    """Number of the first row below, as a text editor counts it without empty lines."""


def header_and_rows(lines: list[str]) -> tuple[Header, list[list[str]]]:
    """The header of a table's lines, and the cells below it.

    Raises csv.Error, and RecordingError for a unit in brackets that is none.
    """
    first, separator = _place_of_header(lines)
    names, *rows = _cells([lines[first].lstrip("# "), *lines[first + 1 :]], separator)
    row = first + 2
    below = _texts_below(names, rows)
    if below and not _are_units(names, below) and all(_LEVEL.fullmatch(name) or is_time(name) for name in names):
        names = _joined(names, below)
        rows, row = rows[1:], row + 1
        if rows and sum(map(bool, rows[0])) == 1 and is_time(rows[0][0]):  # as pandas writes the index's name
            names[0], rows, row = rows[0][0], rows[1:], row + 1
        below = _texts_below(names, rows)
    if below and _are_units(names, below):
        names = [f"{name} [{cell.strip('[]() ')}]" if cell else name for name, cell in zip(names, below, strict=False)]
        rows, row = rows[1:], row + 1
    parted = [(name, "", None) if is_time(name) or is_export(name) else without_unit(name) for name in names]
    for name, (bare, unit, size) in zip(names, parted, strict=True):
        if unit and size is None and _KNOWN.fullmatch(bare):
            raise RecordingError(f"expected a unit such as deg or rad/s in column {name}, got {unit!r}")
    known = [(bare, size) if _KNOWN.fullmatch(bare) or is_export(bare) else (name, None)
             for name, (bare, _, size) in zip(names, parted, strict=True)]  # fmt: skip
    return Header(separator, [name for name, _ in known], [size for _, size in known], row), rows


def _place_of_header(lines: list[str]) -> tuple[int, str]:
    """The line with most known names among the first ones, the earliest of them, and its separator."""
    best = 0, 0, ","
    for place, line in enumerate(lines[:_LINES_BEFORE]):
        separator = max(SEPARATORS, key=lambda one, line=line: _known_names(line.lstrip("# "), one))
        known = _known_names(line.lstrip("# "), separator)
        if known > best[0] and (place == 0 or known > 1):
            best = known, place, separator
    return best[1:]


def _joined(quantities: list[str], joints: list[str]) -> list[str]:
    """Names of columns from two lines: a quantity, which counts until the next one, and a joint."""
    names, last = [], ""
    for above, below in zip(quantities, joints, strict=False):
        last = above or last
        if is_time(above) or is_time(below) or not last:
            names.append(above if is_time(above) else below)
        else:
            names.append(f"{last.lower()}_{below}")
    return names


def _texts_below(names: list[str], rows: list[list[str]]) -> list[str]:
    """Return the cells of the row below the header if they are texts and not values; none otherwise."""
    if not rows or len(names) < 2 or not any(rows[0]) or any(_is_value(cell) for cell in rows[0]):
        return []
    return rows[0] + [""] * (len(names) - len(rows[0]))


def _are_units(names: list[str], below: list[str]) -> bool:
    return all(_is_unit(name, cell) for name, cell in zip(names, below, strict=False) if cell)


def _is_unit(name: str, cell: str) -> bool:
    text = cell.strip("[]() ")
    return time_unit(text) is not None if is_time(name) else size_of_unit(text) is not None


def _is_value(cell: str) -> bool:
    if is_date(cell):
        return True
    try:
        float(cell.replace(",", "."))
    except ValueError:
        return False
    return True


def _cells(lines: Iterable[str], separator: str) -> list[list[str]]:
    """Rows of cells. Raises csv.Error."""
    stripped = (line.strip() if separator == " " else line for line in lines)
    # Strict: a quotation mark that nothing closes would take the rest of the table for one cell.
    rows = csv.reader(stripped, delimiter=separator, skipinitialspace=True, strict=True)
    return [[cell.strip() for cell in row] for row in rows]


def _known_names(header: str, separator: str) -> int:
    """Number of known column names in a header if this character separates them."""
    try:
        names = _cells([header], separator)
    except csv.Error:
        return 0
    known = ((name, without_unit(name)[0]) for name in (names[0] if names else ()))
    return sum(bool(_KNOWN.fullmatch(name)) or is_time(name) or is_export(bare) for name, bare in known)
