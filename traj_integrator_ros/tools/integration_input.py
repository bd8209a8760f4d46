"""The input of the tool `integrate`: sequences of actions with their starts, from files of actions or states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import factorial
from pathlib import Path
from typing import Any

import numpy as np

from ..motions.files import format_of, read_samples
from ..motions.read_bag import JOINT_STATE, open_bag
from ..motions.read_csv import read_actions
from ..motions.read_npz import joint_names, load_arrays, numbers
from ..motions.samples import QUANTITIES, RecordingError, Samples

ACTION_SEQUENCE = "traj_integrator_interfaces/msg/ActionSequence"
BSPLINE = "bspline"
CONTROL_SPACES = (*QUANTITIES, BSPLINE)
"""Control spaces, in the order of ActionSequence's constants from 1 on."""
STATE = ("position", "velocity", "acceleration")
UNIFORM_TOLERANCE = 1e-3
"""Steps that differ from their mean by less than this share of it count as uniform."""


_SAMPLES = 4
"""A cubic through the nearest samples: the slope between the first two is that of half a step later, and a spline that
starts with it begins with a jerk that the motion does not have."""


@dataclass(frozen=True)
class Sequence:
    """A batch of action sequences: `actions` [B, Ha, D] and `dt` [1], [Ha], [B, 1] or [B, Ha] in s.

    `control_space` is one of position, velocity, acceleration, jerk, bspline, or empty for the one in the options; the
    same holds for `dt` None, `degree` and `steps` 0 and an empty `layout`. `start` and `goal` have rows [S, D] by the
    names of STATE, and `index` [B], the row of each; what is not given is not in them. `recorded` is the motion from
    which the actions were taken, if any, and `fitted` says how close control points come to it.
    """

    joint_names: tuple[str, ...]
    control_space: str
    actions: np.ndarray
    dt: np.ndarray | None
    start: dict[str, np.ndarray]
    goal: dict[str, np.ndarray] = field(default_factory=dict)
    recorded: Samples | None = None
    note: str = ""
    degree: int = 0
    steps: int = 0
    layout: str = ""
    fitted: str = ""


def read_sequences(
    path: Path, control_space: str, topic: str | None, start: Mapping[str, list[float]]
) -> list[Sequence]:
    """All sequences of a file, those of states in `control_space`. Raises RecordingError.

    A bag has ActionSequence messages or joint states; an archive has `actions` or a motion; a table has columns
    action_<joint> or a motion. `start` has position, velocity and acceleration [D] for sequences without a start.
    """
    format_ = format_of(path)
    if format_ == "bag" and (sequences := list(_in_bag(path, topic, start))):
        return sequences
    if format_ == "archive" and "actions" in (arrays := load_arrays(path)):
        return [_of_arrays(path, arrays, start)]
    if format_ == "table" and (found := read_actions(path)) is not None:
        names, actions, dt = found
        return [Sequence(names, "", actions[None], dt, _start_rows(path, start, len(names)))]
    return [sequence_of_states(read_samples(path, topic), control_space)]


def completed(
    sequence: Sequence, control_space: str, goal: Mapping[str, list[float]], form: Mapping[str, int | str]
) -> Sequence:
    """The sequence completed by the options: a goal if it has none, and the form of a spline.

    Raises RecordingError for options that do not fit the sequence.
    """
    space = sequence.control_space or control_space
    for name, asked in form.items():
        own = getattr(sequence, name)
        if space != BSPLINE:
            raise RecordingError(f"--{name}: expected with --control-space {BSPLINE} only, got it with {space}")
        if own and own != asked:
            raise RecordingError(f"--{name}: expected {own}, as in the file, got {asked}")
    sequence = dataclasses.replace(sequence, control_space=space, **form)
    if goal and not sequence.goal:
        if "position" not in goal:
            raise RecordingError(f"--goal-position: expected with --goal-{next(iter(goal))}, got none")
        for name, values in goal.items():
            if sequence.recorded is not None or len(values) != len(sequence.joint_names):
                wanted = "actions" if sequence.recorded is not None else f"{len(sequence.joint_names)} numbers"
                got = "a motion" if sequence.recorded is not None else len(values)
                raise RecordingError(f"--goal-{name}: expected {wanted}, got {got}")
        sequence = dataclasses.replace(sequence, goal={name: np.array([row]) for name, row in goal.items()})
    return sequence


