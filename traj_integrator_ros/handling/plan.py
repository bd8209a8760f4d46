"""What a sender wants of one trajectory: steps and actions, and when the first step begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..engine.integrator import StartState
from ..execution.motion import State
from ..execution.rows import Hold, action_steps
from ..kernels import SplineForm
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
    spline: SplineForm | None = None
    """Where the actions are control points: of which spline; the steps are its segments, and `hold` says nothing."""
    goal: State | None = None
    """Of a spline: the state that it ends in."""

    @cached_property
    def ends(self) -> np.ndarray:
        """When each step is over, s from the origin, `[H]`."""
        return self.steps.cumsum()

    @property
    def is_chunk(self) -> bool:
        """Whether its actions are positions at times of the clock: what others may have said for the same times."""
        return bool(self.origin_ns) and self.hold is Hold.POSITION and self.spline is None

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
    actions, goal = request.actions[row].astype(np.float64), _state_of(request.goal, request.goal_index, row)
    start = _state_of(request.start, request.start_index, row)
    spline = request.spline
    if spline is not None:
        segments = _whole_nanoseconds(np.full(spline.segments(request.horizon), spline.steps * dt.ravel()[0]))
        return Plan(Hold.POSITION, segments, actions, start, origin_ns, spline, goal)
    if goal is not None:  # what comes after it would only lead away
        actions[request.control_map.goal_place :] = goal.position
    steps = _whole_nanoseconds(action_steps(dt, request.horizon))
    return Plan(_HOLDS[request.control_map.name], steps, actions, start, origin_ns)


def _whole_nanoseconds(steps: np.ndarray) -> np.ndarray:
    return np.maximum(np.rint(steps * 1e9), 1) * 1e-9


def _decimal(dt: np.ndarray) -> np.ndarray:
    """Step lengths that came as float32 by their 7 digits: 0.05 s, and not a nanosecond more."""
    scale = 10.0 ** (6 - np.floor(np.log10(dt)))
    return np.rint(dt * scale) / scale


def _state_of(rows: StartState | None, row_index: np.ndarray | None, row: int) -> State | None:
    """State of a trajectory among rows; an acceleration that the sequence does not bring is not known."""
    if rows is None:
        return None
    index = row if len(rows.position) > 1 else 0
    if row_index is not None:
        index = int(row_index[row])
    position, velocity, acceleration = (
        None if values is None else np.asarray(values[index], np.float64) for values in rows.rows
    )
    return State(position, np.zeros_like(position) if velocity is None else velocity, acceleration)
