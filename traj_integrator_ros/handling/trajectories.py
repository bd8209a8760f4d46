"""From plans to trajectories for the controller: one motion from its present command on, checked as a whole. No ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.extremes import extremes
from ..execution.join import SAME, Joining, join
from ..execution.motion import Motion, State, resting
from ..execution.native import all_finite
from ..execution.points import points_of
from ..execution.profiles import fastest_stop, stop_tracks
from ..execution.rows import Hold
from ..execution.tracks import united, without_slivers
from .assumed import assumed_limits
from .courses import Course, Reading, Smoothed, courses_of, stops_of
from .ending import stopped_at_end
from .lead_in import continued
from .limits import JointLimits, find_motion_violation
from .parameter_table import ACTION_RETIME, ACTION_WARN, END_STOP, START_FROM_PREVIOUS
from .parameters import NodeParameters
from .plan import Plan
from .present import NotYet, Present
from .published import ExecutableTrajectory, PublishedMotion
from .rejection import Rejected, RejectionReason, require_finite
from .retiming import PathTimer, limits_lacking, slowed
from .schedule import Schedule, schedule
from .spline_motion import earlier
from .start_states import JointStates, MeasuredState
from .time_grid import LONGEST_NS

_NANOSECOND_S = 1e-9
_MOMENT_S = 1e-3
_SMOOTHING = 1.5
"""By how much a smoothed plan must ask less than one through its rows: noise asks for much more, a plan does not."""
_QUINTIC_PEAKS = (1.88, 5.78, 4 * 60.0)
"""Largest velocity, acceleration and (four times the) jerk of a quintic between rests, over a way of 1 in 1 s."""
_SWINGS = 3
"""Pieces in which a spline swings that does not know what was before its first row, or comes after its last."""
_NOT_RINGING = 0.9
"""Share of the jerk of a spline through rows that is the plan's: the rest may be ringing."""
_MOST_SLOWED = 2
"""Readings of a plan that are slowed at most, one after the other, where none of them keeps the limits."""
_ROOM = 1.5
"""Times what a plan asks for: bounds within which it is joined that is slowed afterwards."""
_AT_START_RAD = 0.01
"""Distance of a path's first row from the robot up to which that is its start; MoveIt's default, too."""
_ALREADY_STOPPING_S = 5e-3
_LATER = np.ones(1)
_SAME_END_RAD = 1e-3
_LONGEST_OUTLOOK_S = 0.5
"""Longest time over which a measured velocity is used to bound how far the robot may have moved."""


class _Way(NamedTuple):
    """A motion from the present command to a plan, and what is left of the plan's own course."""

    joined: Motion
    course: Course
    brakes_at: float | None
    """s from the join; None: the plan ends at rest by itself."""
    own_until: float = np.inf
    """s from the join; see `Course`."""
    delay: float = 0.0
    """By how much the plan was slowed, s."""


class _Seam(NamedTuple):
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


