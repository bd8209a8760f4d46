"""Times of tables and archives, in the unit that is named or given, or else in that of their steps. Knows no ROS."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np

from .samples import RecordingError

TIME_UNITS = {"s": 9, "ms": 6, "us": 3, "ns": 0}
"""Units of time, with exponents of ten that convert them to ns."""
_TIME = re.compile(rf"time(?:[ _]?[\[(]?({'|'.join(TIME_UNITS)})[\])]?)?")
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?) ?(?:Z|UTC|([+-])(\d\d):?(\d\d)?)?")
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
    """Return whether a column or array holds times: `time`, `time [ms]` or `time_ms`."""
    return _TIME.fullmatch(name) is not None


def is_date(cell: str) -> bool:
    """Return whether a cell holds a date with a time of the day."""
    return cell[4:5] == "-" and ":" in cell


def date_ns(cell: str) -> int:
    """Return ns since 1970 of a date with a time of the day, and perhaps Z or an offset such as +02:00.

    Raises ValueError.
    """
    found = _DATE.fullmatch(cell)
    if found is None:
        raise ValueError(cell)
    day, time, sign, hours, minutes = found.groups()
    ahead_s = 0 if sign is None else int(f"{sign}1") * 60 * (60 * int(hours) + int(minutes or 0))
    return int(np.datetime64(f"{day}T{time}", "ns").astype(np.int64)) - ahead_s * 10**9


def seconds(numbers: np.ndarray, name: str, given: str | None, tell: Callable[[str], None]) -> np.ndarray:
    """Return times in s: as they are, or relative to the first one where their unit is another.

    Args:
        numbers: times; whole ones keep all their digits, since ns since 1970 have more than a float64.
        name: of their column or array, which may name the unit.
        given: the unit that a user gives where the name has none; None: it follows from the numbers, which is reported
            if it is not s.
        tell: reports.

    Raises:
        RecordingError: the numbers leave a choice.

    """
    known = _TIME.fullmatch(name)[1] or given
    unit = known or _unit_by_numbers(numbers.reshape(-1, numbers.shape[-1])[0].astype(np.float64), name)
    if unit == "s":
        return numbers.astype(np.float64)
    if known is None:
        tell(f"times in {name} are taken as {unit}, as large as they are")
    return (numbers - numbers.reshape(-1)[:1]).astype(np.float64) * 10.0 ** (TIME_UNITS[unit] - 9)


def _unit_by_numbers(numbers: np.ndarray, name: str) -> str:
    """Return the unit of times without one, from their steps and their size together: s, ms, us or ns."""
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
