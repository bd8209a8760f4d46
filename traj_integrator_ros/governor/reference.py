"""The interpolants of a plan: the motions that it means, from its origin on. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.interpolant import fit
from ..execution.motion import Motion, State, resting
from ..execution.rows import rests_at_end
from ..execution.steps import Steps
from ..execution.stopping import fastest_to
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, whole_ns
from ..limits.joint_limits import JointLimits
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason
from .complete_plan import motions_of
from .plan_rows import motion_between, rows_of

_NO_LIMITS = JointLimits()
_OF_SPEED = 0.8
"""Share of the limit of velocity with which a gripper goes to rows that jump: splines through such rows are faster."""


class PlannedMotion(NamedTuple):
    """A plan as a motion on the node's clock. It rests from its end on, unless it is planned to end in motion."""

    start_ns: int
    motion: Motion
    is_complete: bool = False
    """True for an interpolant of a complete plan, which may have several; they are tried in order."""
    keeps_limits: bool = False
    """True if the points keep the limits, although the interpolation may exceed them (see `complete_plan`)."""
    passes: np.ndarray | None = None
    """Times of the motion at the points of a complete plan, s, `[N]`; None: those of the plan."""
    steps: Steps | None = None
    """Steps of switched joints, by the motion's time; these joints stand in the motion. None: no joint is switched."""
    why_slow: str = ""
    """Why the times of a path are longer than usual; empty if they are not, or were given."""

    @property
    def valid_from_ns(self) -> int:
        """Time, ns, from which on the motion is the plan's."""
        return self.start_ns + whole_ns(self.motion.plan_from)

    def state_at(self, time_ns: int) -> State:
        """Return the state at a time, ns; before the start, the first state."""
        return self.motion.state_at(max(time_ns - self.start_ns, 0) * NANOSECOND_S)

    def rest_from(self, time_ns: int) -> Motion:
        """Return the motion from a time on, or from its start if that is later; at least a moment of rest."""
        into = max(time_ns - self.start_ns, 0) * NANOSECOND_S
        if into <= 0:
            return self.motion
        if into >= self.motion.duration - ROUNDING:
            return resting(self.motion.end.position, MOMENT_S)
        return self.motion.from_time(into)

    def ending(self, time_ns: int) -> PlannedMotion:
        """Return a copy of what is planned until a time, ns, or of its first millisecond if that is later."""
        lasts = max((time_ns - self.start_ns) * NANOSECOND_S, MOMENT_S)
        if lasts >= self.motion.duration:
            return self
        part = self.motion.until(lasts)
        return self._replace(motion=part._replace(coefficients=part.coefficients.copy()))

    def remainder(self, blend_ns: int) -> Motion:
        """Return the motion from a time on; if it begins later, its first segment is extended backwards."""
        early = (self.start_ns - blend_ns) * NANOSECOND_S
        return self.motion.begun_earlier(early) if early > 0 else self.rest_from(blend_ns)

    def between(self, begin_ns: int, end_ns: int) -> Motion:
        """Return the motion between two times, ns, with rest after its end."""
        span = (end_ns - begin_ns) * NANOSECOND_S
        into, until = (begin_ns - self.start_ns) * NANOSECOND_S, (end_ns - self.start_ns) * NANOSECOND_S
        if 0 <= into < until <= self.motion.duration:  # This is nearly always so, and only this part is copied.
            part = self.motion.until(until).from_time(into)
            part.knots[-1] = span  # The end is reached without rounding.
            return part
        motion = self.rest_from(begin_ns)
        if self.start_ns > begin_ns:
            motion = resting(motion.begin.position, (self.start_ns - begin_ns) * NANOSECOND_S).then(motion)
        missing = span - motion.duration
        if missing <= ROUNDING:
            return motion.until(min(span, motion.duration))
        return motion.then(resting(motion.end.position, missing))


class Interpolation(NamedTuple):
    """What the interpolation of a plan depends on besides the plan."""

    rest_tolerance: float
    """Speed up to which a plan counts as resting, rad/s."""
    assumed: Bounds
    """Limits, with assumed values where none is given."""
    limits: JointLimits = _NO_LIMITS
    """Limits as given."""
    switched: np.ndarray | None = None
    """Indices of joints whose rows are steps; None: no joint's are."""
    grippers: np.ndarray | None = None
    """Joints, bool `[dof]`, whose rows may jump: they go there as fast as they can; None: no joint does."""
    slows: bool = False
    """True if a complete plan may end later, because it exceeds limits and is to be slowed."""


