"""A plan: one trajectory as its sender planned it. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np

from ..engine.call import Ends
from ..execution.motion import Motion, State
from ..execution.rows import action_steps
from ..kernels import ControlMap, ControlSpace, SplineForm
from .sequences import ActionRequest

SEQUENCES = "action_sequence"
"""The `topic` of plans that are action sequences."""
GOALS = "follow_joint_trajectory"
"""The `topic` of plans that are goals of the action."""


@dataclass(frozen=True, eq=False)
class Plan:
    """One planned trajectory, in the node's joint order; the arrays must not be changed. Equality is identity."""

    map: ControlMap
    """The control map, whose kernel computes the rows of the actions."""
    steps: np.ndarray
    """Duration of each step, s, in whole nanoseconds, `[H]`; empty for a single point at time 0."""
    actions: np.ndarray
    """Actions, float64 `[H, dof]`; NaN for joints that a position trajectory leaves out, which hold their position."""
    start: State | None
    """State at the origin, with NaN as in `actions`; None means the robot's own state."""
    origin_ns: int
    """When the first step begins, ns of the node's clock; 0: when the trajectory starts."""
    spline: SplineForm | None = None
    """Form of the spline if the actions are control points; then a step is a segment of the spline."""
    goal: State | None = None
    """End state of a spline."""
    left_out: np.ndarray | None = None
    """Joints that a position trajectory does not name, bool `[dof]`; None if it names all."""
    untimed: bool = False
    """True if the actions are a path without times, and so without steps: it is passed as fast as limits allow."""
    stamp_ns: int = 0
    """Stamp of the message, ns, which its rejection repeats."""
    topic: str = SEQUENCES
    """Topic or service of the message."""
    is_complete: bool = False
    """True if it ends at rest at its last position, which is its goal; otherwise another plan may follow."""
    velocities: np.ndarray | None = None
    """Velocities of a complete plan at its origin and at the end of each step, rad/s, `[H + 1, dof]`. NaN marks joints
    that are left out, points without velocities, and an origin that is no point. None if no point has velocities.
    """
    accelerations: np.ndarray | None = None
    """Accelerations, rad/s^2, in the same form; they exist only at points with velocities."""
    received_ns: int = 0
    """When the message arrived, ns of the node's clock."""

    @cached_property
    def ends(self) -> np.ndarray:
        """End of each step, s from the origin, `[H]`."""
        return self.steps.cumsum()

    @property
    def is_positions(self) -> bool:
        """Whether the actions are positions at the ends of steps."""
        return self.map.control_space is ControlSpace.POSITION

    @property
    def is_velocities(self) -> bool:
        """Whether the actions are mean velocities of steps."""
        return self.map.control_space is ControlSpace.VELOCITY

    @property
    def holds_accelerations(self) -> bool:
        """Whether the actions are accelerations, which are held over steps."""
        return self.map.control_space is ControlSpace.ACCELERATION

    @cached_property
    def pace(self) -> np.ndarray:
        """Largest mean speed from one position to the next, rad/s, `[dof]`; 0 for a single position."""
        if len(self.steps) < 2 or len(self.actions) < 2:
            return np.zeros(self.actions.shape[1])
        steps = self.steps[1:, None] if self.spline is None else self.steps[0]
        return (np.abs(np.diff(self.actions, axis=0)) / steps).max(axis=0)

    @property
    def duration(self) -> float:
        """Duration of all steps, s."""
        return float(self.ends[-1]) if len(self.steps) else 0.0

    def completed(self, before: Motion, turning: np.ndarray) -> Plan:
        """Let joints that are left out rest at the end of a motion, and move continuous joints next to it."""
        if self.left_out is None and not np.count_nonzero(turning):
            return self
        position, start, actions = before.end.position, self.start, self.actions
        changes: dict[str, object] = {}
        if start is not None:
            where = turned(_filled(start.position, position), position, turning)
            rates = (None if part is None else _filled(part, 0.0) for part in start[1:])
            changes["start"] = start = State(where, *rates)
        if (self.is_positions or self.spline is not None) and len(actions):
            actions = _filled(actions, position)
            if np.count_nonzero(turning):
                rows = np.vstack([position if start is None else start.position, actions])
                rows[:, turning] = np.unwrap(rows[:, turning], axis=0)
                actions = rows[1:]
            changes["actions"] = actions
        if self.goal is not None and len(actions):
            changes["goal"] = self.goal._replace(position=turned(self.goal.position, actions[-1], turning))
        for name in ("velocities", "accelerations"):
            if (values := getattr(self, name)) is not None:
                given = ~np.isnan(values).all(axis=1, keepdims=True)
                changes[name] = np.where(given, _filled(values, 0.0), np.nan)
        return replace(self, **changes)


