"""What the tool `integrate` integrates: sequences of actions with their starts, from files of actions or states."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..motions.files import ARRAY_SUFFIXES, TABLE_SUFFIXES, is_bag, read_samples
from ..motions.samples import QUANTITIES, RecordingError, Samples

ACTION_SEQUENCE = "traj_integrator_interfaces/msg/ActionSequence"
JOINT_STATE = "sensor_msgs/msg/JointState"
UNIFORM_TOLERANCE = 1e-3
"""Steps that differ from their mean by less than this share of it count as uniform."""


@dataclass(frozen=True)
class Sequence:
    """A batch of action sequences: `actions` [B, Ha, D], `dt` [1], [Ha], [B, 1] or [B, Ha] in s, start rows [S, D].

    `control_space` is one of position, velocity, acceleration, jerk, or empty for the one asked for; `dt` None for
    that. `recorded` is the motion that the actions were taken from, if they were.
    """

    joint_names: tuple[str, ...]
    control_space: str
    actions: np.ndarray
    dt: np.ndarray | None
    start_position: np.ndarray
    start_velocity: np.ndarray | None = None
    start_acceleration: np.ndarray | None = None
    start_index: np.ndarray | None = None
    recorded: Samples | None = None
    note: str = ""


def read_sequences(
    path: Path, control_space: str, topic: str | None, start: Mapping[str, list[float]]
) -> list[Sequence]:
    """All sequences of a file, those of states in `control_space`. Raises RecordingError.

    A bag has ActionSequence messages, else joint states; an archive `actions`, else a motion; a table columns
    action_<joint>, else a motion. `start` has position, velocity and acceleration [D] for what brings no start.
    """
    if path.exists() and is_bag(path):
        found = list(_in_bag(path, topic, start))
        if found:
            return found
    elif path.exists() and path.suffix.lower() in ARRAY_SUFFIXES:
        from ..motions.read_npz import load_arrays

        arrays = load_arrays(path)
        if "actions" in arrays:
            return [_of_arrays(path, arrays, start)]
    elif path.exists() and path.suffix.lower() in TABLE_SUFFIXES:
        from ..motions.read_csv import read_actions

        if (actions := read_actions(path)) is not None:
            return [_with_start(path, *actions, control_space, start)]
    return [sequence_of_states(read_samples(path, topic), control_space)]


def sequence_of_states(samples: Samples, control_space: str) -> Sequence:
    """The actions that led through a motion: its own position or velocity after each step, or the acceleration or jerk
    at the beginning of it. Raises RecordingError where the motion has no such quantity.
    """
    if len(samples.time) < 2:
        raise RecordingError(f"{samples.source}: expected at least 2 samples, got 1")
    values = getattr(samples, control_space)
    if values is None:
        had = ", ".join(name for name in QUANTITIES if getattr(samples, name) is not None)
        raise RecordingError(f"{samples.source}: expected {control_space} of every joint, got {had} only")
    ahead = control_space in ("position", "velocity")
    actions = np.concatenate([values[1:], values[-1:]]) if ahead else values
    steps = np.diff(samples.time)
    uniform = np.all(np.abs(steps - steps.mean()) <= UNIFORM_TOLERANCE * steps.mean())
    velocity, acceleration, note = _start_derivatives(samples)
    return Sequence(
        samples.joint_names,
        control_space,
        actions[None],
        np.array([steps.mean()]) if uniform else np.concatenate([steps[:1], steps]),
        samples.position[:1],
        velocity,
        acceleration,
        recorded=samples,
        note=note,
    )


def _start_derivatives(samples: Samples) -> tuple[np.ndarray, np.ndarray, str]:
    """Velocity and acceleration [1, D] at the start, by differences where the recording has none, and what was done.

    Where it has positions alone, the start is taken to be without acceleration.
    """
    step, notes = samples.time[1] - samples.time[0], []
    velocity, acceleration = samples.velocity, samples.acceleration
    if acceleration is None and velocity is not None:
        acceleration = np.diff(velocity[:2], axis=0) / step
        notes.append("start acceleration by differences")
    elif acceleration is None:
        acceleration = np.zeros_like(samples.position[:1])
        notes.append("start acceleration 0")
    if velocity is None:
        velocity = np.diff(samples.position[:2], axis=0) / step
        notes.append("start velocity by differences")
    return velocity[:1], acceleration[:1], ", ".join(notes)


def _with_start(
    path: Path,
    joint_names: tuple[str, ...],
    actions: np.ndarray,
    dt: np.ndarray | None,
    control_space: str,
    start: Mapping[str, list[float]],
) -> Sequence:
    dof = len(joint_names)
    rows = {name: _start_row(path, name, values, dof) for name, values in start.items()}
    position = rows.pop("position", np.zeros((1, dof)))
    return Sequence(
        joint_names, control_space, actions[None], dt, position, rows.get("velocity"), rows.get("acceleration")
    )


def _start_row(path: Path, name: str, values: list[float], dof: int) -> np.ndarray:
    if len(values) != dof:
        raise RecordingError(f"--start-{name}: expected {dof} numbers for the joints of {path}, got {len(values)}")
    return np.array([values])


def _of_arrays(path: Path, arrays: Mapping[str, np.ndarray], start: Mapping[str, list[float]]) -> Sequence:
    from ..motions.read_npz import joint_names, numbers

    actions = numbers(path, "actions", arrays["actions"])
    actions = actions[None] if actions.ndim == 2 else actions
    if actions.ndim != 3 or actions.size == 0:
        raise RecordingError(f"{path}: expected actions of shape [Ha, D] or [B, Ha, D], got {list(actions.shape)}")
    dof = actions.shape[2]
    rows = {name: _start_row(path, name, values, dof) for name, values in start.items()}
    for name in ("position", "velocity", "acceleration"):
        if f"start_{name}" in arrays:
            rows[name] = np.atleast_2d(numbers(path, f"start_{name}", arrays[f"start_{name}"]))
    dt = np.atleast_1d(numbers(path, "dt", arrays["dt"])) if "dt" in arrays else None
    space = str(arrays["control_space"]) if "control_space" in arrays else ""
    if space not in ("", *QUANTITIES):
        raise RecordingError(f"{path}: expected control_space one of {', '.join(QUANTITIES)}, got {space!r}")
    return Sequence(
        tuple(joint_names(path, arrays, dof)),
        space,
        actions,
        dt,
        rows.get("position", np.zeros((1, dof))),
        rows.get("velocity"),
        rows.get("acceleration"),
        arrays.get("start_index"),
    )


def _in_bag(path: Path, topic: str | None, start: Mapping[str, list[float]]) -> Iterator[Sequence]:
    """The ActionSequence messages; those without a start begin at the joint state recorded last before them."""
    from ..motions.read_bag import open_bag

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
    if message.control_space > len(QUANTITIES):
        raise RecordingError(f"{where}: expected control_space 0 to 4, got {message.control_space}")
    dt = np.asarray(message.dt, np.float64)
    sequence = Sequence(
        names or tuple(f"joint_{i}" for i in range(dof)),
        ("", *QUANTITIES)[message.control_space],
        np.asarray(message.data, np.float64).reshape(batch, horizon, dof),
        dt.reshape(batch, horizon) if len(dt) == cells and batch > 1 else dt if len(dt) else None,
        np.zeros((1, dof)),
        start_index=np.asarray(message.start_index) if len(message.start_index) else None,
    )
    return dataclasses.replace(sequence, **_start_of(where, message.start, sequence.joint_names, state, start))


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
            f"{where}: it brings no start, and no joint state of its joints came before; give --start-position"
        )
    for name, values in fields.items():
        if len(values) % dof:
            raise RecordingError(f"{where}: expected start.{name} of rows of {dof} numbers, got {len(values)}")
    return {
        f"start_{name}": np.asarray(values, np.float64).reshape(-1, dof)
        for name, values in fields.items()
        if len(values)
    }
