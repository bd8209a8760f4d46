"""What a sender wants of one trajectory: steps and actions, and when the first step begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..execution.motion import State
from ..execution.rows import Hold, action_steps
from .requests import ActionRequest

_HOLDS = {
    "clique": Hold.POSITION,
    "clique_central": Hold.POSITION,
    "velocity": Hold.VELOCITY,
    "acceleration_zoh": Hold.ACCELERATION,
    "acceleration_semi_implicit_euler": Hold.ACCELERATION_SEMI_IMPLICIT,
    "jerk": Hold.JERK,
}
"""What an action says about its step, by the name of the control map."""


@dataclass(frozen=True)
class Plan:
    """One trajectory, in the node's joint order; nobody may change the arrays."""

    hold: Hold
    steps: np.ndarray
    """Length of each step, s, in whole nanoseconds, `[H]`; none for a position trajectory of one point at time 0."""
    actions: np.ndarray
    """float64 `[H, dof]`; NaN for joints that a position trajectory leaves out: they hold still."""
    start: State | None
    """State at the origin; None: wherever the robot is. NaN as in actions."""
    origin_ns: int
    """When the first step begins, on the node's clock; 0: when the trajectory starts."""

    @cached_property
    def ends(self) -> np.ndarray:
        """When each step is over, s from the origin, `[H]`."""
        return self.steps.cumsum()

    @property
    def duration(self) -> float:
        """All steps, s."""
        return float(self.ends[-1]) if len(self.steps) else 0.0


def plan_of_sequence(request: ActionRequest, row: int, default_dt: float, origin_ns: int) -> Plan:
    """Return one trajectory of a checked sequence as a plan.

    Args:
        request: with actions.
        row: of the batch.
        default_dt: s, where the sequence brings none.
        origin_ns: stamp of the sequence.

    """
    if request.dt is None:
        dt = np.asarray(default_dt)
    else:
        dt = _decimal(np.asarray(request.dt[row] if np.ndim(request.dt) == 2 else request.dt, np.float64))
    return Plan(
        _HOLDS[request.control_map.name],
        np.maximum(np.rint(action_steps(dt, request.horizon) * 1e9), 1) * 1e-9,
        request.actions[row].astype(np.float64),
        _start_of(request, row),
        origin_ns,
    )


def plan_of_rows(times: np.ndarray, positions: np.ndarray, start: State, origin_ns: int) -> Plan:
    """Return rows of a map as a plan of positions, for maps whose actions are not held over a step.

    Args:
        times: of the rows from the start state on, s `[N]`.
        positions: rows, `[N, dof]`, the first of which is the start.
        start: state at the first row.
        origin_ns: stamp of the sequence.

    """
    steps = np.maximum(np.rint(np.diff(times) * 1e9), 1) * 1e-9
    return Plan(Hold.POSITION, steps, positions[1:].astype(np.float64), start, origin_ns)


def is_held(request: ActionRequest) -> bool:
    """Whether each action is held over a step of its own."""
    return request.control_map.name in _HOLDS


def _decimal(dt: np.ndarray) -> np.ndarray:
    """Step lengths that came as float32 by their 7 digits: 0.05 s, and not a nanosecond more."""
    scale = 10.0 ** (6 - np.floor(np.log10(dt)))
    return np.rint(dt * scale) / scale


def _start_of(request: ActionRequest, row: int) -> State | None:
    """State that a trajectory starts from; an acceleration that the sequence does not bring is not known."""
    start = request.start
    if start is None:
        return None
    index = row if len(start.position) > 1 else 0
    if request.start_index is not None:
        index = int(request.start_index[row])
    position, velocity, acceleration = (
        None if rows is None else np.asarray(rows[index], np.float64) for rows in start.rows
    )
    return State(position, np.zeros_like(position) if velocity is None else velocity, acceleration)
