"""From a plan to its planned motion, a motion from its origin on, in all possible readings. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import extremes, keeps
from ..execution.motion import Motion, State, resting
from ..execution.rows import cubic_spline, rests_at_end, settle, taken_up
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, whole_ns
from ..limits.joint_limits import JointLimits
from ..requests.plan import Plan
from . import smoothing
from .complete_plan import motions_of
from .plan_rows import motion_between, rows_of

_ROWS_PER_KNOT = (2, 4, 8)
"""Rows per knot of splines near noisy rows, tried in this order: the nearest first."""
_RINGS, _RINGS_AT_KNOTS = 5e-3, 2e-4
"""Shares of a joint's range by which a spline may ring beyond a limit, between rows and where its end fades."""
_NO_LIMITS = JointLimits()


class PlannedMotion(NamedTuple):
    """A plan as a motion on the node's clock; from its end on it rests, unless it ends in motion as planned."""

    start_ns: int
    motion: Motion
    is_complete: bool = False
    """True if it belongs to a complete plan, whose planned motions come in the order in which they are tried."""
    keeps_limits: bool = False
    """True if its points keep limits that the interpolation between them may exceed (see `complete_plan`)."""
    said: str = ""
    """Why it is slower than usual, if it was timed; empty if it is not."""
    pace: np.ndarray | float = np.inf
    """Speed, rad/s, `[dof]`, at which its plan goes; infinite: it leads to a goal, as fast as limits allow."""

    @property
    def valid_from_ns(self) -> int:
        """From here on, the motion is the plan's."""
        return self.start_ns + whole_ns(self.motion.plan_from)

    def state_at(self, time_ns: int) -> State:
        """State at a time; before the start, the first state."""
        return self.motion.state_at(max(time_ns - self.start_ns, 0) * NANOSECOND_S)

    def is_braking(self, time_ns: int) -> bool:
        """Return whether the plan is over at a time, but not yet at rest."""
        return self.motion.plan_until <= (time_ns - self.start_ns) * NANOSECOND_S < self.motion.duration

    def rest_from(self, time_ns: int) -> Motion:
        """The rest of the motion at a time, at least a moment of rest; from its start if that is later."""
        into = max(time_ns - self.start_ns, 0) * NANOSECOND_S
        if into <= 0:
            return self.motion
        if into >= self.motion.duration - ROUNDING:
            return resting(self.motion.end.position, MOMENT_S)
        return self.motion.from_time(into)

    def remainder(self, join_ns: int) -> Motion:
        """The rest of the motion at a time; if it begins later, its first piece is continued backwards until then."""
        early = (self.start_ns - join_ns) * NANOSECOND_S
        return self.motion.begun_earlier(early) if early > 0 else self.rest_from(join_ns)

    def unbraked_from(self, time_ns: int) -> Motion | None:
        """The rest of the motion at a time, until it is a brake; None: at most a moment of it."""
        into, until = (time_ns - self.start_ns) * NANOSECOND_S, min(self.motion.plan_until, self.motion.duration)
        return self.motion.until(until).from_time(into) if 0 <= into < until - MOMENT_S else None

    def between(self, begin_ns: int, end_ns: int) -> Motion:
        """The motion between two times, followed by rest where it ends before."""
        span = (end_ns - begin_ns) * NANOSECOND_S
        into, until = (begin_ns - self.start_ns) * NANOSECOND_S, (end_ns - self.start_ns) * NANOSECOND_S
        if 0 <= into < until <= self.motion.duration:  # nearly always: only this part is copied
            part = self.motion.until(until).from_time(into)
            part.knots[-1] = span  # without rounding
            return part
        motion = self.rest_from(begin_ns)
        if self.start_ns > begin_ns:
            motion = resting(motion.begin.position, (self.start_ns - begin_ns) * NANOSECOND_S).then(motion)
        missing = span - motion.duration
        if missing <= ROUNDING:
            return motion.until(min(span, motion.duration))
        return motion.then(resting(motion.end.position, missing))