def sequence_of_states(samples: Samples, control_space: str) -> Sequence:
    """The actions that led through a motion: its own position or velocity after each step, or the acceleration or jerk
    at the beginning of it. Raises RecordingError where the motion has no such quantity.
    """
    if len(samples.time) < 2:
        raise RecordingError(f"{samples.source}: expected at least 2 samples, got 1")
    if control_space == BSPLINE:
        raise RecordingError(f"{samples.source}: expected actions; --fit N takes a motion as a B-spline")
    values = getattr(samples, control_space)
    if values is None:
        had = ", ".join(name for name in QUANTITIES if getattr(samples, name) is not None)
        raise RecordingError(f"{samples.source}: expected {control_space} of every joint, got {had} only")
    ahead = control_space in ("position", "velocity")
    actions = np.concatenate([values[1:], values[-1:]]) if ahead else values
    steps = np.diff(samples.time)
    uniform = np.all(np.abs(steps - steps.mean()) <= UNIFORM_TOLERANCE * steps.mean())
    lacking = [name for name in ("acceleration", "velocity") if getattr(samples, name) is None]
    return Sequence(
        samples.joint_names,
        control_space,
        actions[None],
        np.array([steps.mean()]) if uniform else np.concatenate([steps[:1], steps]),
        dict(zip(STATE, (samples.position[:1], *derivatives_at(samples, 0)), strict=True)),
        recorded=samples,
        note=", ".join(f"start {name} by differences" for name in lacking),
    )


def derivatives_at(samples: Samples, end: int) -> tuple[np.ndarray, np.ndarray]:
    """Velocity and acceleration [1, D] in the first sample (`end` 0) or the last (-1).

    By differences if the recording has none: of the nearest four velocities, or of the positions where it has none.
    """
    time, position, velocity, acceleration = samples.time, samples.position, samples.velocity, samples.acceleration
    if velocity is None:
        first, second = (_derivative_at_end(time, position, end, order) for order in (1, 2))
    else:
        first, second = velocity[end], _derivative_at_end(time, velocity, end)
    return first[None], (second if acceleration is None else acceleration[end])[None]


def _derivative_at_end(time: np.ndarray, values: np.ndarray, end: int, order: int = 1) -> np.ndarray:
    """A derivative `[D]` of `values` `[N, D]` in the first sample (`end` 0) or the last (-1).

    It is that of the cubic through the nearest four samples, or of what fewer samples give; 0 beyond its degree.
    """
    near = slice(0, _SAMPLES) if end == 0 else slice(-_SAMPLES, None)
    away = time[near] - time[end]
    scale = np.abs(away).max() or 1.0  # the powers of it would differ by many orders of magnitude
    coefficients = np.linalg.solve(np.vander(away / scale, increasing=True), values[near])
    if order >= len(coefficients):
        return np.zeros(values.shape[1])
    return factorial(order) * coefficients[order] / scale**order


def _start_rows(path: Path, start: Mapping[str, list[float]], dof: int) -> dict[str, np.ndarray]:
    for name, values in start.items():
        if len(values) != dof:
            raise RecordingError(f"--start-{name}: expected {dof} numbers for the joints of {path}, got {len(values)}")
    return {name: np.array([values]) for name, values in start.items()}


def _of_arrays(path: Path, arrays: Mapping[str, np.ndarray], start: Mapping[str, list[float]]) -> Sequence:
    actions = numbers(path, "actions", arrays["actions"])
    actions = actions[None] if actions.ndim == 2 else actions
    if actions.ndim != 3 or actions.size == 0:
        raise RecordingError(f"{path}: expected actions of shape [Ha, D] or [B, Ha, D], got {list(actions.shape)}")
    dof = actions.shape[2]
    given = {
        end: {
            name: arrays[key] if name == "index" else np.atleast_2d(numbers(path, key, arrays[key]))
            for name in (*STATE, "index")
            if (key := f"{end}_{name}") in arrays
        }
        for end in ("start", "goal")
    }
    rates = [name for name in STATE if name in given["goal"]]
    if rates and "position" not in rates:
        raise RecordingError(f"{path}: expected goal_position with goal_{rates[0]}, got none")
    dt = np.atleast_1d(numbers(path, "dt", arrays["dt"])) if "dt" in arrays else None
    space = str(arrays["control_space"]) if "control_space" in arrays else ""
    if space not in ("", *CONTROL_SPACES):
        raise RecordingError(f"{path}: expected control_space one of {', '.join(CONTROL_SPACES)}, got {space!r}")
    return Sequence(
        tuple(joint_names(path, arrays, dof)),
        space,
        actions,
        dt,
        _start_rows(path, start, dof) | given["start"],
        given["goal"] if rates else {},
        degree=_whole(path, arrays, "degree"),
        steps=_whole(path, arrays, "steps"),
        layout=str(arrays.get("layout", "")),
    )


