"""Times in tables, found by the names of columns: in any unit, as dates, or as a stamp in two parts. Knows no ROS."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal

import numpy as np

from .samples import RecordingError
from .trajectories import SECOND_NS

_UNITS = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 9),
    **dict.fromkeys(("ms", "msec", "msecs", "millisecond", "milliseconds"), 6),
    **dict.fromkeys(("us", "\u00b5s", "\u03bcs", "usec", "usecs", "microsecond", "microseconds"), 3),
    **dict.fromkeys(("ns", "nsec", "nsecs", "nanosec", "nanosecond", "nanoseconds"), 0),
}
"""Exponents of ten that convert units to ns."""
_UNIT = "|".join(_UNITS)
_TIME = re.compile(rf"(?:__|%)?(?:time|timestamp|stamp|t|datetime)(?:[ _]?[\[(]?({_UNIT})[\])]?)?", re.IGNORECASE)
_STAMP = re.compile(rf"(?:.*[/._])?(?:header[/._])?stamp(?:[/._ ]?[\[(]?({_UNIT})[\])]?)?", re.IGNORECASE)
_DATE = re.compile(
    r"(?P<day>\d{4}[-/]\d\d[-/]\d\d)[T ](?P<time>\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)\s*"
    r"(?:Z|UTC|GMT|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?",
    re.IGNORECASE,
)
_NO_UNIT = re.compile(r"(?:time|timestamp|stamp|t)\s*[\[(].*[\])]", re.IGNORECASE)
"""A time with a unit in brackets that `_TIME` does not know."""
_LONGEST_NS = Decimal(2**63)
_SECONDS = re.compile(r"(.*?)(sec|secs|seconds)")
TIME_UNITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Units that users may choose, with exponents of ten that convert them to ns."""
_SINCE_1970_S = 1.2e9, 2.2e9
"""Times from 2008 to 2039, s. Numbers in this range, in one of the units, are dates if their steps fit that unit."""
_STEP_OF_DATES_S = 1e-5, 1e4
_CLEAR_STEP_S = 5.0
"""Longest step of dates, s, that leaves no choice: these may be times since a computer started, in a smaller unit."""
_MANY = 20
"""Smallest number of rows of a recording; fewer may be waypoints with seconds between them."""
_RECORDED = (0.5, "s"), (5.0, ""), (500.0, "ms"), (5e3, ""), (5e5, "us"), (5e6, ""), (1e11, "ns")
"""Largest steps and the unit that they mean; an empty one means that two are possible, since there are recordings with
a row every 0.5 ms, and others with one every 5 s.
"""
_WAYPOINTS = (5.0, "s"), (6e7, ""), (1e11, "ns")
"""The same of few rows, which may be waypoints with up to a minute between them."""


def is_time(name: str) -> bool:
    """Return whether a column holds times, or a part of them."""
    return any(one.fullmatch(name) for one in (_TIME, _STAMP)) or name in ("sec", "nanosec", "secs", "nsecs")


def time_unit(text: str) -> str | None:
    """Return one of TIME_UNITS for a unit as people write it (sec, msec, nanoseconds); None for anything else."""
    return next((name for name, power in TIME_UNITS.items() if power == _UNITS.get(text.lower())), None)


def with_unknown_unit(header: Sequence[str]) -> str | None:
    """Return the first column of times whose brackets contain no unit of time; None if there is none."""
    return next((name for name in header if _NO_UNIT.fullmatch(name) and not is_time(name)), None)


def unit_named(name: str) -> bool:
    """Return whether the name of a column of times gives or implies their unit."""
    found = _TIME.fullmatch(name) or _STAMP.fullmatch(name)
    return found is None or bool(found[1]) or name.startswith(("%", "field."))


def recording_time(header: Sequence[str]) -> str | None:
    """Return the column with the time of each row; None if there is none."""
    return next((name for name in header if _TIME.fullmatch(name)), None)


def stamp_columns(header: Sequence[str], topic: str = "") -> tuple[str, ...]:
    """Return the one or two columns of a message's stamp, of the topic if possible; empty if there is none."""
    found = [name for name in header if _STAMP.fullmatch(name) or name in ("sec", "secs")]
    found.sort(key=lambda name: not name.startswith(topic))
    for name in found:
        if parts := _SECONDS.fullmatch(name):
            rest = (f"{parts[1]}{one}" for one in ("nanosec", "nsec", "nsecs", "nanoseconds"))
            if other := next((one for one in rest if one in header), None):
                return name, other
    return tuple(name for name in found if "nsec" not in name and "nanosec" not in name)[:1]


