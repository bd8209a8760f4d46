"""Motions from the present command to a plan: read, joined, stopped at the end, slowed if necessary. No ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import check
from ..execution.motion import Motion, State, united
from ..execution.problem import Joining, Problem, Work
from ..execution.splice import splice
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, SAME, SAME_END_RAD, whole_ns
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, ACTION_WARN, END_STOP
from ..requests.rejection import RejectionReason, require_finite
from .reference import PlannedMotion, Reading, inside
from .slow import slow
from .stop import stopped_at_end

Read = Callable[[Reading], Iterator[PlannedMotion]]
"""Yields the planned motions of a plan, the most exact first."""
Fault = Callable[[], str] | None
"""Returns the fault of a candidate, in words; None: there is none."""
_ALIKE = 1.1
"""Excesses of two readings that differ by less than this factor count as the same: then the more exact one is first."""
_CONTRADICTORY = 2.0
"""A complete plan that becomes longer by this factor is read in other ways, too: the rates of its points contradict
their positions then.
"""
_MOST_SLOWED = 3
"""Most readings of a plan that are slowed, one after the other, if none of them keeps the limits."""
_NO_JOIN = "motion: the plan cannot be joined from the present command within the limits"
_OF_A_READING = 8
"""Number of ways of one joint that could be tried in the time in which a plan is read, ended and judged."""


class Candidate(NamedTuple):
    """A motion from the present command to a plan, and the rest of the planned motion."""

    joined: Motion
    planned: PlannedMotion
    delay: float = 0.0
    """Time by which the plan was slowed, s."""

    @staticmethod
    def alone(join_ns: int, motion: Motion) -> Candidate:
        """A motion that is the plan itself."""
        return Candidate(motion, PlannedMotion(join_ns, motion))


class JoinPoint(NamedTuple):
    """The state in which a plan is taken up, and everything that candidates share."""

    state: State
    """Commanded state at that time."""
    join_ns: int
    stopped: np.ndarray
    """Joints that stop from there, bool `[dof]`."""
    floating: np.ndarray
    """Joints whose plan consists of velocities, and that do not stop, bool `[dof]`."""
    bounds: Bounds
    """Bounds of joins."""
    asked: Bounds
    """Bounds of plans: the same, except for the jerk of going over from plan to plan."""
    executed: Motion
    """The rest of the motion in execution."""
    crossing: np.ndarray
    """Jerk, rad/s^3, `[dof]`, that a change from the previous plan may ask for."""
    limits: JointLimits
    """Limits of the plan; those of positions contain the place where the robot is."""
    work: Work | None = None
    """Remaining work of the search; None: it has not begun."""


class Ended(NamedTuple):
    """The rest of a planned motion with what brings it to rest."""

    planned: PlannedMotion
    motion: Motion
    bounds: Bounds
    """Bounds of the join."""
    limits: JointLimits
    """Limits that it has to keep."""
    delay: float = 0.0
    """Time by which it was slowed, s."""


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
    def first(self, read: Read, point: JoinPoint) -> tuple[Candidate | None, str]:
        """The first candidate that keeps its limits, or does so once it is slowed; callable in any thread.

        Args:
            read: the plan.
            point: where it is taken up.

        Returns:
            The candidate, or None if there is none; and its fault, empty if it has none.

        Raises:
            Rejected: non_finite_result or brake_impossible.

        """
        finding, fallback = "", None
        point = point._replace(work=Work())
        for planned in self._gentlest_first(read(self._reading), point.join_ns, point.asked):
            candidate, fault = self._judged(self._ended(planned, point), point)
            if fault is None:
                return candidate, ""
            finding, fallback = finding or fault(), fallback or candidate
            if not point.work.spend(_OF_A_READING):
                break
        if self._parameters.limits_action != ACTION_RETIME:
            return fallback, finding
        slowly = self._gentlest_first(read(self._reading._replace(slows=True)), point.join_ns, point.bounds)
        soonest, reason = self._soonest(islice(slowly, _MOST_SLOWED), point)
        if soonest is not None:
            return soonest, ""
        return fallback, finding + (reason and f"; it cannot be slowed (speeds as parts of the plan's): {reason}")

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def at_once(self, read: Read, point: JoinPoint) -> Candidate | None:
        """The result of `first` if the most exact reading is neither smoothed nor slowed; None: it takes a search."""
        planned = next(read(self._reading))
        require_finite("motion", planned.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
        if not planned.is_complete and not self._keeps(planned.remainder(point.join_ns), point.asked):
            return None
        point = point._replace(work=Work())
        candidate, fault = self._judged(self._ended(planned, point), point)
        return candidate if fault is None else None

    def _soonest(self, slowly: Iterator[PlannedMotion], point: JoinPoint) -> tuple[Candidate | None, str]:
        """The slowed plan that ends soonest: the first one, unless it contradicts itself; None: why the first is not.

        From rest, a plan is joined as if it kept its limits, and slowed as a whole: joints stay on their common path.
        A robot that moves cannot always begin so: then the plan is slowed by itself, and joined within limits.
        """
        soonest, reason = None, ""
        moves = bool((np.abs(point.state.known[1:]) > SAME[1:]).any())
        for planned in slowly:
            ended = self._ended(planned, point) if moves else self._joined_freely(planned, point)
            ended = self._slowed(ended) if ended is not None else _NO_JOIN
            if isinstance(ended, str):
                reason = reason or ended
                continue
            candidate, fault = self._judged(ended, point)
            if fault is not None:
                continue
            if soonest is None or candidate.joined.duration < soonest.joined.duration:
                soonest = candidate
            if not planned.is_complete or candidate.joined.duration <= _CONTRADICTORY * planned.motion.duration:
                break
        return soonest, reason

    def _gentlest_first(
        self, motions: Iterator[PlannedMotion], join_ns: int, bounds: Bounds
    ) -> Iterator[PlannedMotion]:
        """Planned motions: as they come while they keep the bounds, others by their excess."""
        wilder: list[tuple[int, PlannedMotion]] = []
        for planned in motions:
            require_finite("motion", planned.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
            if planned.is_complete:
                yield planned
                continue
            planned = inside(planned, join_ns, bounds)
            rest = planned.remainder(join_ns)
            if self._keeps(rest, bounds):
                yield planned
            else:
                excess = np.prod(np.maximum(bounds.demands_of(rest.valid), 1.0))
                wilder.append((round(np.log(excess) / np.log(_ALIKE)), planned))
        yield from (planned for _, planned in sorted(wilder, key=lambda it: it[0]))

    def _keeps(self, rest: Motion, bounds: Bounds) -> bool:
        """Return whether the plan's part of a motion keeps bounds."""
        return bool(bounds.demands_of(rest.valid).max() <= 1 + self._parameters.limits_tolerance)

    def _ended(self, planned: PlannedMotion, point: JoinPoint) -> Ended:
        """A planned motion with its brake, and with the stops of joints that stop where they come to rest."""
        rest, limits, bounds = planned.remainder(point.join_ns), point.limits, point.bounds
        if planned.keeps_limits:  # the interpolation of the plan's points violates nothing, nor does a join to it
            limits, bounds = limits.raised_to(rest), replace(bounds, most=np.inf)
        raised = bounds.raised_to(rest.valid)
        if self._parameters.publish_end == END_STOP:
            rest = stopped_at_end(rest, raised, self._parameters.publish_rest_tolerance, self._parameters.joint_names)
        if np.count_nonzero(point.stopped):
            rest = _with_stops(rest, point.state, point.stopped, bounds)
        return Ended(planned, rest, raised.containing(rest.valid), limits)

    def _joined_freely(self, planned: PlannedMotion, point: JoinPoint) -> Ended | None:
        """The motion that joins a plan as if the plan kept its limits; None: it cannot be joined."""
        rest = planned.remainder(point.join_ns).valid
        raised = replace(point.bounds, most=np.inf, deceleration=None).raised_to(rest)
        ended = self._ended(planned, point._replace(bounds=raised))
        if (joined := self._joined(ended, point)) is None:
            return None
        motion = joined[0]._replace(plan_from=0.0)
        # Later plans continue the slowed plan from here on, since the original plan is elsewhere.
        return ended._replace(planned=planned._replace(start_ns=point.join_ns, motion=motion), motion=motion)

    def _slowed(self, ended: Ended) -> Ended | str:
        """The same motion, slowed where it exceeds limits; or the reason why none is found, in words."""
        motion, valid = ended.motion, ended.motion.valid
        if motion.plan_from >= motion.duration:
            return ended
        found = slow(valid, self._assumed.raised_to(valid).rates, self._parameters.joint_names)
        if isinstance(found, str):
            return found
        slowed = found if motion.plan_from <= 0 else found.begun_earlier(motion.plan_from)
        return ended._replace(motion=slowed, delay=slowed.duration - motion.duration)

    def _judged(self, ended: Ended, point: JoinPoint) -> tuple[Candidate | None, Fault]:
        """The candidate, if the ended motion keeps its limits, or may exceed them, and can be joined; and its fault."""
        limits, planned = ended.limits, ended.planned
        fault = check(ended.motion.valid, limits, steps=not planned.keeps_limits)
        if fault is not None and self._parameters.limits_action != ACTION_WARN:
            return None, fault
        joined = self._joined(ended, point)
        if joined is None:
            return None, fault or (lambda: _NO_JOIN)
        motion, shift = joined
        if fault is None and motion is not ended.motion:
            fault = check(motion, limits, steps=False)
            if fault is not None and ended.motion.plan_until < np.inf and np.abs(shift).max() > SAME_END_RAD:
                # Stopped on its way instead of at the planned place, it may keep the limits.
                moved = planned._replace(motion=planned.motion.moved(shift))
                return self._judged(self._ended(moved, point), point)
        return _candidate(ended, motion, shift, point.join_ns), fault

    def _joined(self, ended: Ended, point: JoinPoint) -> tuple[Motion, np.ndarray] | None:
        """See `splice`: the motion from the present command to an ended planned motion."""
        motion, planned = ended.motion, ended.planned
        problem = Problem(
            point.state, motion, ended.bounds, self._joining, point.floating, point.executed, point.crossing,
            planned.pace, point.work,
        )  # fmt: skip
        # If accelerations jump within a plan, it may also begin with a jump.
        if planned.keeps_limits and problem.jumps_only:
            return motion, np.zeros(motion.dof)
        return splice(problem)


def _candidate(ended: Ended, motion: Motion, shift: np.ndarray, join_ns: int) -> Candidate:
    """The executed motion, and the planned one that later plans continue: as planned, moved to where it is joined."""
    before, kept, begun_ns = ended.planned.motion, ended.motion, join_ns
    into = (join_ns - ended.planned.start_ns) * NANOSECOND_S
    if 0 < into < before.duration:  # a later plan may begin before this one was taken up
        kept, begun_ns = before.until(into).then(kept), join_ns - whole_ns(into)
    kept = kept.moved(shift) if np.count_nonzero(shift) else kept
    return Candidate(motion, PlannedMotion(begun_ns, kept, said=ended.planned.said), ended.delay)


def _with_stops(motion: Motion, state: State, chosen: np.ndarray, bounds: Bounds) -> Motion:
    """The motion, except that some joints come to rest from a state as fast as they may."""
    joints = np.flatnonzero(chosen).tolist()
    stopping = {joint: fastest_stop(state.of(joint), bounds.of(joint)) for joint in joints}
    return united(stopping, motion)
