"""Ways from the controller's present command to a plan: read, joined, stopped at the end, slowed if need be. No ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..execution.join import Joining, join
from ..execution.limits import Bounds, extremes
from ..execution.motion import Motion, State, united
from ..execution.reaching import stops as stops_from
from .courses import Course, Reading, Smoothed
from .ending import stopped_at_end
from .limits import JointLimits, find_motion_violation
from .parameter_table import ACTION_RETIME, ACTION_WARN, END_STOP
from .parameters import NodeParameters
from .rejection import RejectionReason, require_finite
from .retiming import slowed
from .spline_motion import earlier

_NANOSECOND_S = 1e-9
_MOMENT_S = 1e-3
_SAME_END_RAD = 1e-3
_SMOOTHING = 1.5
"""By how much a smoothed plan must ask less than one through its rows: noise asks for much more, a plan does not."""
_SWINGS = 3
"""Pieces in which a spline swings that does not know what was before its first row, or comes after its last."""
_NOT_RINGING = 0.9
"""Share of the jerk of a spline through rows that is the plan's: the rest may be ringing."""
_MOST_SLOWED = 2
"""Readings of a plan that are slowed at most, one after the other, where none of them keeps the limits."""
_ROOM = 1.5
"""Times what a plan asks for: bounds within which it is joined that is slowed afterwards."""


class Way(NamedTuple):
    """A motion from the present command to a plan, and what is left of the plan's own course."""

    joined: Motion
    course: Course
    brakes_at: float | None
    """s from the join; None: the plan ends at rest by itself."""
    own_until: float = np.inf
    """s from the join; see `Course`."""
    delay: float = 0.0
    """By how much the plan was slowed, s."""


class Seam(NamedTuple):
    """Where a plan is taken up, and what every way of joining it is given."""

    state: State
    """Commanded then."""
    join_ns: int
    stops: np.ndarray
    """Joints that stop, bool `[dof]`."""
    floating: np.ndarray
    """Joints whose plan is about velocities, bool `[dof]`."""
    bounds: Bounds
    executed: Motion
    """What is left of the motion in execution."""


class _Left(NamedTuple):
    """What is left of a course when it is taken up."""

    motion: Motion
    earliest: float
    """s; before, it is not the plan's."""
    valid: Motion
    """The motion from there on."""
    own: Motion
    """The part of it that shows how much the plan itself asks for."""
    own_until: float
    """s; the end of that."""
    whole: Motion
    """The course from its start on."""
    into: float
    """s; how much of that is over."""

    def moved(self, by: np.ndarray) -> _Left:
        """The same, shifted by `[dof]`, rad."""
        motions = {name: getattr(self, name).moved(by) for name in ("motion", "valid", "own", "whole")}
        return self._replace(**motions)