def _filled(values: np.ndarray, otherwise: np.ndarray | float) -> np.ndarray:
    """Return values with NaN replaced."""
    return np.where(np.isnan(values), otherwise, values)


def plan_of_sequence(
    request: ActionRequest, row: int, default_dt: float, origin_ns: int, stamp_ns: int = 0, now_ns: int = 0
) -> Plan:
    """Return one trajectory of a checked sequence as a plan.

    Args:
        request: with actions.
        row: index of the trajectory in the batch.
        default_dt: time step, s, if the sequence gives none.
        origin_ns: when the first step begins, ns; 0: when the trajectory starts.
        stamp_ns: of the sequence, ns.
        now_ns: when the sequence arrived, ns.

    """
    dt = request.dt
    if isinstance(dt, np.ndarray) and dt.ndim == 2:
        dt = dt[row]
    actions, goal = request.actions[row].astype(np.float64), _state_of(request.goal, row)
    start = _state_of(request.start, row)
    spline, came = request.spline, {"stamp_ns": stamp_ns, "received_ns": now_ns}
    if spline is not None:
        step = default_dt if dt is None else _decimal(dt).ravel()[0]
        segments = _whole_nanoseconds(np.full(spline.segments(request.horizon), spline.steps * step))
        return Plan(request.control_map, segments, actions, start, origin_ns, spline, goal, **came)
    if goal is not None:  # Later rows would only lead away from the goal.
        actions[request.control_map.goal_place :] = goal.position
    if dt is None:
        steps = _equal_steps(default_dt, True, request.horizon)
    elif isinstance(dt, float):
        steps = _equal_steps(dt, False, request.horizon)
    else:
        steps = _whole_nanoseconds(action_steps(_decimal(dt), request.horizon))
    return Plan(request.control_map, steps, actions, start, origin_ns, **came)


@lru_cache(maxsize=32)
def _equal_steps(dt: float, is_exact: bool, horizon: int) -> np.ndarray:
    """Return equal steps in whole nanoseconds; they are cached and must not be changed."""
    steps = _whole_nanoseconds(action_steps(dt if is_exact else _decimal(dt), horizon))
    steps.flags.writeable = False
    return steps


def _whole_nanoseconds(steps: np.ndarray) -> np.ndarray:
    return np.maximum(np.rint(steps * 1e9), 1) * 1e-9


def _decimal(dt: np.ndarray | float) -> np.ndarray:
    """Convert step lengths to float64; float32 is rounded to 7 digits, so that 0.05 s is 50 ms to the nanosecond."""
    if isinstance(dt, np.ndarray) and dt.dtype == np.float64:
        return dt
    dt = np.asarray(dt, np.float64)
    scale = 10.0 ** (6 - np.floor(np.log10(dt)))
    return np.rint(dt * scale) / scale


def _state_of(ends: Ends, row: int) -> State | None:
    """Return the state of a trajectory from the rows; an acceleration that the sequence does not give is unknown."""
    if not ends.rows:
        return None
    index = min(row, ends.count - 1) if ends.index is None else int(ends.index[row])
    given = [None if values is None else values[index].astype(np.float64) for values in ends.rows]
    position, velocity, acceleration = given + [None] * (3 - len(given))
    return State(position, np.zeros(position.shape) if velocity is None else velocity, acceleration)


def turned(position: np.ndarray, near: np.ndarray, turning: np.ndarray) -> np.ndarray:
    """Move continuous joints, bool `[dof]`, by whole turns from `position` to next to `near`, rad, `[dof]`."""
    if not np.count_nonzero(turning):
        return position
    return position + np.where(turning, 2 * np.pi * np.rint((near - position) / (2 * np.pi)), 0.0)