class Reading(NamedTuple):
    """The context of reading a plan."""

    rest_tolerance: float
    """Speed up to which a plan counts as resting, rad/s."""
    fade_time: float
    """Time within which the last acceleration of a plan that ends at rest goes to 0, s."""
    assumed: Bounds
    """Limits, assumed where none are given."""
    limits: JointLimits = _NO_LIMITS
    """Limits that are given."""
    slows: bool = False
    """True if plans that exceed limits are slowed: then they end at their last row, whatever that asks for."""


def references(
    plan: Plan,
    origin_ns: int,
    at_ns: int,
    previous: Callable[[int], PlannedMotion],
    reading: Reading,
) -> Iterator[PlannedMotion]:
    """Yield the planned motions of a plan, the most exact first: later ones are for when those before exceed limits.

    A complete plan has motions of its own (`complete_plan`). A plan with a start begins there. Any other continues the
    previous plan, unless positions say that it is another one: then their spline begins with the first of them. At
    last, noise is taken out of positions by a spline with fewer knots.

    Args:
        plan: with all positions finite.
        origin_ns: when its first step begins, ns.
        at_ns: when it is taken up, ns; not before the origin.
        previous: the previous plan by the time, ns, that it is known for.
        reading: see `Reading`.

    """
    if not len(plan.steps):
        yield PlannedMotion(origin_ns, resting(plan.start.position, MOMENT_S))
        return
    before = plan.start or previous(origin_ns).state_at(origin_ns)
    if plan.is_complete:
        own = previous(origin_ns).state_at(origin_ns)
        given = reading.fade_time, reading.limits, reading.assumed
        for motion, keeps in motions_of(plan, own, *given, slows=reading.slows):
            yield PlannedMotion(origin_ns, motion, is_complete=True, keeps_limits=keeps)
        return
    states = rows_of(plan, before)
    if (motion := motion_between(plan, states)) is not None:
        yield PlannedMotion(origin_ns, motion)
        return
    whole, absolute = states[0], plan.is_positions
    rows = whole[1:]
    is_goal = absolute and len(rows) == 1  # at which the robot comes to rest
    rests = is_goal or rests_at_end(whole, float(plan.steps[-1]), reading.rest_tolerance)
    pace = np.inf if is_goal or not absolute else plan.pace
    # Velocities that continued a brake would begin with a velocity that nobody planned.
    if plan.start is not None or (
        _continues(plan, origin_ns, at_ns) if absolute else not previous(origin_ns).is_braking(origin_ns)
    ):
        comes_to_rest = rests and len(rows) == 1  # within its only step
        begin = before._replace(acceleration=None) if plan.start is None or comes_to_rest else before
        for through in _through(plan.steps, whole, begin, rests, reading):
            yield PlannedMotion(origin_ns, through, pace=pace)
    first_ns, steps = origin_ns, plan.steps
    if absolute:
        if len(steps) == 1:
            yield _goal(origin_ns, rows[0], float(steps[0]))
            return
        first_ns, steps = origin_ns + whole_ns(float(steps[0])), steps[1:]
    else:
        rows = whole
    for alone in _alone(steps, rows, rests, reading):
        yield PlannedMotion(first_ns, alone, pace=pace)
    if absolute and rests and len(steps) == 1:
        yield _goal(first_ns, rows[-1], float(steps[0]))


def _goal(start_ns: int, place: np.ndarray, lasts: float) -> PlannedMotion:
    """The planned motion that says only where the robot rests after a time, s."""
    return PlannedMotion(start_ns, resting(place, lasts)._replace(plan_from=lasts))


def stops_of(plan: Plan) -> np.ndarray:
    """Flags of joints that stop wherever they come to rest, bool `[dof]`: by velocities of 0, or left out."""
    if plan.left_out is not None:
        return plan.left_out
    if not plan.is_velocities or not len(plan.steps):
        return np.zeros(plan.actions.shape[1] if plan.actions.ndim == 2 else 0, bool)
    return ~plan.actions.any(axis=0)


