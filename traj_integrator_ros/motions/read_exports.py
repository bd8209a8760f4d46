"""Joint states in tables of other programs: PlotJuggler, rostopic, and converters of bags."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import numpy as np

from .joint_states import StateRow, Tell
from .samples import RecordingError
from .table_times import nanoseconds_in, recording_time, stamp_columns
from .trajectories import SECOND_NS

_QUANTITY = r"(?P<quantity>positions?|velocity|velocities|pos|vel|name)"
_OF_JOINT = re.compile(rf"(?P<topic>.*[/.])?(?P<joint>[^/.\[\]]+)[/._]{_QUANTITY}")
_BY_NUMBER = re.compile(rf"(?P<topic>.*[/.])?{_QUANTITY}[/._]?(?P<joint>\d+|\[\d+\])")
_SHORT = {"p": "position", "v": "velocity", "n": "name"}
_STATES = "joint_states"


class Table(Protocol):
    """Columns of a table by name."""

    header: list[str]
    texts: Callable[[str], list[str]]
    column: Callable[[str, str | None], np.ndarray]


def is_export(name: str) -> bool:
    """Return whether a column is one of joint states."""
    return _parts(name) is not None


def states_exported(
    path: Path, table: Table, topic: str | None, tell: Tell, time_unit: str | None = None
) -> list[StateRow] | None:
    """The joint states of a topic, else of joint_states, else of the only one; None if the table has none.

    Raises RecordingError where there is a choice, or no time.
    """
    topics: dict[str, dict[str, dict[str, str]]] = {}
    for column in table.header:
        if (parts := _parts(column)) is not None:
            of, quantity, joint = parts
            topics.setdefault(of, {}).setdefault(quantity, {})[joint] = column
    topics = {of: quantities for of, quantities in topics.items() if "position" in quantities}
    if not topics:
        return None
    shown = {of: of.rstrip("/.") or "no topic" for of in topics}
    wanted = topic.strip("/") if topic else _STATES
    usual = [of for of in topics if shown[of].endswith(wanted)]
    chosen = [*topics] if topic is None and len(topics) == 1 else usual
    if len(chosen) != 1:
        got = ", ".join(shown.values())
        raise RecordingError(f"{path}: expected joint states of one topic (--topic), got those of {got}")
    if others := [shown[of] for of in topics if of not in chosen]:
        tell(f"topic {shown[chosen[0]]} taken, left out: {', '.join(others)} (--topic)")
    return _states(path, table, chosen[0], topics[chosen[0]], tell, time_unit)


def _states(
    path: Path, table: Table, topic: str, columns: dict[str, dict[str, str]], tell: Tell, time_unit: str | None
) -> list[StateRow]:
    position = np.stack([table.column(one, joint) for joint, one in columns["position"].items()], axis=1)
    velocities = columns.get("velocity", {})
    velocity = np.stack(
        [table.column(velocities[joint], joint) if joint in velocities else np.full(len(position), np.nan)
         for joint in columns["position"]], axis=1
    )  # fmt: skip
    given = columns.get("name", {})
    names = tuple(
        next(filter(None, table.texts(given[joint])), joint) if joint in given else _named(joint)
        for joint in columns["position"]
    )
    stamp, of_row = stamp_columns(table.header, topic), recording_time(table.header)
    try:
        recorded = None if of_row is None else nanoseconds_in((of_row,), table.texts, tell, time_unit)
        if stamp and stamp != (of_row,):
            stamps = nanoseconds_in(stamp, table.texts, tell, time_unit)
        elif recorded is not None:
            stamps, recorded = recorded - recorded.min(initial=0) + SECOND_NS, None  # a time of 0 would mean none
        else:
            raise RecordingError("expected a column with times, such as __time, time_ns or header.stamp, got none")
    except RecordingError as error:
        raise RecordingError(f"{path}: {error}") from None
    return [
        StateRow(names, position[k], velocity[k], int(stamps[k]), None if recorded is None else int(recorded[k]))
        for k in np.flatnonzero(~np.isnan(position).all(axis=1))
    ]


def _parts(column: str) -> tuple[str, str, str] | None:
    """Topic, quantity and joint of a column; None if it is another one."""
    found = _BY_NUMBER.fullmatch(column) or _OF_JOINT.fullmatch(column)
    if found is None:
        return None
    topic, states, inner = (found["topic"] or "").partition(f"{_STATES}/")  # names of joints may contain a / as well
    return topic + states, _SHORT[found["quantity"][0]], inner + found["joint"].strip("[]")


def _named(joint: str) -> str:
    return f"joint_{joint}" if joint.isdecimal() else joint
