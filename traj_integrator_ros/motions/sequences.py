"""Sequences of actions in files: ActionSequence messages of a bag, NPZ, tables, or those of a motion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np

from .door import reading
from .files import format_of, read_samples
from .joint_states import Tell
from .read_bag import ACTION_SEQUENCE, JOINT_STATE, messages_of, open_bag, usable_state
from .read_csv import read_actions
from .read_npz import joint_names, load_arrays, numbers, text_of
from .samples import QUANTITIES, RecordingError, Samples
from .units import UNITS_OF_THE_FILE, GivenUnits

BSPLINE = "bspline"
CONTROL_SPACES = (*QUANTITIES, BSPLINE)
"""Control spaces, in the order of ActionSequence's constants from 1 on."""
STATE = ("position", "velocity", "acceleration")
ENDS = tuple(f"{end}_{name}" for end in ("start", "goal") for name in STATE)
DT_PER_TRAJECTORY = 1
"""ActionSequence's constant for a dt of each trajectory."""
UNIFORM_TOLERANCE = 1e-3
"""Largest difference of steps from their mean, as a share, that counts as uniform."""
_SAMPLES = 4
"""Number of samples whose cubic gives the derivatives at the start. The slope between the first two samples is that of
half a step later, and a spline that starts with it begins with a jerk that the motion does not have.
"""
_INDICES = ("start_index", "goal_index")
_ARRAYS = ("actions", "dt", *ENDS, *_INDICES, "degree", "steps", "control_space", "joint_names")
"""Arrays of an archive of actions."""


@dataclass(frozen=True)
class Sequence:
    """A batch of action sequences, with the known fields of its message by name.

    `recorded` is the motion from which the actions were taken, if any. A message of a bag has a `place`; without a
    start, it begins in the state that was `measured` before it.
    """

    joint_names: tuple[str, ...]
    fields: dict[str, Any]
    recorded: Samples | None = None
    place: str = ""
    measured: Mapping[str, np.ndarray] | None = None

    @property
    def control_space(self) -> str:
        """One of CONTROL_SPACES; empty for an unknown number."""
        number = self.fields["control_space"]
        return CONTROL_SPACES[number - 1] if number <= len(CONTROL_SPACES) else ""


def read_sequences(
    path: Path,
    control_space: str,
    topic: str | None,
    tell: Tell,
    made_of: Callable[[Samples], Samples] = lambda motion: motion,
    units: GivenUnits = UNITS_OF_THE_FILE,
) -> list[Sequence]:
    """Read all sequences of a file, or the actions in `control_space` of its motion, which `made_of` may change first.

    `units` are those of tables and archives that name none. Omissions are reported. Raises RecordingError.
    """
    with reading(path):
        format_ = format_of(path)
        notes: list[str] = []
        if format_ == "bag" and (sequences := list(_in_bag(path, topic, notes.append))):
            for note in notes:
                tell(note)
            return sequences
        if format_ == "archive" and "actions" in (arrays := load_arrays(path, _ARRAYS)):
            return [_of_arrays(path, arrays)]
        if format_ == "table" and (found := read_actions(path, tell, units)) is not None:
            names, actions, dt = found
            return [Sequence(names, fields_of(actions[None]) | ({} if dt is None else {"dt": dt}))]
    samples = made_of(read_samples(path, topic, tell, units=units))
    with reading(path):
        return [_of_states(samples, control_space)]


def fields_of(actions: np.ndarray) -> dict[str, Any]:
    """The fields that follow from actions `[B, Ha, D]`."""
    return {"batch": actions.shape[0], "horizon": actions.shape[1], "data": actions}


def _of_states(samples: Samples, control_space: str) -> Sequence:
    """Return the actions of a motion: position or velocity after each step, or acceleration or jerk at its beginning.

    Raises RecordingError if the motion lacks that quantity.
    """
    if len(samples.time) < 2:
        raise RecordingError(f"{samples.source}: expected at least 2 samples, got 1")
    if control_space == BSPLINE:
        raise RecordingError(f"{samples.source}: expected actions; docs/cookbook.md fits a B-spline to a motion")
    values = getattr(samples, control_space)
    if values is None:
        had = ", ".join(name for name in QUANTITIES if getattr(samples, name) is not None)
        raise RecordingError(f"{samples.source}: expected {control_space} of every joint, got {had} only")
    ahead = control_space in ("position", "velocity")
    actions = np.concatenate([values[1:], values[-1:]]) if ahead else values
    steps = np.diff(samples.time)
    uniform = np.all(np.abs(steps - steps.mean()) <= UNIFORM_TOLERANCE * steps.mean())
    fields = {
        "control_space": 1 + CONTROL_SPACES.index(control_space),
        **fields_of(actions[None]),
        "dt": np.array([steps.mean()]) if uniform else np.concatenate([steps[:1], steps]),
        **dict(zip(ENDS[:3], (samples.position[:1], *_rates_at_start(samples)), strict=True)),
    }
    return Sequence(samples.joint_names, fields, samples)