def references(
    plan: Plan, origin_ns: int, at_ns: int, commanded: Callable[[int], State], interpolation: Interpolation
) -> Iterator[PlannedMotion]:
    """Yield the interpolant of a plan; for a complete plan, all of them, the best first (`complete_plan`).

    `interpolant` gives that of rows of positions or velocities; held accelerations, held jerks and control points are
    polynomials already. One position, or the same one in all rows, is a goal: joints go there as fast as limits allow.

    Args:
        plan: with all positions finite.
        origin_ns: when its first step begins, ns.
        at_ns: when it begins to be executed, ns.
        commanded: returns the commanded state at a time, ns.
        interpolation: see `Interpolation`.

    """
    if interpolation.switched is not None:
        joints, rest = interpolation.switched, interpolation._replace(switched=None)
        held = commanded(at_ns).position[joints]

        def standing(time_ns: int) -> State:
            return commanded(time_ns).held(joints, held)

        for planned in references(_plan_with_held(plan, joints, held), origin_ns, at_ns, standing, rest):
            steps = steps_of_rows(plan, joints, plan.ends if planned.passes is None else planned.passes)
            yield planned._replace(steps=steps.later((origin_ns - planned.start_ns) * NANOSECOND_S))
        return
    if not len(plan.steps):
        yield PlannedMotion(origin_ns, resting(plan.start.position, MOMENT_S))
        return
    if plan.is_complete:
        given = commanded(origin_ns), interpolation.limits, interpolation.assumed
        for motion, keeps, passes in motions_of(plan, *given, slows=interpolation.slows):
            yield PlannedMotion(origin_ns, motion, is_complete=True, keeps_limits=keeps, passes=passes)
        return
    is_limited = bool(np.isfinite(interpolation.assumed.velocity).all())
    if is_limited and plan.is_positions and plan.spline is None and (plan.actions == plan.actions[0]).all():
        yield _goal(plan, origin_ns, at_ns, commanded(at_ns), interpolation)
        return
    yield _chunk(plan, origin_ns, plan.start or commanded(origin_ns), interpolation)


def _goal(plan: Plan, origin_ns: int, at_ns: int, begin: State, interpolation: Interpolation) -> PlannedMotion:
    """Return the fastest motion to the only position of a plan. Raises Rejected: limits_violated."""
    arrival = max((origin_ns - at_ns) * NANOSECOND_S + float(plan.steps[0]), 0.0)
    try:
        return PlannedMotion(at_ns, fastest_to(plan.actions[0], begin, interpolation.assumed, arrival))
    except ValueError as error:
        raise Rejected(RejectionReason.LIMITS, f"motion: {error}") from None


def _chunk(plan: Plan, origin_ns: int, begin: State, interpolation: Interpolation) -> PlannedMotion:
    """Return the interpolant of a chunk that begins in a state."""
    if plan.is_positions and plan.spline is None and interpolation.grippers is not None:
        plan = _paced(plan, begin.position, interpolation.assumed.velocity, interpolation.grippers)
    states = rows_of(plan, begin)
    if (motion := motion_between(plan, states)) is not None:
        return PlannedMotion(origin_ns, motion)
    steps, rows = plan.steps, states[0]
    rests = rests_at_end(rows, float(steps[-1]), interpolation.rest_tolerance)
    if plan.is_velocities:
        return PlannedMotion(origin_ns, fit(steps, plan.actions, rests, start=rows[0]).motion)
    if plan.is_positions and plan.start is None:  # It begins with its own first row.
        origin_ns, steps, rows = origin_ns + whole_ns(float(steps[0])), steps[1:], rows[1:]
    return PlannedMotion(origin_ns, fit(steps, rows, rests).motion)


def _paced(plan: Plan, begin: np.ndarray, fastest: np.ndarray, chosen: np.ndarray) -> Plan:
    """Return the plan whose chosen joints, bool `[dof]`, go to their rows no faster than they can, rad/s."""
    steps, actions = _OF_SPEED * plan.steps[:, None] * fastest, plan.actions
    moves = np.abs(np.diff(actions, axis=0, prepend=begin[None]))
    if not (chosen & (moves > steps)).any():
        return plan
    rows, place = actions.copy(), begin
    for row, step in zip(rows, steps, strict=True):
        row[chosen] = place[chosen] + np.clip(row - place, -step, step)[chosen]
        place = row
    return replace(plan, actions=rows)


def steps_of_rows(plan: Plan, joints: np.ndarray, ends: np.ndarray) -> Steps:
    """Return the rows of switched joints as steps, each at the end of its step, s `[N]`.

    Control points of splines are spread evenly over its segments.
    """
    if not len(ends):
        return Steps(joints, np.zeros(1), plan.start.position[None, joints])
    rows = plan.actions[:, joints]
    if len(rows) != len(ends):
        rows = rows[np.rint(np.linspace(0, len(rows) - 1, len(ends))).astype(int)]
    return Steps(joints, ends, rows)


def _plan_with_held(plan: Plan, joints: np.ndarray, held: np.ndarray) -> Plan:
    """Return a plan in which some joints keep a position, rad, `[k]`."""
    actions = plan.actions.copy()
    if len(actions):
        actions[:, joints] = held if plan.is_positions or plan.spline is not None else 0.0
    changes: dict[str, object] = {"actions": actions}
    for name in ("start", "goal"):
        if (state := getattr(plan, name)) is not None:
            changes[name] = state.held(joints, held)
    for name in ("velocities", "accelerations"):
        if (values := getattr(plan, name)) is not None:
            changes[name] = values = values.copy()
            values[:, joints] = np.where(np.isnan(values[:, joints]), np.nan, 0.0)
    return replace(plan, **changes)


def stops_of(plan: Plan) -> np.ndarray:
    """Return which joints stop as fast as they may, bool `[dof]`: all their velocities are 0, or they are left out."""
    if plan.left_out is not None:
        return plan.left_out
    if not plan.is_velocities or not len(plan.steps):
        return np.zeros(plan.actions.shape[1] if plan.actions.ndim == 2 else 0, bool)
    return ~plan.actions.any(axis=0)
