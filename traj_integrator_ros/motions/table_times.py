"""Times in tables, found by the names of columns: in any unit, as dates, or as a stamp in two parts. Knows no ROS."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from decimal import Decimal, InvalidOperation

import numpy as np

from .samples import RecordingError
from .trajectories import SECOND_NS

_UNITS = {"": 0, "s": 9, "sec": 9, "secs": 9, "seconds": 9, "ms": 6, "us": 3, "ns": 0, "nsec": 0, "nanosec": 0,
          "nanoseconds": 0}  # fmt: skip
"""Exponents of ten that convert units to ns."""
_UNIT = "|".join(filter(None, _UNITS))
_TIME = re.compile(rf"(?:__|%)?(?:time|timestamp|stamp|t|datetime)(?:[ _]?[\[(]?({_UNIT})[\])]?)?", re.IGNORECASE)
_STAMP = re.compile(rf"(?:.*[/._])?(?:header[/._])?stamp(?:[/._ ]?[\[(]?({_UNIT})[\])]?)?", re.IGNORECASE)
_SECONDS = re.compile(r"(.*?)(sec|secs|seconds)")
_SIZES = ((1e17, 0, "ns"), (1e14, 3, "us"), (1e11, 6, "ms"), (0.0, 9, "s"))
"""The least number of a time since 1970 in each unit."""
LARGEST_S = _SIZES[-2][0]
"""Numbers below this are s if the column's name gives no unit."""


def is_time(name: str) -> bool:
    """Return whether a column holds times, or a part of them."""
    return any(one.fullmatch(name) for one in (_TIME, _STAMP)) or name in ("sec", "nanosec", "secs", "nsecs")


def recording_time(header: Sequence[str]) -> str | None:
    """The column with the time of each row; None if there is none."""
    return next((name for name in header if _TIME.fullmatch(name)), None)


def stamp_columns(header: Sequence[str], topic: str = "") -> tuple[str, ...]:
    """The column, or the two columns, of a message's stamp, from the topic if possible; empty if there is none."""
    found = [name for name in header if _STAMP.fullmatch(name) or name in ("sec", "secs")]
    found.sort(key=lambda name: not name.startswith(topic))
    for name in found:
        if parts := _SECONDS.fullmatch(name):
            rest = (f"{parts[1]}{one}" for one in ("nanosec", "nsec", "nsecs", "nanoseconds"))
            if other := next((one for one in rest if one in header), None):
                return name, other
    return tuple(name for name in found if "nsec" not in name and "nanosec" not in name)[:1]


def nanoseconds_in(
    columns: Sequence[str], texts: Callable[[str], list[str]], tell: Callable[[str], None]
) -> np.ndarray:
    """The times in a column, or in columns of seconds and nanoseconds, ns as int64; empty cells are 0.

    A unit that the column does not name is that of the numbers' size; one that is not s is told.
    Raises RecordingError with the column and its row.
    """
    if len(columns) == 2:
        seconds, rest = (_scaled(texts(name), name, power) for name, power in zip(columns, (9, 0), strict=True))
        return seconds + rest
    (name,) = columns
    cells = texts(name)
    named = (_TIME.fullmatch(name) or _STAMP.fullmatch(name))[1]
    if named or name.startswith(("%", "field.")):  # rostopic echo -p writes ns
        return _scaled(cells, name, _UNITS[(named or "ns").lower()])
    try:
        largest = max((abs(float(cell)) for cell in cells if cell), default=0.0)
    except ValueError:
        largest = 0.0
    power, unit = next((power, unit) for least, power, unit in _SIZES if largest >= least)
    if unit != "s":
        tell(f"times in {name} are taken as {unit}, as large as they are")
    return _scaled(cells, name, power)


def is_date(cell: str) -> bool:
    """Return whether a cell holds a date with a time of the day."""
    return "-" in cell[4:8] and ":" in cell


def seconds(nanoseconds: np.ndarray) -> np.ndarray:
    """Times from the first one on, s."""
    return (nanoseconds - nanoseconds[:1]) / SECOND_NS


def _scaled(cells: list[str], name: str, power: int) -> np.ndarray:
    found = np.zeros(len(cells), np.int64)
    for k, cell in enumerate(cells):
        try:
            found[k] = round(Decimal(cell or "0").scaleb(power)) if not is_date(cell) else _date_ns(cell)
        except (InvalidOperation, ValueError, OverflowError):
            raise RecordingError(f"expected a time in column {name}, row {k + 2}, got {cell!r}") from None
    return found


def _date_ns(cell: str) -> int:
    plain, _, hours = re.sub(r"(Z|[+-]00:?00)$", "", cell).partition("+")
    if hours:
        raise ValueError(cell)
    return int(np.datetime64(plain.replace(" ", "T"), "ns").astype(np.int64))