def _rates_at_start(samples: Samples) -> tuple[np.ndarray, np.ndarray]:
    """Return velocity and acceleration of the first sample, `[1, D]`.

    What a recording lacks is derived from the first four velocities or, without any, positions.
    """
    time, velocity, acceleration = samples.time, samples.velocity, samples.acceleration
    if velocity is None:
        first, second = (_derivative_at_start(time, samples.position, order) for order in (1, 2))
    else:
        first, second = velocity[0], _derivative_at_start(time, velocity)
    return first[None], (second if acceleration is None else acceleration[0])[None]


def _derivative_at_start(time: np.ndarray, values: np.ndarray, order: int = 1) -> np.ndarray:
    """Return a derivative `[D]` at the first sample of the cubic through the first four samples, at any times.

    Newton's divided differences give it: the k-th one multiplies the product of distances from the first k samples.
    """
    away, differences = time[:_SAMPLES] - time[0], values[:_SAMPLES].copy()
    for k in range(1, len(away)):
        differences[k:] = np.diff(differences[k - 1 :], axis=0) / (away[k:] - away[:-k])[:, None]
    terms = (np.poly(away[:k])[k - order] * differences[k] for k in range(order, len(away)))
    return factorial(order) * sum(terms, np.zeros(values.shape[1]))


def _of_arrays(path: Path, arrays: Mapping[str, np.ndarray]) -> Sequence:
    actions = numbers(path, "actions", arrays["actions"])
    actions = actions[None] if actions.ndim == 2 else actions
    if actions.ndim != 3 or actions.size == 0:
        raise RecordingError(f"{path}: expected actions of shape [Ha, D] or [B, Ha, D], got {list(actions.shape)}")
    fields = fields_of(actions)
    fields |= {name: numbers(path, name, arrays[name]) for name in ("dt", *ENDS) if name in arrays}
    if np.shape(fields.get("dt")) == (len(actions), 1):
        fields["dt_per"] = DT_PER_TRAJECTORY
    for name in (*_INDICES, "degree", "steps"):
        if name in arrays:
            values = arrays[name]
            if values.dtype.kind not in "iu" or values.ndim != (name in _INDICES) or np.any(values < 0):
                raise RecordingError(f"{path}: expected whole numbers, 0 or more, in {name}, got {values.tolist()!r}")
            fields[name] = values if values.ndim else int(values)
    if value := text_of(np.asarray(arrays.get("control_space", "")).item()):
        if value not in CONTROL_SPACES:
            raise RecordingError(f"{path}: expected control_space one of {', '.join(CONTROL_SPACES)}, got {value!r}")
        fields["control_space"] = 1 + CONTROL_SPACES.index(value)
    return Sequence(tuple(joint_names(path, arrays, actions.shape[2])), fields)


def _in_bag(path: Path, topic: str | None, tell: Tell) -> Iterator[Sequence]:
    """Yield the ActionSequence messages, each with the last joint state before it."""
    with open_bag(path, tell) as reader:
        sequences = [c for c in reader.connections if c.msgtype == ACTION_SEQUENCE and topic in (None, c.topic)]
        if not sequences:
            return
        states = [c for c in reader.connections if c.msgtype == JOINT_STATE]
        known: dict[str, tuple[float, float]] = {}
        last: tuple[str, ...] = ()
        messages = messages_of(path, reader, sequences + states, tell)
        for number, (connection, _, message) in enumerate(messages):
            if connection.msgtype == JOINT_STATE:
                if state := usable_state(message):
                    known |= state
                    last = tuple(state)
                continue
            yield _of_message(f"{path}, message {number} on {connection.topic}", message, known, last)


def _of_message(place: str, message: Any, known: Mapping[str, tuple[float, float]], last: tuple[str, ...]) -> Sequence:
    """Convert a message; `known` are positions and velocities of joints, `last` the joints of the latest state."""
    cells, length = int(message.batch) * int(message.horizon), len(message.data)
    if not cells or not length or length % cells:
        shape = f"[batch {message.batch}, horizon {message.horizon}, dof]"
        raise RecordingError(f"{place}: expected data {shape}, got {length} numbers")
    dof = length // cells
    names = tuple(message.joint_names or (last if len(last) == dof else (f"joint_{i}" for i in range(dof))))
    if len(names) != dof:
        raise RecordingError(f"{place}: expected {dof} joint_names as in data, got {len(names)}")
    # Messages that were recorded before there were goals and splines lack their fields.
    scalars = {name: int(getattr(message, name, 0)) for name in ("control_space", "degree", "steps", "dt_per")}
    arrays = {name: np.asarray(getattr(message, name, ())) for name in ("dt", *_INDICES)}
    for end in ("start", "goal"):
        given = getattr(message, end, None)
        arrays |= {f"{end}_{name}": np.asarray(getattr(given, name, ()), np.float64) for name in STATE}
    fields = fields_of(np.asarray(message.data, np.float64).reshape(message.batch, message.horizon, dof))
    fields |= {name: value for name, value in scalars.items() if value}
    fields |= {name: values for name, values in arrays.items() if values.size}
    measured = None
    if all(name in known for name in names):
        rows = np.array([known[name] for name in names]).T
        measured = {name: row for name, row in zip(ENDS, rows, strict=False) if not np.isnan(row).any()}
    return Sequence(names, fields, place=place, measured=measured)
