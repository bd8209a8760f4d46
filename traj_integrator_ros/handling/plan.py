"""One trajectory as its sender planned it: steps and actions, and when the first step begins."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

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
"""What an action specifies about its step, by the name of the control map."""


@dataclass(frozen=True)
class Plan:
    """One planned trajectory, in the node's joint order; the arrays must not be changed."""

    hold: Hold
    steps: np.ndarray
    """Length of each step, s, in whole nanoseconds, `[H]`; none for a position trajectory of one point at time 0."""
    actions: np.ndarray
    """float64 `[H, dof]`; NaN for joints that a position trajectory leaves out: they hold their position."""
    start: State | None
    """State at the origin; None: the robot's own state. NaN as in actions."""
    origin_ns: int
    """When the first step begins, ns of the node's clock; 0: when the trajectory starts."""
    spline: SplineForm | None = None
    """Form of the spline if the actions are control points; steps are then segments, and `hold` is unused."""
    goal: State | None = None
    """For a spline: the state in which it ends."""
    left_out: np.ndarray | None = None
    """Joints that a position trajectory does not name, bool `[dof]`; None: it names all."""
    untimed: bool = False
    """Whether its actions are a path without times: it has no steps, and is passed as fast as limits allow."""
    stamp_ns: int = 0
    """Of the message, which is told where it is refused, ns."""
    topic: str = "action_sequence"
    """Where the message came."""
    making: float = 0.0
    """How long its trajectory takes to be made, s, beyond what publish.lead_time allows for."""

    @cached_property
    def ends(self) -> np.ndarray:
        """End of each step, s from the origin, `[H]`."""
        return self.steps.cumsum()

    @property
    def is_chunk(self) -> bool:
        """Whether its actions are positions at times of the clock, for which other chunks may have positions, too."""
        return bool(self.origin_ns) and self.hold is Hold.POSITION and self.spline is None and not self.untimed

    @property
    def duration(self) -> float:
        """Duration of all steps, s."""
        return float(self.ends[-1]) if len(self.steps) else 0.0


def plan_of_sequence(request: ActionRequest, row: int, default_dt: float, origin_ns: int, stamp_ns: int = 0) -> Plan:
    """Return one trajectory of a checked sequence as a plan.

    Args:
        request: with actions.
        row: of the batch.
        default_dt: s, used if the sequence gives none.
        origin_ns: when the first step begins, ns; 0: when the trajectory starts.
        stamp_ns: of the sequence.

    """
    dt = request.dt
    if isinstance(dt, np.ndarray) and dt.ndim == 2:
        dt = dt[row]
    actions, goal = request.actions[row].astype(np.float64), _state_of(request.goal, request.goal_index, row)
    start = _state_of(request.start, request.start_index, row)
    spline = request.spline
    if spline is not None:
        step = default_dt if dt is None else _decimal(dt).ravel()[0]
        segments = _whole_nanoseconds(np.full(spline.segments(request.horizon), spline.steps * step))
        return Plan(Hold.POSITION, segments, actions, start, origin_ns, spline, goal, stamp_ns=stamp_ns)
    if goal is not None:  # later rows would only lead away from the goal
        actions[request.control_map.goal_place :] = goal.position
    if dt is None:
        steps = _equal_steps(default_dt, True, request.horizon)
    elif isinstance(dt, float):
        steps = _equal_steps(dt, False, request.horizon)
    else:
        steps = _whole_nanoseconds(action_steps(_decimal(dt), request.horizon))
    return Plan(_HOLDS[request.control_map.name], steps, actions, start, origin_ns, stamp_ns=stamp_ns)


@lru_cache(maxsize=32)
def _equal_steps(dt: float, is_exact: bool, horizon: int) -> np.ndarray:
    """Steps of one length, in whole nanoseconds; cached, so they must not be changed."""
    steps = _whole_nanoseconds(action_steps(dt if is_exact else _decimal(dt), horizon))
    steps.flags.writeable = False
    return steps


def _whole_nanoseconds(steps: np.ndarray) -> np.ndarray:
    return np.maximum(np.rint(steps * 1e9), 1) * 1e-9


def _decimal(dt: np.ndarray | float) -> np.ndarray:
    """Step lengths in float64; those from float32 rounded to 7 digits: 0.05 s is 50 ms to the nanosecond."""
    if isinstance(dt, np.ndarray) and dt.dtype == np.float64:
        return dt
    dt = np.asarray(dt, np.float64)
    scale = 10.0 ** (6 - np.floor(np.log10(dt)))
    return np.rint(dt * scale) / scale


def _state_of(rows: StartState | None, row_index: np.ndarray | None, row: int) -> State | None:
    """State of a trajectory from the rows; an acceleration that the sequence does not give is unknown."""
    if rows is None:
        return None
    index = row if len(rows.position) > 1 else 0
    if row_index is not None:
        index = int(row_index[row])
    position, velocity, acceleration = [
        None if values is None else values[index].astype(np.float64) for values in rows.rows
    ]
    return State(position, np.zeros(position.shape) if velocity is None else velocity, acceleration)