def _whole(path: Path, arrays: Mapping[str, np.ndarray], name: str) -> int:
    value = np.asarray(arrays.get(name, 0))
    if value.ndim or value.dtype.kind not in "iu":
        raise RecordingError(f"{path}: expected {name} to be a whole number, got {value.tolist()!r}")
    return int(value)


def _in_bag(path: Path, topic: str | None, start: Mapping[str, list[float]]) -> Iterator[Sequence]:
    """The ActionSequence messages; those without a start begin at the joint state recorded last before them."""
    with open_bag(path) as reader:
        sequences = [c for c in reader.connections if c.msgtype == ACTION_SEQUENCE and topic in (None, c.topic)]
        if not sequences:
            return
        states = [c for c in reader.connections if c.msgtype == JOINT_STATE]
        state: Any = None
        for number, (connection, _, raw) in enumerate(reader.messages(connections=sequences + states)):
            message = reader.deserialize(raw, connection.msgtype)
            if connection.msgtype == JOINT_STATE:
                state = message
                continue
            yield _of_message(f"{path}, message {number} on {connection.topic}", message, state, start)


def _of_message(where: str, message: Any, state: Any, start: Mapping[str, list[float]]) -> Sequence:
    batch, horizon = int(message.batch), int(message.horizon)
    cells = batch * horizon
    if cells == 0 or len(message.data) % cells or len(message.data) == 0:
        raise RecordingError(
            f"{where}: expected data [batch {batch}, horizon {horizon}, dof], got {len(message.data)} numbers"
        )
    dof = len(message.data) // cells
    names = tuple(message.joint_names) or (tuple(state.name) if state is not None and len(state.name) == dof else ())
    if len(names) not in (0, dof):
        raise RecordingError(f"{where}: expected {dof} joint_names as in data, got {len(names)}")
    if message.control_space > len(CONTROL_SPACES):
        raise RecordingError(f"{where}: expected control_space 0 to {len(CONTROL_SPACES)}, got {message.control_space}")
    dt = np.asarray(message.dt)
    names = names or tuple(f"joint_{i}" for i in range(dof))
    begin = _start_of(where, message.start, names, state, start)
    if len(message.start_index):
        begin["index"] = np.asarray(message.start_index)
    return Sequence(
        names,
        ("", *CONTROL_SPACES)[message.control_space],
        np.asarray(message.data, np.float64).reshape(batch, horizon, dof),
        dt.reshape(batch, horizon) if len(dt) == cells and batch > 1 else dt if len(dt) else None,
        begin,
        _goal_of(where, message, dof),
        degree=int(getattr(message, "degree", 0)),
        steps=int(getattr(message, "steps", 0)),
    )


def _start_of(
    where: str, given: Any, names: tuple[str, ...], state: Any, start: Mapping[str, list[float]]
) -> dict[str, np.ndarray]:
    dof = len(names)
    if len(given.position):
        fields = {"position": given.position, "velocity": given.velocity, "acceleration": given.acceleration}
    elif start:
        fields = start
    elif state is not None and all(name in list(state.name) for name in names):
        order = [list(state.name).index(name) for name in names]
        full = len(state.velocity) == len(state.name)
        fields = {"position": state.position[order], "velocity": state.velocity[order] if full else ()}
    else:
        raise RecordingError(
            f"{where}: it has no start, and no joint state of its joints was recorded before it; give --start-position"
        )
    return _rows_of(where, "start", fields, dof)


def _goal_of(where: str, message: Any, dof: int) -> dict[str, np.ndarray]:
    """The goal of a message; empty if it has none, or was recorded before messages had goals."""
    given = getattr(message, "goal", None)
    rows = _rows_of(where, "goal", {name: getattr(given, name, ()) for name in STATE}, dof)
    if rows and "position" not in rows:
        raise RecordingError(f"{where}: expected goal.position with goal.{next(iter(rows))}, got none")
    if rows and len(message.goal_index):
        rows["index"] = np.asarray(message.goal_index)
    return rows


def _rows_of(where: str, end: str, fields: Mapping[str, Any], dof: int) -> dict[str, np.ndarray]:
    """Those fields of a start or goal that are not empty, [rows, dof]."""
    for name, values in fields.items():
        if len(values) % dof:
            raise RecordingError(f"{where}: expected {end}.{name} of rows of {dof} numbers, got {len(values)}")
    return {name: np.asarray(values, np.float64).reshape(-1, dof) for name, values in fields.items() if len(values)}