class Ways:
    """Finds the ways of joining plans.

    Args:
        parameters: the node's configuration.
        limits: of the joints.
        assumed: bounds of joins and stops: the limits, assumed where there are none.

    """

    def __init__(self, parameters: NodeParameters, limits: JointLimits, assumed: Bounds) -> None:
        self._parameters, self._limits, self._assumed = parameters, limits, assumed
        fade = parameters.publish_fade_time
        self._joining = Joining((fade, fade / 2, fade / 4) if fade > 0 else (), parameters.publish_catch_up)
        self._reading = Reading(parameters.publish_rest_tolerance, fade, assumed.jerk)

    def way(self, read: Callable[[Reading], Iterator[Course]], seam: Seam) -> tuple[Way | None, str]:
        """The first way of joining a plan that keeps its limits, or that can be made to by slowing it.

        Args:
            read: yields the courses of the plan, the most exact first.
            seam: where it is taken up.

        Returns:
            The way, and what is wrong with it: empty if nothing is. None: there is no way.

        Raises:
            Rejected: non_finite_result or brake_impossible.

        """
        finding, reason, fallback = "", "", None
        action = self._parameters.limits_action
        for left in self._gentlest_first(read(self._reading), seam.join_ns, seam.bounds):
            way, violation = self._joined(left, seam, lenient=action == ACTION_WARN)
            if way is not None and not violation:
                return way, ""
            finding = finding or violation
            fallback = fallback or way
        slowly = read(self._reading._replace(slows=True)) if action == ACTION_RETIME else iter(())
        for left in islice(self._gentlest_first(slowly, seam.join_ns, seam.bounds), _MOST_SLOWED):
            way, violation = self._slowed(left, seam)
            if way is None or violation:
                reason = reason or ("" if way else violation)
                way, violation = self._joined(left, seam, slows=True)
            if way is not None and not violation:
                return way, ""
        if reason:
            finding += f"; it cannot be slowed (speeds as parts of the plan's): {reason}"
        return fallback, finding

    def _gentlest_first(self, courses: Iterator[Course], join_ns: int, bounds: Bounds) -> Iterator[_Left]:
        """What is left of courses: as they come while they keep the bounds, the others by how far they exceed them."""
        wilder: list[tuple[float, int, _Left]] = []
        forced: list[Course] = []
        for course in courses:
            require_finite("motion", course.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
            if course.smoothed is Smoothed.FORCED:
                forced.append(course)
                break
            left = _left_of(course, join_ns)
            demands = bounds.demands_of(left.valid)
            if demands.max() <= 1 + self._parameters.limits_tolerance:
                yield left
            else:
                # In steps of 10 %, within which the more exact one comes first; rows are left only for half of it.
                excess = np.log(np.maximum(demands, 1.0)).sum() + np.log(_SMOOTHING) * bool(course.smoothed)
                steps = round(excess / np.log(1.1))
                wilder.append((steps, len(wilder), left))
        for _, _, left in sorted(wilder, key=lambda it: it[:2]):
            yield left
        for course in chain(forced, courses):
            yield _left_of(course, join_ns)

    def _slowed(self, left: _Left, seam: Seam) -> tuple[Way | None, str]:
        """A course joined as if it kept its limits, and then slowed; and what is wrong with it."""
        kept, raised = (replace(seam.bounds, most=most).raised_to(left.valid) for most in (seam.bounds.most, np.inf))
        velocity, acceleration, jerk = (_ROOM * part for part in (raised.velocity, raised.acceleration, raised.jerk))
        free = replace(raised, velocity=velocity, acceleration=acceleration, jerk=jerk, deceleration=None)
        free = free.with_positions_of(seam.bounds)
        way, violation = self._joined(left, seam._replace(bounds=free), judges=False)
        if way is None:
            return None, violation
        found = slowed(way.joined, kept.rates, self._parameters.joint_names, from_state=True)
        if isinstance(found, str):
            return None, found
        brakes_at = None if way.brakes_at is None else found.time(way.brakes_at)
        violation = find_motion_violation(found.motion, self._limits.containing(seam.state.position), brakes_at)
        course = Course(seam.join_ns, found.motion, seam.join_ns + round(found.time(left.earliest) * 1e9))
        delay = found.motion.duration - way.joined.duration
        return Way(found.motion, course, brakes_at, found.time(way.own_until), delay), violation

    def _most_of(self, motion: Motion) -> np.ndarray:
        """Velocity, acceleration and jerk that a motion may use, `[3, dof]`: its own where nobody limits them."""
        return self._assumed.raised_to(motion).rates

    def _joined(
        self,
        left: _Left,
        seam: Seam,
        *,
        slows: bool = False,
        lenient: bool = False,
        judges: bool = True,
        shifted: bool = False,
    ) -> tuple[Way | None, str]:
        """A course with its brake, joined from a state; and what is wrong with it, empty if nothing is.

        With `slows`, it is slowed before that; `lenient`: it is joined although it exceeds limits itself; without
        `judges`, whether it does is not looked for.
        """
        rest, earliest, _, own = left[:4]
        state, join_ns, stops, floating, bounds, executed = seam
        brakes_at, raised = None, bounds.raised_to(own, _NOT_RINGING)
        if self._parameters.publish_end == END_STOP:
            most, tolerance = raised.with_positions_of(bounds), self._parameters.publish_rest_tolerance
            whole = stopped_at_end(rest, most, tolerance, self._parameters.joint_names)
            brakes_at = rest.duration if whole.duration > rest.duration else None
            rest = whole
        if np.count_nonzero(stops):
            rest = _with_stops(rest, state, stops, bounds)
        own_until, delay = left.own_until, 0.0
        if slows and earliest < rest.duration:
            after = _from(rest, earliest)
            found = slowed(after, self._most_of(after))
            if isinstance(found, str):
                return None, found
            delay = found.motion.duration + earliest - rest.duration
            own_until = earliest + found.time(own_until - earliest)
            brakes_at = None if brakes_at is None else earliest + found.time(brakes_at - earliest)
            rest = found.motion if earliest <= 0 else _led_to(found.motion, earliest)
        violation = find_motion_violation(_from(rest, earliest), self._limits, brakes_at) if judges else ""
        if violation and not lenient:
            return None, violation
        floating = floating & ~stops
        pace = _pace(executed, rest.end.position)
        result = join(
            state,
            rest,
            raised,
            self._joining,
            earliest=earliest,
            floating=floating,
            pace=pace,
            executed=executed,
            own_until=own_until,
            brakes_at=brakes_at,
        )
        if result is None:
            return None, violation or "motion: the plan cannot be joined from the present command within the limits"
        joined, shift = result
        if judges and joined is not rest and not violation:
            violation = find_motion_violation(joined, self._limits.containing(state.position), steps=False)
            if violation and brakes_at is not None and shift.any() and not shifted:
                # It was stopped where it was planned, and is shifted: stopped where it goes, it may keep the limits.
                return self._joined(left.moved(shift), seam, slows=slows, lenient=lenient, shifted=True)
        kept = rest
        begun_ns = join_ns
        if 0 < left.into < left.whole.duration:  # a later plan may begin before this one was taken up
            kept, begun_ns = left.whole.until(left.into).then(rest), join_ns - round(left.into * 1e9)
        kept = kept.moved(shift) if np.count_nonzero(shift) else kept
        braked = np.inf if brakes_at is None else brakes_at + (join_ns - begun_ns) * _NANOSECOND_S
        kept = Course(begun_ns, kept, join_ns + round(earliest * 1e9) if earliest else begun_ns, brakes_at=braked)
        return Way(joined, kept, brakes_at, own_until, delay), violation


def _left_of(course: Course, join_ns: int) -> _Left:
    """What is left of a course at a time; if it begins later, it is continued backwards until then."""
    rest = course.rest_from(join_ns)
    if course.start_ns > join_ns:
        rest = rest.begun_earlier((course.start_ns - join_ns) * _NANOSECOND_S)
    earliest = max(course.valid_from_ns - join_ns, 0) * _NANOSECOND_S
    into = (join_ns - course.start_ns) * _NANOSECOND_S
    begin, end, knots = earliest, rest.duration, course.motion.knots
    if course.valid_from_ns or course.continues:
        begin = max(begin, knots[min(_SWINGS, len(knots) - 2)] - into)
    if not rest.ends_at_rest:
        end = knots[max(len(knots) - 1 - _SWINGS, 0)] - into
    valid = _from(rest, earliest)
    own = _from(rest.until(end), begin) if end > begin + _MOMENT_S else valid
    return _Left(rest, earliest, valid, own, end, course.motion, max(into, 0.0))


def _from(motion: Motion, time: float) -> Motion:
    """The motion from a time on, or its last moment."""
    last = max(motion.duration - _MOMENT_S / 10, 0.9 * motion.duration)
    return motion if time <= 0 else motion.from_time(min(time, last))


def _led_to(motion: Motion, time: float) -> Motion:
    """The motion after a time, s, in which its first acceleration leads to it."""
    before = earlier(motion.begin, time)
    piece = np.stack([before.position, before.velocity, before.acceleration / 2])
    return Motion(np.array([0.0, time]), piece[None], motion.with_accelerations).then(motion)


def _pace(executed: Motion, goal: np.ndarray) -> np.ndarray:
    """Speed, rad/s, `[dof]`, of joints that are already on their way to a goal; infinite of others."""
    same = np.abs(executed.end.position - goal) <= _SAME_END_RAD
    if not np.count_nonzero(same):
        return np.full(len(goal), np.inf)
    least, most = extremes(executed)
    return np.where(same, np.maximum(most[1], -least[1]), np.inf)


def _with_stops(motion: Motion, state: State, stops: np.ndarray, bounds: Bounds) -> Motion:
    """The motion, but for joints that come to rest from a state as fast as they may."""
    tracks = stops_from(state, bounds)
    stopping = {joint: tracks[joint] for joint in np.flatnonzero(stops).tolist()}
    return united(stopping, motion, with_accelerations=motion.with_accelerations, ends_at_rest=motion.ends_at_rest)