def _through(
    steps: np.ndarray, rows: np.ndarray, begin: State | None, rests: bool, reading: Reading
) -> Iterator[Motion]:
    """Yield motions through rows `[N + 1, dof]`, the most exact first.

    A plan that rests at its end may ask for more jerk there than anywhere else: a motion that passes the last row, and
    is braked behind it, follows, unless the plan stands at the last row before its last step.

    Args:
        steps: time between the rows, s, `[N]`.
        rows: rad, or m.
        begin: state at the first row; None: any velocity.
        rests: whether the plan rests at its end.
        reading: see `Reading`.

    """
    velocity, acceleration = begin and begin.velocity, begin and begin.acceleration
    slows_down = len(rows) > 2 and (rows[-1] != rows[-2]).any() and not reading.slows
    at_rest = [cubic_spline(steps, rows, velocity, ends_at_rest=True)] if rests else []
    for spline in chain(at_rest, _open(steps, rows, velocity) if slows_down or not rests else ()):
        taken = spline if acceleration is None else taken_up(spline, acceleration, reading.fade_time)
        yield settle(taken, reading.fade_time) if spline.ends_at_rest else taken


def _open(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray | None) -> Iterator[Motion]:
    """Yield splines through rows `[N + 1, dof]` to an end in motion.

    The deceleration of a joint that comes to rest within the last step would lead it back from the last row, and the
    brake still further; so would noise that turned it at the row before. In the first spline, such joints rest at the
    last row; the last one has no such joints, or leads them back.
    """
    spline, way = cubic_spline(steps, rows, velocity), rows[-1] - rows[-2]
    back = spline.coefficients[-1, 1] * way > 2 * way**2 / steps[-1]  # its last piece has no jerk
    turned = np.sign(way) * (rows[-2] - rows[-3:][0]) < -ROUNDING
    back |= turned & (np.abs(way) <= smoothing.MOST_MOVED_RAD)  # a longer turn is a plan's own
    if np.count_nonzero(back):
        at_rest = cubic_spline(steps, rows, velocity, ends_at_rest=True)
        yield spline._replace(coefficients=np.where(back, at_rest.coefficients, spline.coefficients))
    yield spline


def _continues(plan: Plan, origin_ns: int, at_ns: int) -> bool:
    """Return whether positions continue the previous plan: none of them is over yet, and they do not hold a position.

    Positions that are over may belong to another plan, and a spline to a held position would swing.
    """
    is_over = plan.steps[0] <= (at_ns - origin_ns) * NANOSECOND_S
    return not is_over and (len(plan.actions) == 1 or bool((plan.actions != plan.actions[0]).any()))


def _alone(steps: np.ndarray, rows: np.ndarray, rests: bool, reading: Reading) -> Iterator[Motion]:
    """Yield the spline through rows `[N + 1, dof]`, and smoother ones near those that are noisy."""
    yield from _through(steps, rows, None, rests, reading)
    noise = smoothing.noise_of(rows)  # not before: most plans need no smoother spline
    for stride in _ROWS_PER_KNOT if noise.any() else ():
        if len(steps) < 2 * stride:
            break
        fitted = smoothing.fitted(steps, rows, noise, rests, stride)
        if fitted is not None:
            yield from _through(steps, fitted, None, rests, reading)


def inside(planned: PlannedMotion, join_ns: int, bounds: Bounds) -> PlannedMotion:
    """A planned motion within bounds of position, if its rows are within, and it goes a little beyond between them.

    A spline that comes to rest at a limit rings by up to a thousandth of its way there: that joint goes that much
    less far.
    """
    valid, low, high = planned.remainder(join_ns).valid, bounds.position_min, bounds.position_max
    if keeps(valid, bounds.sides):  # takes a quarter of the time of all extremes
        return planned
    least, most = extremes(valid)[:, 0]
    beyond = np.maximum(low - least, most - high)
    if not (beyond > 0).any():
        return planned
    knots = np.vstack([valid.coefficients[:, 0], valid.end.position])
    knots_beyond = np.maximum(low - knots, knots - high).max(axis=0)
    size = np.where(np.isfinite(high - low), high - low, most - least)
    joints = (beyond > 0) & (beyond <= _RINGS * size) & (knots_beyond <= _RINGS_AT_KNOTS * size)
    span, lowest = most - least, np.clip(least, low, high)
    share = np.where(span > 0, (np.clip(most, low, high) - lowest) / np.where(span > 0, span, 1.0), 1.0)
    share = np.where(joints, share, 1.0)
    by = np.where(joints, lowest - share * least, 0.0)
    return planned._replace(motion=planned.motion.scaled(share).moved(by))