class TrajectoryMaker:
    """Makes the trajectories that are published, one after the other.

    Args:
        parameters: the node's configuration.
        limits: of the joints.
        joint_states: the latest joint states.
        published: the last published motion.
        warn: called with violations that are let through.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        limits: JointLimits,
        joint_states: JointStates,
        published: PublishedMotion,
        warn: Callable[[Rejected], None],
    ) -> None:
        self._parameters = parameters
        self._limits = limits
        self._joint_states = joint_states
        self._published = published
        self._warn = warn
        self._on_schedule = parameters.start_from == START_FROM_PREVIOUS
        self.assumed = assumed_limits(
            limits,
            parameters.publish_brake_time,
            parameters.limits_assumed_velocity,
            exceeded=parameters.limits_action == ACTION_WARN,
        )
        fade = parameters.publish_fade_time
        self._joining = Joining((fade, fade / 2, fade / 4) if fade > 0 else (), parameters.publish_catch_up)
        self._reading = Reading(parameters.publish_rest_tolerance, fade, self.assumed.bounds.jerk)
        self._known_times: np.ndarray | None = None
        self._timer = PathTimer()

    def predicted(self, now_ns: int) -> State | None:
        """The commanded state at the earliest start, to start from instead of a measured one; or None."""
        if not self._on_schedule:
            return None
        try:
            present = self._published.present.at(now_ns, waits=False)
        except Rejected:
            return None
        if present is None or not present.follows:
            return None
        return present.course.state_at(self._join_ns(present, now_ns))

    def trajectory(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        """Make the trajectory of a plan.

        Raises:
            Rejected: with the reason.
            NotYet: it can be made only later.

        """
        self._require_limits()
        present = self._present(plan, now_ns)
        if plan.untimed:
            return self._fastest_along(plan, present, now_ns)
        if present.follows and present.known_from_ns > now_ns:
            raise NotYet(present.known_from_ns)
        plan = self._complete(plan, present.course.motion.end.position)
        self._check_start(plan, now_ns)
        join_ns = self._join_ns(present, now_ns) + round(plan.making * 1e9)
        try:
            when = self._schedule(plan, join_ns, now_ns)
        except Rejected as rejected:
            lead_ns = round(self._parameters.publish_lead_time * 1e9)
            over_at_once = plan.origin_ns + plan.duration * 1e9 <= now_ns + lead_ns
            if rejected.reason is not RejectionReason.STALE_SEQUENCE or present.known_from_ns <= now_ns or over_at_once:
                raise
            # Over before the controller is where it has to begin: it goes there for the sequences that follow.
            way = _Way(present.course.motion, present.course, None)
            when = Schedule(present.known_from_ns, dropped=len(plan.steps))
            return self._executable(plan, when, present, way, join_ns, now_ns)
        if when.wait:
            join_ns = plan.origin_ns
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            way = self._way(plan, when, present, join_ns)
            self._check_place(way, present, join_ns, now_ns)
            return self._executable(plan, when, present, way, join_ns, now_ns)

    def stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Make the fastest stop from the present command; None if nothing is commanded that could be stopped.

        Raises:
            NotYet: it can be made only later.

        """
        present = self._to_stop(now_ns)
        if present is None:
            return None
        if present.follows and present.known_from_ns > now_ns:
            raise NotYet(present.known_from_ns)
        join_ns = self._join_ns(present, now_ns)
        state = present.course.state_at(join_ns)
        bounds = self.assumed.bounds.raised_to(present.course.own_from(join_ns))
        motion = fastest_stop(state, bounds.stopping, bounds.jerk)
        way = _Way(motion, Course(join_ns, motion), None)
        return self._executable(None, Schedule(join_ns), present, way, join_ns, now_ns)

    # Paths without times

    def without_start(self, plan: Plan, now_ns: int) -> Plan:
        """A path without its first row where the robot is, or is commanded to be: most planners begin with that."""
        first, known = plan.actions[0], []
        with suppress(Rejected, NotYet):
            present = self._published.present.at(now_ns)
            known += [] if present is None else [present.course.state_at(now_ns).position]
        measured = self._measured(now_ns)
        known += [] if measured is None else [measured.position]
        away = [np.nanmax(np.abs(self._turned(first, position) - position)) for position in known]
        return replace(plan, actions=plan.actions[1:]) if min(away, default=np.inf) <= _AT_START_RAD else plan

    def _fastest_along(self, plan: Plan, present: Present, now_ns: int) -> ExecutableTrajectory:
        """The trajectory that passes a path as fast as limits allow, from where the command comes to rest.

        Raises:
            NotYet: it had to be stopped, or timed, first.
            Rejected: no_limits, future_sequence, limits_violated, or what `trajectory` raises.

        """
        names, bounds = self._parameters.joint_names, self.assumed.bounds
        for name, limit in (("velocity", self._limits.velocity), ("acceleration", self._limits.acceleration)):
            if lacking := limits_lacking(names, limit):
                raise Rejected(
                    RejectionReason.NO_LIMITS,
                    f"limits.{name}: expected a limit of each joint, by which points without times are timed, got none "
                    f"for {lacking}",
                )
        join_ns = self._join_ns(present, now_ns)
        if plan.origin_ns > join_ns:
            join_ns += round(self._schedule(replace(plan, steps=_LATER), join_ns, now_ns).wait * 1e9)
        rest = present.course.rest_from(join_ns)
        if present.follows and present.known_from_ns <= now_ns and rest.duration > _MOMENT_S:
            braking = bounds.raised_to(present.course.own_from(join_ns))
            stop = fastest_stop(present.course.state_at(join_ns), braking.stopping, braking.jerk)
            if stop.duration < rest.duration - _ALREADY_STOPPING_S:
                raise NotYet(meanwhile=self.stop(now_ns))
        end = rest.end.position
        apart = SAME[0] if present.follows else _SAME_END_RAD  # the controller bridges what is between two joint states
        limits = np.stack([bounds.velocity, bounds.either, bounds.jerk])
        found = self._timer.motion(np.vstack([end, self._complete(plan, end).actions]), limits, names, apart)
        if found is None or (present.follows and present.known_from_ns > now_ns):
            raise NotYet(present.known_from_ns)
        motion = found if rest.duration <= _MOMENT_S else rest.then(found)
        violation = find_motion_violation(motion, self._limits.containing(end))
        if violation:
            self._refuse_or_warn(Rejected(RejectionReason.LIMITS, violation))
        way = _Way(motion, Course(join_ns, motion), None)
        self._check_place(way, present, join_ns, now_ns)
        return self._executable(plan, Schedule(join_ns), present, way, join_ns, now_ns)

    def _refuse_or_warn(self, finding: Rejected) -> None:
        if self._parameters.limits_action != ACTION_WARN:
            raise finding
        self._warn(finding)

    # What the controller does

    def _present(self, plan: Plan, now_ns: int) -> Present:
        """What the controller does from now on; where nobody knows, it is at the measured state a little later.

        Raises:
            Rejected: no_joint_state, state_too_old, clock_jumped_back or controller_unavailable.

        """
        present = self._published.present.at(now_ns)
        if present is not None:
            self._require_states(now_ns)
            return present
        try:
            measured = self._joint_states.latest(now_ns, self._parameters.state_timeout)
            position, velocity = measured.position, measured.velocity
        except Rejected:
            if plan.start is None or not all_finite(plan.start.position):
                raise
            position, velocity = plan.start.position, np.zeros_like(plan.start.position)
        known_ns = now_ns + round(self._bridge_time(position) * 1e9)
        if np.abs(velocity).max() <= self._parameters.publish_rest_tolerance:
            motion = resting(position, _MOMENT_S)
        else:  # something else moves it: as if it went on until the controller is there, and then stopped
            ahead = position + velocity * ((known_ns - now_ns) * _NANOSECOND_S)
            bounds = self.assumed.bounds
            motion = fastest_stop(State(ahead, velocity), bounds.stopping, bounds.jerk)
        return Present(Course(known_ns, motion), False, known_ns)

    def _bridge_time(self, position: np.ndarray) -> float:
        """Time in which the controller comes to a position, s: enough for a quintic from where it may still be.

        It begins with twice the acceleration, as if its last command were a cycle older, when the message is there.
        """
        time, left_at = self._parameters.publish_bridge_time, self._published.present.left_at
        bounds = self.assumed.bounds
        if left_at is None:
            return time
        gap = np.abs(position - left_at)
        parts = zip(_QUINTIC_PEAKS, (bounds.velocity, bounds.either, bounds.jerk), (1, 2, 3), strict=True)
        needed = [float(((peak * gap / bound) ** (1 / order)).max()) for peak, bound, order in parts]
        return max(time, max(needed) + self._parameters.publish_lead_time)

    def _to_stop(self, now_ns: int) -> Present | None:
        try:
            return self._published.present.at(now_ns)
        except Rejected:
            reference = self._published.present.moving_reference()
            if reference is None or self._published.present.is_silent(now_ns):
                return None
            stamp_ns, state = reference
            bounds = self.assumed.bounds
            motion = fastest_stop(state, bounds.stopping, bounds.jerk)
            return Present(Course(stamp_ns, motion), False, now_ns)

    def _require_states(self, now_ns: int) -> None:
        """Refuse to go on where joint states were received, but are too old."""
        if self._joint_states.age_s(now_ns) is not None or self._joint_states.jumped_back:
            self._joint_states.latest(now_ns, self._parameters.state_timeout)

    def _require_limits(self) -> None:
        if self.assumed.lacking:
            raise Rejected(
                RejectionReason.NO_LIMITS,
                f"limits.velocity: expected a limit for each joint, got none for {', '.join(self.assumed.lacking)}; "
                "give limits (parameters or a URDF), or permit an assumed one (parameter limits.assumed_velocity)",
            )

    def _join_ns(self, present: Present, now_ns: int) -> int:
        """When the new plan is taken up, unless it begins later."""
        if present.known_from_ns > now_ns:
            return present.known_from_ns
        return now_ns + round(self._parameters.publish_lead_time * 1e9)

    def _schedule(self, plan: Plan, join_ns: int, now_ns: int) -> Schedule:
        if not plan.origin_ns or not len(plan.steps):
            return Schedule(join_ns)
        return schedule(plan, join_ns, now_ns, self._parameters.publish_longest_wait)

    # The plan

    def _complete(self, plan: Plan, position: np.ndarray) -> Plan:
        """The plan with positions in place of NaN, and those of continuous joints next to the robot's."""
        start, actions = plan.start, plan.actions
        if plan.hold is not Hold.POSITION and start is None:
            return plan
        if start is not None:
            start = State(
                np.where(np.isnan(start.position), position, start.position),
                np.where(np.isnan(start.velocity), 0.0, start.velocity),
                start.acceleration,
            )
        if plan.hold is Hold.POSITION and not all_finite(actions):
            actions = np.where(np.isnan(actions), position, actions)
        turning = self._parameters.continuous
        if turning.any():
            begin = position if start is None else start.position
            turns = np.where(turning, 2 * np.pi * np.rint((position - begin) / (2 * np.pi)), 0.0)
            if start is not None:
                start = start._replace(position=start.position + turns)
            if plan.hold is Hold.POSITION and len(actions):
                rows = np.vstack([begin + turns, actions])
                rows[:, turning] = np.unwrap(rows[:, turning], axis=0)
                actions = rows[1:]
        if start is plan.start and actions is plan.actions:
            return plan
        return replace(plan, start=start, actions=actions)

    def _way(self, plan: Plan, when: Schedule, present: Present, join_ns: int) -> _Way:
        """The motion from the present command to the plan, and along it.

        Raises:
            Rejected: limits_violated or non_finite_result.

        """
        state = present.course.state_at(join_ns)
        origin_ns = plan.origin_ns if self._on_schedule and plan.origin_ns else join_ns
        relative = plan.hold not in (Hold.POSITION, Hold.VELOCITY)

        def previous(time_ns: int) -> State:
            return before(time_ns).state_at(time_ns)

        def before(time_ns: int) -> Course:
            known = None if relative and not self._on_schedule else self._published.planned(time_ns)
            return known if known is not None and present.follows else present.course

        stops = stops_of(plan) | self._left_out(plan)
        by_speed = plan.hold is Hold.VELOCITY and plan.start is None
        floating = np.full(len(state.position), by_speed and (not plan.origin_ns or self._published.is_delayed))
        finding, reason, fallback = "", "", None
        executed, bounds = present.course.rest_from(join_ns), self.assumed.bounds
        if present.follows:  # what the motion in execution uses yet, the next one may use too, to slow down as it would
            bounds = bounds.raised_to(present.course.own_from(join_ns)).with_positions_of(bounds)
        braking = before(origin_ns).is_braking(origin_ns)
        read = partial(courses_of, plan, origin_ns, join_ns, previous, braking=braking)
        action = self._parameters.limits_action
        seam = _Seam(state, join_ns, stops, floating, bounds, executed)
        for left in self._gentlest_first(read(self._reading), join_ns, bounds):
            way, violation = self._joined(left, seam, lenient=action == ACTION_WARN)
            if way is not None and not violation:
                return way
            finding = finding or violation
            fallback = fallback or way
        slowly = read(self._reading._replace(slows=True)) if action == ACTION_RETIME else iter(())
        for left in islice(self._gentlest_first(slowly, join_ns, bounds), _MOST_SLOWED):
            way, violation = self._slowed(left, seam)
            if way is None or violation:
                reason = reason or ("" if way else violation)
                way, violation = self._joined(left, seam, slows=True)
            if way is not None and not violation:
                return way
        if reason:
            finding += f"; it cannot be slowed (speeds as parts of the plan's): {reason}"
        rejected = Rejected(RejectionReason.LIMITS, finding)
        if fallback is None:
            raise rejected
        self._refuse_or_warn(rejected)
        return fallback

    def _left_out(self, plan: Plan) -> np.ndarray:
        """Joints that a position trajectory does not name: they stop."""
        return np.zeros(len(self._parameters.joint_names), bool) if plan.left_out is None else plan.left_out

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

    def _slowed(self, left: _Left, seam: _Seam) -> tuple[_Way | None, str]:
        """A course joined as if it kept its limits, and then slowed; and what is wrong with it."""
        kept, raised = (replace(seam.bounds, most=most).raised_to(left.valid) for most in (seam.bounds.most, np.inf))
        velocity, acceleration, jerk = (
            _ROOM * part for part in (raised.velocity, raised.acceleration, raised.jerk)
        )
        free = replace(raised, velocity=velocity, acceleration=acceleration, jerk=jerk, deceleration=None)
        free = free.with_positions_of(seam.bounds)
        way, violation = self._joined(left, seam._replace(bounds=free), judges=False)
        if way is None:
            return None, violation
        limits = np.stack([kept.velocity, kept.either, kept.jerk])
        found = slowed(way.joined, limits, self._parameters.joint_names, from_state=True)
        if isinstance(found, str):
            return None, found
        brakes_at = None if way.brakes_at is None else found.time(way.brakes_at)
        violation = find_motion_violation(found.motion, self._limits.containing(seam.state.position), brakes_at)
        course = Course(seam.join_ns, found.motion, seam.join_ns + round(found.time(left.earliest) * 1e9))
        delay = found.motion.duration - way.joined.duration
        return _Way(found.motion, course, brakes_at, found.time(way.own_until), delay), violation

    def _most_of(self, motion: Motion) -> np.ndarray:
        """Velocity, acceleration and jerk that a motion may use, `[3, dof]`: its own where nobody limits them."""
        most = self.assumed.bounds.raised_to(motion)
        return np.stack([most.velocity, most.either, most.jerk])

    def _joined(
        self, left: _Left, seam: _Seam, *, slows: bool = False, lenient: bool = False, judges: bool = True
    ) -> tuple[_Way | None, str]:
        """A course with its brake, joined from a state; and what is wrong with it, empty if nothing is.

        With `slows`, it is slowed before that; `lenient`: it is joined although it exceeds limits itself; without
        `judges`, whether it does is not looked for.
        """
        rest, earliest, _, own = left[:4]
        state, join_ns, stops, floating, bounds, executed = seam
        brakes_at = None
        if self._parameters.publish_end == END_STOP:
            most = bounds.raised_to(own, _NOT_RINGING).with_positions_of(bounds)
            whole = stopped_at_end(rest, most, self._parameters.publish_rest_tolerance, self._parameters.joint_names)
            brakes_at = rest.duration if whole.duration > rest.duration else None
            rest = whole
        if stops.any():
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
        bounds = bounds.raised_to(own, _NOT_RINGING)
        floating = floating & ~stops
        pace = _pace(executed, rest.end.position)
        result = join(
            state,
            rest,
            bounds,
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
        kept = rest
        begun_ns = join_ns
        if 0 < left.into < left.whole.duration:  # a later plan may begin before this one was taken up
            kept, begun_ns = left.whole.until(left.into).then(rest), join_ns - round(left.into * 1e9)
        kept = kept.moved(shift) if shift.any() else kept
        braked = np.inf if brakes_at is None else brakes_at + (join_ns - begun_ns) * _NANOSECOND_S
        kept = Course(begun_ns, kept, join_ns + round(earliest * 1e9) if earliest else begun_ns, brakes_at=braked)
        return _Way(joined, kept, brakes_at, own_until, delay), violation

    # The message

    def _executable(
        self, plan: Plan | None, when: Schedule, present: Present, way: _Way, join_ns: int, now_ns: int
    ) -> ExecutableTrajectory:
        """The trajectory from the controller's present command on."""
        motion, start_ns, brakes_at, own_until = way.joined, join_ns, way.brakes_at, way.own_until
        state = present.course.state_at(join_ns)
        begins_ns = max(present.known_from_ns, now_ns)
        skips = present.follows and not self._parameters.publish_lead_in
        if join_ns > begins_ns and not skips:
            before = _until(present.course, begins_ns, join_ns)
            motion, start_ns = continued(before, motion), begins_ns
            brakes_at = None if brakes_at is None else brakes_at + before.duration
            own_until += before.duration
        require_finite("motion", motion.coefficients, RejectionReason.NON_FINITE_RESULT)
        motion = without_slivers(motion)
        points = points_of(motion)
        for name, values in zip(("position", "velocity", "acceleration"), points[1:], strict=True):
            if values is not None:
                require_finite(name, values, RejectionReason.NON_FINITE_RESULT)
        self._require_times(points.time_ns)
        planned = way.course.state_at(join_ns)
        a = np.zeros_like(state.position) if state.acceleration is None else state.acceleration
        seam = State(state.position - planned.position, state.velocity - planned.velocity, a - planned.acceleration)
        origin_ns = plan.origin_ns if plan is not None and self._on_schedule else 0
        return ExecutableTrajectory(
            motion=motion,
            points=points,
            start_ns=start_ns,
            stamp_ns=start_ns,
            due_ns=join_ns,
            course=way.course,
            known_from_ns=max(start_ns, now_ns) if present.follows or start_ns <= now_ns else start_ns,
            brakes_at=brakes_at,
            own_until=own_until,
            delay=way.delay,
            dropped=when.dropped,
            seam=seam if present.follows else None,
            origin_ns=origin_ns,
        )

    def _require_times(self, time_ns: np.ndarray) -> None:
        """Check that a message can represent the times of its points.

        Raises:
            Rejected: invalid_times.

        """
        if time_ns is self._known_times:  # mostly they are those of the trajectory before
            return
        if time_ns[-1] >= LONGEST_NS or time_ns[-1] < 0:
            raise Rejected(
                RejectionReason.INVALID_TIMES,
                f"dt: the trajectory comes to its end after {time_ns[-1] * _NANOSECOND_S:g} s, beyond 2^31 s",
            )
        if (time_ns[1:] <= time_ns[:-1]).any():
            raise Rejected(RejectionReason.INVALID_TIMES, "dt: expected steps of at least one nanosecond")
        self._known_times = time_ns

    # Where the robot is

    def _check_place(self, way: _Way, present: Present, join_ns: int, now_ns: int) -> None:
        """Refuse to begin away from the robot, where its command is away from it.

        Raises:
            Rejected: deviation.

        """
        allowed = self._parameters.supervision_deviation
        bridges = present.known_from_ns > now_ns  # from the measured state
        if present.follows or bridges or allowed <= 0 or self._joint_states.age_s(now_ns) is None:
            return
        measured = self._measured(now_ns)
        if measured is None:
            return
        gap = np.abs(
            self._turned(measured.position, present.course.motion.begin.position) - present.course.motion.begin.position
        )
        if gap.max() <= allowed:
            return
        planned = way.course.state_at(max(join_ns, way.course.valid_from_ns)).position
        apart = np.abs(self._turned(measured.position, planned) - planned)
        joint = int(apart.argmax())
        if apart[joint] > allowed:
            raise Rejected(
                RejectionReason.DEVIATION,
                f"{self._parameters.joint_names[int(gap.argmax())]} is {gap.max():.4g} away from its command, and the "
                f"plan of {self._parameters.joint_names[joint]} begins {apart[joint]:.4g} away from it; expected at "
                f"most {allowed:g} (parameter supervision.deviation)",
            )
        self._published.guard.allow(gap)

    def _turned(self, position: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Positions, those of continuous joints turned next to others."""
        turning = self._parameters.continuous
        if not turning.any():
            return position
        return position + np.where(turning, 2 * np.pi * np.rint((near - position) / (2 * np.pi)), 0.0)

    def _check_start(self, plan: Plan, now_ns: int) -> None:
        tolerance = self._parameters.limits_start_deviation
        measured = self._measured(now_ns)
        if plan.start is None or measured is None or tolerance <= 0:
            return
        position = plan.start.position
        until = ((plan.origin_ns or now_ns) - measured.stamp_ns) * _NANOSECOND_S
        reach = np.abs(measured.velocity) * min(max(until, 0.0), _LONGEST_OUTLOOK_S)
        beyond = np.abs(position - self._turned(measured.position, position)) - reach
        joint = int(beyond.argmax())
        if beyond[joint] > tolerance:
            finding = Rejected(
                RejectionReason.START_MISMATCH,
                f"start.position of {self._parameters.joint_names[joint]}: expected within {tolerance:g} "
                f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
                f"got {position[joint]:.6g}",
            )
            self._refuse_or_warn(finding)

    def _measured(self, now_ns: int) -> MeasuredState | None:
        try:
            return self._joint_states.latest(now_ns, self._parameters.state_timeout)
        except Rejected:
            return None


def _left_of(course: Course, join_ns: int) -> _Left:
    """What is left of a course at a time; if it begins later, it is continued backwards until then."""
    rest = course.rest_from(join_ns)
    if course.start_ns > join_ns:
        rest = rest.begun_earlier((course.start_ns - join_ns) * _NANOSECOND_S)
    earliest = max(course.valid_from_ns - join_ns, 0) * _NANOSECOND_S
    into = (join_ns - course.start_ns) * _NANOSECOND_S
    begin, end, knots = earliest, rest.duration, course.motion.knots
    if course.valid_from_ns:
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
    if not same.any():
        return np.full(len(goal), np.inf)
    least, most = extremes(executed)
    return np.where(same, np.maximum(most[1], -least[1]), np.inf)


def _with_stops(motion: Motion, state: State, stops: np.ndarray, bounds: Bounds) -> Motion:
    """The motion, but for joints that come to rest from a state as fast as they may."""
    tracks = stop_tracks(state, bounds.stopping, bounds.jerk)
    stopping = {joint: tracks[joint] for joint in np.flatnonzero(stops).tolist()}
    return united(stopping, motion, with_accelerations=motion.with_accelerations, ends_at_rest=motion.ends_at_rest)


def _until(course: Course, begin_ns: int, end_ns: int) -> Motion:
    """The motion of a course between two times, followed by rest where it ends before."""
    motion, span = course.rest_from(begin_ns), (end_ns - begin_ns) * _NANOSECOND_S
    if course.start_ns > begin_ns:
        wait = (course.start_ns - begin_ns) * _NANOSECOND_S
        motion = resting(motion.begin.position, wait).then(motion)
    missing = span - motion.duration
    if missing <= _NANOSECOND_S:
        return motion.until(min(span, motion.duration))
    return motion.then(resting(motion.end.position, missing))
