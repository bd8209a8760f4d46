"""Motions from the present command to a plan: read, joined, stopped at the end, slowed if need be. No ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, islice
from typing import NamedTuple

import numpy as np

from ..execution.join import join
from ..execution.limits import INSIDE, LONGEST_BRAKE_S, Bounds, extremes, find_motion_violation, keeping, keeps
from ..execution.motion import Motion, State, united
from ..execution.problem import SAME, Joining, Problem, Work
from ..execution.reaching import RETREAT, RETREAT_RAD
from ..execution.rows import brought_to_rest
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, ACTION_WARN, END_STOP
from ..requests.rejection import Rejected, RejectionReason, require_finite
from .planned_motions import PlannedMotion, Reading, Remainder, Smoothed, remainder_of, rest_of
from .retiming import slowed

Read = Callable[[Reading], Iterator[PlannedMotion]]
"""Yields the planned motions of a plan, the most exact first."""
_SMOOTHING = 1.5
"""By how much a smoothed plan must ask less than one through its rows: noise asks for much more, a plan does not."""
_NOT_RINGING = 0.9
"""Share of the jerk of a spline through rows that is the plan's: the rest may be ringing."""
_CONTRADICTORY = 2.0
"""Times as long as a complete plan, slowed, may be before other readings are looked for: what its points say about
rates contradicts their positions then.
"""
_MOST_SLOWED = 3
"""Readings of a plan that are slowed at most, one after the other, where none of them keeps the limits."""
_ROOM = 1.5
"""Times what a plan asks for: bounds within which it is joined that is slowed afterwards."""
_SETTLING_S = 0.25, 0.12, 0.06, 0.03
"""Within which a small last velocity is taken out of a plan: the longest that moves its rows little."""
_LITTLE_RAD = 5e-4
_OF_A_READING = 8
"""Ways of one joint that could be looked at while a plan is read, ended and judged."""
_DOUBLINGS, _HALVINGS = 8, 20
_TURNED_WITHIN = 4.0
"""Times that it takes to take an acceleration back: the earliest that a joint leaves its plan in order not to turn."""


class Candidate(NamedTuple):
    """A motion from the present command to a plan, and the rest of the planned motion."""

    joined: Motion
    course: PlannedMotion
    brake_from: float = np.inf
    """s from the join; infinite: the plan ends at rest by itself."""
    planned_until: float = np.inf
    """s from the join; see `PlannedMotion`."""
    delay: float = 0.0
    """By how much the plan was slowed, s."""

    @staticmethod
    def alone(join_ns: int, motion: Motion) -> Candidate:
        """A motion that is the plan itself."""
        return Candidate(motion, PlannedMotion(join_ns, motion))


class JoinPoint(NamedTuple):
    """Where a plan is taken up, and what every candidate is made of."""

    state: State
    """Commanded then."""
    join_ns: int
    stopped: np.ndarray
    """Joints that stop, bool `[dof]`."""
    floating: np.ndarray
    """Joints whose plan is about velocities, bool `[dof]`."""
    bounds: Bounds
    executed: Motion
    """The rest of the motion in execution."""
    limits: JointLimits
    """Of the plan: positions contain those where the robot is."""
    work: Work | None = None
    """What the search may still do; None: it has not begun."""