def unit_by_numbers(numbers: np.ndarray, name: str) -> str:
    """Return the unit of times without one, from their steps and their size together: s, ms, us or ns.

    Raises RecordingError if both leave a choice.
    """
    known = numbers[np.isfinite(numbers)]
    steps = np.diff(np.unique(known))
    step = float(np.median(steps)) if len(steps) else None
    given = known[known != 0]  # 0 stands for no time
    for unit, power in TIME_UNITS.items():
        size = 10.0 ** (power - 9)
        fits = step is None or _STEP_OF_DATES_S[0] <= step * size <= _STEP_OF_DATES_S[1]
        begin, end = (bound / size for bound in _SINCE_1970_S)
        if fits and len(given) and begin <= given.min() and given.max() <= end:
            found = unit if step is None or step * size <= _CLEAR_STEP_S else ""
            break
    else:
        steps_of = _RECORDED if len(steps) >= _MANY - 1 else _WAYPOINTS
        found = "s" if step is None else next((unit for most, unit in steps_of if step <= most), "")
    if not found:
        raise RecordingError(
            f"expected times in {name} whose unit can be told, got steps of {step:g}; "
            f"say which by --time-unit ({', '.join(TIME_UNITS)}), or in the name: {name} [ms]"
        )
    return found


def nanoseconds_in(
    columns: Sequence[str], texts: Callable[[str], list[str]], tell: Callable[[str], None], given: str | None = None
) -> np.ndarray:
    """Return the times in a column, or in columns of seconds and nanoseconds, ns as int64; empty cells are 0.

    If the column names no unit, it is the `given` one, or else follows from the numbers; a unit other than s is
    reported. Raises RecordingError with the column and its row.
    """
    if len(columns) == 2:
        seconds, rest = (_scaled(texts(name), name, power) for name, power in zip(columns, (9, 0), strict=True))
        return seconds + rest
    (name,) = columns
    cells = texts(name)
    named = (_TIME.fullmatch(name) or _STAMP.fullmatch(name))[1]
    if named or name.startswith(("%", "field.")):  # rostopic echo -p writes ns
        return _scaled(cells, name, _UNITS[(named or "ns").lower()])
    values = _numbers(cells)
    stamps = values[values != 0]  # 0 stands for no time, except where it is one of two
    unit = given or unit_by_numbers(stamps if len(np.unique(stamps)) > 1 else values, name)
    if unit != "s" and given is None:
        tell(f"times in {name} are taken as {unit}, as large as they are")
    return _scaled(cells, name, TIME_UNITS[unit])


def _numbers(cells: list[str]) -> np.ndarray:
    """Return the numbers in cells; NaN for dates and other texts."""
    found = np.full(len(cells), np.nan)
    for k, cell in enumerate(cells):
        with suppress(ValueError):
            found[k] = float(cell.replace(",", "."))
    return found


def is_date(cell: str) -> bool:
    """Return whether a cell holds a date with a time of the day."""
    return cell[4:5] in ("-", "/") and ":" in cell


def seconds(nanoseconds: np.ndarray) -> np.ndarray:
    """Return times relative to the first one, s."""
    return (nanoseconds - nanoseconds[:1]) / SECOND_NS


def _scaled(cells: list[str], name: str, power: int) -> np.ndarray:
    found = np.zeros(len(cells), np.int64)
    has_dates = any(map(is_date, cells))
    for k, cell in enumerate(cells):
        try:
            if is_date(cell):
                found[k] = _date_ns(cell)
                continue
            if has_dates and cell:
                raise ValueError(cell)
            value = Decimal(cell.replace(",", ".") or "0")
            if not abs(value) < _LONGEST_NS.scaleb(-power):  # before it is a whole number of as many digits
                raise ValueError(cell)
            found[k] = round(value.scaleb(power))
        except (ArithmeticError, ValueError):
            raise RecordingError(f"expected a time in column {name}, row {k + 2}, got {cell!r}") from None
    return found


def _date_ns(cell: str) -> int:
    """Convert a date with a time of the day, and perhaps Z, UTC or an offset such as +02:00, to ns since 1970."""
    found = _DATE.fullmatch(cell.strip())
    if found is None:
        raise ValueError(cell)
    day = int(
        np.datetime64(f"{found['day'].replace('/', '-')}T{found['time'].replace(',', '.')}", "ns").astype(np.int64)
    )
    if found["sign"] is None:
        return day
    minutes = 60 * int(found["hours"]) + int(found["minutes"] or 0)
    return day - (1 if found["sign"] == "+" else -1) * minutes * 60 * SECOND_NS
