"""Joint states as publishers send them, made by the tests themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from recordings import JOINT_STATE, write_bag

from traj_integrator_ros.motions.joint_states import StateRow

BEGIN_NS = 1_700_000_000_000_000_000


def states(
    names: Sequence[str] = ("a", "b"), count: int = 100, step: float = 0.02, begin: float = 0.0
) -> list[StateRow]:
    """Joint k moves along sin((1 + k) t / 2), exactly, recorded up to 1.4 ms after its stamp."""
    rows = []
    for number in range(count):
        time = begin + number * step
        rate = (1 + np.arange(len(names))) / 2
        stamp_ns = BEGIN_NS + round(time * 1e9)
        fields = np.sin(rate * time), rate * np.cos(rate * time), stamp_ns, stamp_ns + (number % 3) * 700_000
        rows.append(StateRow(tuple(names), *fields))
    return rows


def joint_state(row: StateRow) -> dict[str, object]:
    """The message with its fields."""
    stamp = {"sec": row.stamp_ns // 10**9, "nanosec": row.stamp_ns % 10**9}
    fields = {name: np.asarray(getattr(row, name)).tolist() for name in ("position", "velocity")}
    return {"header": {"stamp": stamp, "frame_id": ""}, "name": list(row.names), **fields, "effort": []}


def bag_of(
    folder: Path, topics: Mapping[str, Sequence[StateRow]], *others: tuple[str, str, list], **options: str
) -> Path:
    """A bag of joint states by their topics, and of other topics, in the order of recording; the folder."""
    messages = {topic: [(row.recorded_ns, joint_state(row)) for row in rows] for topic, rows in topics.items()}
    states = [(topic, JOINT_STATE, recorded) for topic, recorded in messages.items()]
    return write_bag(folder, [*states, *others], **options)