class Candidates:
    """Finds the motions that join plans.

    Args:
        parameters: the node's configuration.
        limits: of the joints.
        assumed: bounds of joins and stops: the limits, assumed where there are none.

    """

    def __init__(self, parameters: NodeParameters, limits: JointLimits, assumed: Bounds) -> None:
        self._parameters, self._assumed = parameters, assumed
        fade = parameters.publish_fade_time
        self._joining = Joining((fade, fade / 2, fade / 4) if fade > 0 else (), parameters.publish_catch_up)
        self._reading = Reading(parameters.publish_rest_tolerance, fade, assumed, limits)

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def first(self, read: Read, seam: JoinPoint) -> tuple[Candidate | None, str]:
        """The first candidate that keeps its limits, or that can be made to by slowing it; in any thread.

        Args:
            read: the plan.
            seam: where it is taken up.

        Returns:
            The candidate, and what is wrong with it: empty if nothing is. None: there is none.

        Raises:
            Rejected: non_finite_result or brake_impossible.

        """
        finding, reason, fallback = "", "", None
        seam = seam._replace(work=Work())
        action = self._parameters.limits_action
        for left in self._gentlest_first(read(self._reading), seam.join_ns, seam.bounds):
            candidate, violation = self._joined(left, seam, lenient=action == ACTION_WARN, told=not finding)
            if candidate is not None and not violation:
                return candidate, ""
            finding = finding or violation
            fallback = fallback or candidate
            if not seam.work.spend(_OF_A_READING):
                break
        soonest: Candidate | None = None
        slowly = read(self._reading._replace(slows=True)) if action == ACTION_RETIME else iter(())
        for left in islice(self._gentlest_first(slowly, seam.join_ns, seam.bounds), _MOST_SLOWED):
            candidate, violation = self._slowed(left, seam)
            if candidate is None or violation:
                reason = reason or ("" if candidate else violation)
                candidate, violation = self._joined(left, seam, slows=True)
            if candidate is None or violation:
                continue
            if soonest is None or candidate.joined.duration < soonest.joined.duration:
                soonest = candidate
            if not left.is_complete or candidate.joined.duration <= _CONTRADICTORY * left.whole.duration:
                break
        if soonest is not None:
            return soonest, ""
        if reason:
            finding += f"; it cannot be slowed (speeds as parts of the plan's): {reason}"
        return fallback, finding

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def at_once(self, read: Read, seam: JoinPoint) -> Candidate | None:
        """What `first` finds where the most exact reading is neither smoothed nor slowed; None: it takes a search."""
        course = next(read(self._reading))
        require_finite("motion", course.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
        left = remainder_of(course, seam.join_ns)
        most = 1 + self._parameters.limits_tolerance
        if not course.is_complete and seam.bounds.demands_of(left.valid).max() > most:
            return None
        candidate, violation = self._joined(left, seam._replace(work=Work()), told=False)
        return None if violation else candidate

    def _gentlest_first(self, courses: Iterator[PlannedMotion], join_ns: int, bounds: Bounds) -> Iterator[Remainder]:
        """Remainders of planned motions: as they come while they keep the bounds, others by their excess."""
        wilder: list[tuple[float, int, Remainder]] = []
        forced: list[PlannedMotion] = []
        for course in courses:
            require_finite("motion", course.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
            if course.smoothed is Smoothed.FORCED:
                forced.append(course)
                break
            left = remainder_of(course, join_ns)
            if not course.is_complete:
                left = left.inside(bounds.position_min, bounds.position_max)
            demands = bounds.demands_of(left.valid)
            if course.is_complete or demands.max() <= 1 + self._parameters.limits_tolerance:
                yield left
            else:
                # In steps of 10 %, within which the more exact one comes first; rows are left only for half of it.
                excess = np.log(np.maximum(demands, 1.0)).sum() + np.log(_SMOOTHING) * bool(course.smoothed)
                steps = round(excess / np.log(1.1))
                wilder.append((steps, len(wilder), left))
        for _, _, left in sorted(wilder, key=lambda it: it[:2]):
            yield left
        for course in chain(forced, courses):
            yield remainder_of(course, join_ns)

    def _slowed(self, left: Remainder, seam: JoinPoint) -> tuple[Candidate | None, str]:
        """A planned motion joined as if it kept its limits, and then slowed; and what is wrong with it."""
        kept, raised = (replace(seam.bounds, most=most).raised_to(left.valid) for most in (seam.bounds.most, np.inf))
        velocity, acceleration, jerk = (_ROOM * part for part in (raised.velocity, raised.acceleration, raised.jerk))
        free = replace(raised, velocity=velocity, acceleration=acceleration, jerk=jerk, deceleration=None)
        candidate, violation = self._joined(left, seam._replace(bounds=free), judges=False)
        if candidate is None:
            return None, violation
        moves = bool((np.abs(seam.state.known[1:]) > np.array(SAME[1:])[:, None]).any())
        found = slowed(candidate.joined, kept.rates, self._parameters.joint_names, from_state=moves)
        if isinstance(found, str):
            return None, found
        brake_from = found.time(candidate.brake_from)
        violation = find_motion_violation(found.motion, seam.limits, brake_from)
        course = PlannedMotion(seam.join_ns, found.motion, seam.join_ns + round(found.time(left.earliest) * 1e9))
        delay = found.motion.duration - candidate.joined.duration
        return Candidate(found.motion, course, brake_from, found.time(candidate.planned_until), delay), violation

    def _joined(
        self,
        left: Remainder,
        seam: JoinPoint,
        *,
        slows: bool = False,
        lenient: bool = False,
        judges: bool = True,
        told: bool = True,
        shifted: bool = False,
    ) -> tuple[Candidate | None, str]:
        """A planned motion with its brake, joined from a state; and what is wrong with it, empty if nothing is.

        With `slows`, it is slowed before that; `lenient`: it is joined although it exceeds limits itself; without
        `judges`, whether it does is not looked for; without `told`, not where.
        """
        rest, earliest, _, own = left[:4]
        state, join_ns, stopped, floating, bounds, executed, limits, work = seam
        if left.keeps_limits:  # what the plan makes of its points is no violation, nor is it of the way to it
            limits, bounds = limits.raised_to(rest), replace(bounds, most=np.inf)
        brake_from, raised = np.inf, bounds.raised_to(own, _NOT_RINGING)
        if self._parameters.publish_end == END_STOP:
            tolerance = self._parameters.publish_rest_tolerance
            whole = stopped_at_end(rest, raised, tolerance, self._parameters.joint_names)
            brake_from = rest.duration if whole.duration > rest.duration else np.inf
            rest = whole
        stopped = stopped & (np.abs(state[1:]).max(axis=0) > 0)  # the others rest in the plan
        if np.count_nonzero(stopped):
            rest = _with_stops(rest, state, stopped, bounds)
        planned_until, delay = left.planned_until, 0.0
        if slows and earliest < rest.duration:
            after = rest_of(rest, earliest)
            found = slowed(after, self._assumed.raised_to(after).rates)
            if isinstance(found, str):
                return None, found
            delay = found.motion.duration + earliest - rest.duration
            planned_until, brake_from = (earliest + found.time(time - earliest) for time in (planned_until, brake_from))
            rest = found.motion if earliest <= 0 else _led_to(found.motion, earliest)
        violation, held = "", not left.keeps_limits
        if judges:
            violation = find_motion_violation(rest_of(rest, earliest), limits, brake_from, steps=held, told=told)
        if violation and not lenient:
            return None, violation
        within = raised if raised is bounds else raised.containing(own)
        problem = Problem(
            state, rest, within, self._joining, earliest, floating & ~stopped, executed, planned_until, brake_from, work
        )
        # Where accelerations jump within a plan, it also begins with a jump.
        result = (rest, np.zeros(rest.dof)) if left.keeps_limits and problem.jumps_only else join(problem)
        if result is None:
            return None, violation or "motion: the plan cannot be joined from the present command within the limits"
        joined, shift = result
        if judges and joined is not rest and not violation:
            violation = find_motion_violation(joined, limits, steps=False, told=told)
            if violation and brake_from < np.inf and shift.any() and not shifted:
                # It was stopped where it was planned, and is shifted: stopped where it goes, it may keep the limits.
                return self._joined(left.moved(shift), seam, slows=slows, lenient=lenient, shifted=True)
        kept, begun_ns = rest, join_ns
        if 0 < left.into < left.whole.duration:  # a later plan may begin before this one was taken up
            kept, begun_ns = left.whole.until(left.into).then(rest), join_ns - round(left.into * 1e9)
        kept = kept.moved(shift) if np.count_nonzero(shift) else kept
        braked = brake_from + (join_ns - begun_ns) * NANOSECOND_S
        kept = PlannedMotion(
            begun_ns, kept, join_ns + round(earliest * 1e9) if earliest else begun_ns, brake_from=braked
        )
        return Candidate(joined, kept, brake_from, planned_until, delay), violation


def _led_to(motion: Motion, time: float) -> Motion:
    """The motion after a time, s, in which its first acceleration leads to it."""
    before = motion.begin.earlier(time)
    piece = np.stack([before.position, before.velocity, before.acceleration / 2])
    return Motion(np.array([0.0, time]), piece[None], motion.with_accelerations).then(motion)


def _with_stops(motion: Motion, state: State, chosen: np.ndarray, bounds: Bounds) -> Motion:
    """The motion, but for joints that come to rest from a state as fast as they may."""
    joints = np.flatnonzero(chosen).tolist()
    stopping = {joint: fastest_stop(state.of(joint), bounds.of(joint)) for joint in joints}
    return united(stopping, motion, with_accelerations=motion.with_accelerations, ends_at_rest=motion.ends_at_rest)


# The end: a stop, where the plan does not end at rest


def stopped_at_end(motion: Motion, bounds: Bounds, rest_tolerance: float, joint_names: Sequence[str] = ()) -> Motion:
    """Bring a motion to rest after its end, each joint by itself and as fast as it may.

    A last velocity up to the tolerance is removed within the plan, if that keeps the bounds. A joint whose stop would
    pass a position limit leaves its plan earlier, if it can still stop before the limit then; and so where its stop
    would be too fast, or would lead back because the plan ends while it slows down.

    Args:
        motion: a plan.
        bounds: of the stop.
        rest_tolerance: rad/s.
        joint_names: for errors.

    Raises:
        Rejected: brake_impossible.

    """
    if motion.ends_at_rest:
        return motion
    end = motion.end
    if np.abs(end.velocity).max() <= rest_tolerance:
        if not motion.with_accelerations:
            return brought_to_rest(motion, _SETTLING_S[0])
        settled = [brought_to_rest(motion, within) for within in _SETTLING_S]
        kept = [one for one in settled if bounds.demands_of(one).max() <= 1 + INSIDE]
        moved = (np.abs(one.coefficients[:, 0] - motion.coefficients[:, 0]).max() for one in kept)
        near = next((one for one, by in zip(kept, moved, strict=True) if by <= _LITTLE_RAD), None)
        if kept:
            return near or kept[-1]
    try:
        stop = fastest_stop(end, bounds)
    except ValueError:  # it takes forever, or begins beyond all measure
        stop = None
    if stop is None or not stop.duration <= LONGEST_BRAKE_S:
        durations = bounds.stop_durations(end.velocity)
        if stop is not None:
            each = (fastest_stop(end.of(joint), bounds.of(joint)) for joint in range(motion.dof))
            durations = np.array([of_joint.duration for of_joint in each])
        longest = int(durations.argmax())
        name = joint_names[longest] if len(joint_names) else f"joint {longest}"
        raise Rejected(
            RejectionReason.BRAKE_IMPOSSIBLE,
            f"end: {name} moves at {end.velocity[longest]:g}, and the brake within limits.acceleration and limits.jerk "
            f"takes {durations[longest]:g} s, expected at most {LONGEST_BRAKE_S:g} s",
        )
    whole = _stopped(motion, end, stop, bounds)
    if keeps(whole, bounds.of_stops) or (harder := _not_faster(bounds, end)) is bounds:
        return whole
    return _stopped(motion, end, fastest_stop(end, harder), harder)


def _stopped(motion: Motion, end: State, stop: Motion, bounds: Bounds) -> Motion:
    """The motion and the stop of each joint; joints leave their plans earlier to stop within limits, and not back."""
    whole, turning = motion.then(stop), _turning(motion, end, stop, bounds)
    kept = keeping(stop, bounds.of_stops)
    if kept.all() and not np.count_nonzero(turning):
        return whole
    turning[~kept] = 0.0
    inside = (end.position >= bounds.position_min) & (end.position <= bounds.position_max)
    inside &= np.abs(end.velocity) <= bounds.velocity  # a plan that is too fast itself is refused, not cut
    early = np.flatnonzero((inside & ~kept) | (turning != 0))
    return _stopped_early(motion, whole, early, bounds, turning) if len(early) else whole


def _not_faster(bounds: Bounds, end: State) -> Bounds:
    """Bounds with a jerk, where it is assumed, that takes an acceleration back before it exceeds the velocity."""
    room = bounds.velocity - np.abs(end.velocity)
    gains = (end.velocity * end.acceleration > 0) & (room > 0)
    needed = np.where(gains, end.acceleration**2 / (2 * np.where(gains, room, 1.0)), 0.0)
    if (needed <= bounds.jerk).all():
        return bounds
    most = np.broadcast_to(bounds.most, (3, len(needed)))[2]
    return replace(bounds, jerk=np.maximum(bounds.jerk, np.minimum(needed, most)))


def _turning(motion: Motion, last: State, stop: Motion, bounds: Bounds) -> np.ndarray:
    """Where joints go (1, -1) whose stop would lead back, although their plans do not; 0 for the others, `[dof]`.

    Such a plan ends almost at rest, while it slows down: its acceleration cannot be taken back before the joint turns.
    """
    end, velocity, acceleration = last
    states = (part.tolist() for part in (end - motion.coefficients[-1, 0], velocity, acceleration, bounds.jerk))
    goes = [  # faster than numpy for a few numbers
        a != 0 and a * direction <= 0 and (v * a > 0 or a * a > 2 * jerk * abs(v))
        for direction, v, a, jerk in zip(*states, strict=True)
    ]
    if not any(goes):
        return np.zeros(stop.dof)
    forward = -np.sign(acceleration)
    goes = np.array(goes)
    goes &= _way_back(stop, forward) > RETREAT * _way_back(motion, forward) + RETREAT_RAD
    for joint in np.flatnonzero(goes).tolist():
        earliest = max(motion.duration - _TURNED_WITHIN * abs(acceleration[joint]) / bounds.jerk[joint], 0.0)
        goes[joint] = motion.state_at(earliest).velocity[joint] * forward[joint] > 0
    return forward * goes


def _way_back(motion: Motion, forward: np.ndarray) -> np.ndarray:
    """From its furthest point in a direction to its end, rad, `[dof]`; 0 where that is 0."""
    least, most = extremes(motion)[:, 0]
    return np.maximum(forward * least, forward * most) - forward * motion.end.position


def _stopped_early(motion: Motion, whole: Motion, joints: np.ndarray, bounds: Bounds, turning: np.ndarray) -> Motion:
    """The motion in which some joints leave their plan as late as they can to stop within limits, and not back."""
    tracks: dict[int, Motion] = {}
    for joint in joints.tolist():
        of_joint, forward = bounds.of(joint), turning[joint : joint + 1]

        def stopping(time: float, joint: int = joint, of_joint: Bounds = of_joint, forward=forward) -> Motion | None:
            """The stop that begins at a time, s, if it does as it should."""
            stop = fastest_stop(motion.state_at(time).of(joint), of_joint)
            return stop if keeps(stop, of_joint.of_stops) and _way_back(stop, forward)[0] <= INSIDE else None

        most = motion.duration
        if turning[joint]:
            most = min(_TURNED_WITHIN * abs(motion.end.acceleration[joint]) / of_joint.jerk[0], most)
        low = high = motion.duration
        begun = None
        for k in range(_DOUBLINGS, -1, -1):
            high, low = low, motion.duration - most / 2**k
            if begun := stopping(low):
                break
        if begun is None:
            continue
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            if found := stopping(middle):
                low, begun = middle, found
            else:
                high = middle
        if low <= 0:
            continue
        low = np.floor(low * 1e9) * 1e-9  # messages count nanoseconds
        begun = stopping(low) or begun
        tracks[joint] = motion.until(low).of(joint).raised().then(begun)
    return united(tracks, whole, with_accelerations=motion.with_accelerations) if tracks else whole
