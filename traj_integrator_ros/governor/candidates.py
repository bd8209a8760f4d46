"""Motions from the command to a plan: interpolated, stopped at the end, blended, slowed if necessary. No ROS."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.following import Followed, follow
from ..execution.limits import extremes, find_motion_violation
from ..execution.motion import Motion, State, united
from ..execution.steps import Steps
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, SAME, whole_ns
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, ACTION_WARN, END_STOP, GRIPPER
from ..requests.rejection import RejectionReason, require_finite
from .reference import Interpolation, PlannedMotion
from .slow import slow
from .stop import stopped_at_end

Interpolants = Callable[[Interpolation], Iterator[PlannedMotion]]
"""Yields the interpolants of a plan: the one of a chunk, or those of a complete plan with the best one first."""
_CONTRADICTORY = 2.0
"""Ratio of slowed to planned duration beyond which other interpolants of a complete plan are tried, too: the velocities
of its points then contradict their positions.
"""
_MOST_APART = 0.03
"""Largest distance, rad or m, at which a chunk that exceeds limits is followed within them instead of being slowed."""
_OF_RANGE = 0.03
"""The same distance as a share of the joint's range, for joints with a range below 1 rad or m."""
_NO_BLEND = "motion: the plan cannot be blended with the present command within the limits"


class Candidate(NamedTuple):
    """A motion from the present command to a plan and along it, with the planned motion itself."""

    blended: Motion
    planned: PlannedMotion
    delay: float = 0.0
    """Time by which the plan was slowed, s."""
    steps: Steps | None = None
    """Steps of switched joints, by the time of `blended`, in which these joints stand."""

    @staticmethod
    def alone(blend_ns: int, motion: Motion) -> Candidate:
        """Return the candidate whose motion is the plan itself, without a blend."""
        return Candidate(motion, PlannedMotion(blend_ns, motion))


class BlendPoint(NamedTuple):
    """The commanded state where a plan begins, and the bounds of the blend from there."""

    state: State
    """Commanded state at that time."""
    blend_ns: int
    stopped: np.ndarray
    """Joints that stop as fast as they may instead of following rows, bool `[dof]`."""
    floating: np.ndarray
    """Joints that follow velocities without a position to catch up with, bool `[dof]`."""
    bounds: Bounds
    """Bounds of the blend to the plan."""
    limits: JointLimits
    """Limits of the plan; its position limits are widened to contain the robot's position."""


class Ended(NamedTuple):
    """What remains of a planned motion, with the stop that follows it."""

    planned: PlannedMotion
    motion: Motion
    bounds: Bounds
    """Bounds of the blend to it."""
    limits: JointLimits
    """Limits that the motion has to keep."""
    delay: float = 0.0
    """Time by which slowing delays its end, s."""
    steps: Steps | None = None
    """Steps of switched joints, by the motion's time."""


class Candidates:
    """Finds the motions from the present command to plans.

    Args:
        parameters: the node's configuration.
        limits: of the joints, as given.
        assumed: the same limits, with assumed values where none is given.

    """

    def __init__(self, parameters: NodeParameters, limits: JointLimits, assumed: Bounds) -> None:
        self._parameters, self._assumed = parameters, assumed
        grippers = parameters.of_kind(GRIPPER)
        given = grippers if grippers.any() else None
        switched = parameters.switched if len(parameters.switched) else None
        self._interpolation = Interpolation(
            parameters.publish_rest_tolerance, assumed, limits, switched=switched, grippers=given
        )
        of_range = _OF_RANGE * (assumed.position_max - assumed.position_min)
        self._most_apart = np.where(grippers, np.inf, np.minimum(_MOST_APART, of_range))
        """Largest distances at which a chunk is followed, rad, `[dof]`: a gripper goes to its rows as fast as it can.
        """
        self.slows = parameters.limits_action == ACTION_RETIME
        """Whether plans that exceed limits are slowed."""

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def first(self, interpolants: Interpolants, point: BlendPoint) -> tuple[Candidate | None, str]:
        """Return the first candidate that keeps its limits, by itself or once it is slowed; callable in any thread.

        Args:
            interpolants: yields the interpolants of the plan.
            point: the commanded state where the plan begins.

        Returns:
            The candidate, or None if there is none, and its fault, which is empty if it has none.

        Raises:
            Rejected: non_finite_result or brake_impossible.

        """
        fallback, finding = self.at_once(interpolants, point)
        if not finding or not self.slows:
            return fallback, finding
        soonest, reason = self._soonest(interpolants(self._interpolation._replace(slows=True)), point)
        if soonest is not None:
            return soonest, ""
        return fallback, finding + (reason and f"; it cannot be slowed (speeds as parts of the plan's): {reason}")

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def at_once(self, interpolants: Interpolants, point: BlendPoint) -> tuple[Candidate | None, str]:
        """Return what `first` returns if nothing is slowed, since slowing takes longer."""
        finding, fallback = "", None
        for planned in interpolants(self._interpolation):
            require_finite("motion", planned.motion.coefficients, RejectionReason.NON_FINITE_RESULT)
            candidate, fault = self._judged(self._ended(planned, point), point)
            if not fault:
                return candidate, ""
            finding, fallback = finding or fault, fallback or candidate
        return fallback, finding

    def _soonest(self, slowly: Iterator[PlannedMotion], point: BlendPoint) -> tuple[Candidate | None, str]:
        """Slow the interpolants of a plan; return the one that ends first, or why the first of them cannot be slowed.

        The first interpolant that can be slowed is taken, unless slowing makes it longer than `_CONTRADICTORY` allows.

        If the robot rests, blend and plan are slowed together, so that the joints stay on their common path. A robot
        that moves cannot always begin so slowly: then the plan alone is slowed, and the blend keeps the limits itself.
        """
        soonest, reason = None, ""
        moves = bool((np.abs(point.state.known[1:]) > SAME[1:]).any())
        for planned in slowly:
            ended = self._ended(planned, point) if moves else self._followed_freely(planned, point)
            ended = self._slowed(ended) if ended is not None else _NO_BLEND
            if isinstance(ended, str):
                reason = reason or ended
                continue
            candidate, fault = self._judged(ended, point)
            if fault:
                continue
            if soonest is None or candidate.blended.duration < soonest.blended.duration:
                soonest = candidate
            if not planned.is_complete or candidate.blended.duration <= _CONTRADICTORY * planned.motion.duration:
                break
        return soonest, reason

    def _ended(self, planned: PlannedMotion, point: BlendPoint) -> Ended:
        """Return what remains of a planned motion, with its stop, and with the joints stopped that `point` names."""
        rest, limits, bounds = planned.remainder(point.blend_ns), point.limits, point.bounds
        if planned.keeps_limits:  # Neither the interpolation of its points nor the blend to it counts as a violation.
            limits, bounds = limits.raised_to(rest), replace(bounds, most=np.inf)
        raised = bounds.raised_to(rest.valid)
        if self._parameters.publish_end == END_STOP:
            rest = stopped_at_end(rest, raised, self._parameters.publish_rest_tolerance, self._parameters.joint_names)
        if np.count_nonzero(point.stopped):
            rest = _with_stops(rest, point.state, point.stopped, bounds)
        steps = planned.steps and planned.steps.later((planned.start_ns - point.blend_ns) * NANOSECOND_S)
        return Ended(planned, rest, raised, limits, steps=steps)

    def _followed_freely(self, planned: PlannedMotion, point: BlendPoint) -> Ended | None:
        """Blend to a plan as if the plan kept its limits; None if there is no such blend."""
        rest = planned.remainder(point.blend_ns).valid
        raised = replace(point.bounds, most=np.inf, deceleration=None).raised_to(rest)
        ended = self._ended(planned, point._replace(bounds=raised.containing(*extremes(rest)[:, 0])))
        if (followed := self._followed(ended, point)) is None:
            return None
        motion = followed.motion._replace(plan_from=0.0)
        # Later plans continue the slowed plan from here on: the original one is elsewhere by then.
        return ended._replace(planned=planned._replace(start_ns=point.blend_ns, motion=motion), motion=motion)

    def _slowed(self, ended: Ended) -> Ended | str:
        """Slow a motion where it exceeds limits; returns the reason if no slowed motion is found."""
        motion, valid = ended.motion, ended.motion.valid
        if motion.plan_from >= motion.duration:
            return ended
        begins, steps = motion.duration - valid.duration, ended.steps
        marks = () if steps is None else steps.times - begins
        found = slow(valid, self._assumed.raised_to(valid).rates, self._parameters.joint_names, marks=marks)
        if isinstance(found, str):
            return found
        slowed = found.motion if motion.plan_from <= 0 else found.motion.begun_earlier(motion.plan_from)
        steps = steps and steps._replace(times=np.where(steps.times < begins, steps.times, begins + found.times))
        return ended._replace(motion=slowed, delay=slowed.duration - motion.duration, steps=steps)

    def _judged(self, ended: Ended, point: BlendPoint) -> tuple[Candidate | None, str]:
        """Return the candidate for a motion, or None if it must not be executed, and its fault; empty if it has none.

        A chunk may exceed limits if a motion within the limits stays near it. A complete plan has to pass its points.
        """
        motion, limits, planned = ended.motion, ended.limits, ended.planned
        warns, fault = self._parameters.limits_action == ACTION_WARN, ""
        if at_points := planned.is_complete or not motion.with_accelerations or warns:
            fault = find_motion_violation(motion.valid, limits, steps=not planned.keeps_limits)
            if fault and not warns:
                return None, fault
        followed = self._followed(ended, point)
        if followed is None or (not warns and (followed.apart > self._most_apart).any()):
            return None, fault or find_motion_violation(motion.valid, limits) or _NO_BLEND
        if not fault and not (at_points and followed.motion is motion):
            fault = find_motion_violation(followed.motion, limits, steps=False)
        return _candidate(ended, followed, point.blend_ns), fault

    def _followed(self, ended: Ended, point: BlendPoint) -> Followed | None:
        """Blend from the present command to a motion that ends at rest (see `follow`); None if there is no blend."""
        motion, bounds = ended.motion, ended.bounds
        if ended.planned.keeps_limits:
            bounds = bounds.containing(*extremes(motion.valid)[:, 0])
            gap = np.abs(point.state.beyond(motion.begin))
            # If accelerations jump within a plan, it may also begin with a jump.
            if motion.plan_from <= 0 and not (gap > SAME)[:2].any():
                return Followed(motion, np.zeros(motion.dof), np.zeros(motion.dof))
        if self._parameters.limits_action == ACTION_WARN:
            bounds = bounds.containing(*extremes(motion.valid)[:, 0])
        return follow(point.state, motion, bounds, self._parameters.publish_bandwidth, point.floating)


def _candidate(ended: Ended, followed: Followed, blend_ns: int) -> Candidate:
    """Return the executed motion with the planned one that later plans continue, moved to where it is followed."""
    before, kept, begun_ns, shift = ended.planned.motion, ended.motion, blend_ns, followed.shift
    into = (blend_ns - ended.planned.start_ns) * NANOSECOND_S
    if 0 < into < before.duration:  # A later plan may begin, by its stamp, before this one does.
        kept, begun_ns = before.until(into).then(kept), blend_ns - whole_ns(into)
    kept = kept.moved(shift) if np.count_nonzero(shift) else kept
    planned = PlannedMotion(begun_ns, kept, why_slow=ended.planned.why_slow)
    return Candidate(followed.motion, planned, ended.delay, ended.steps)


def _with_stops(motion: Motion, state: State, chosen: np.ndarray, bounds: Bounds) -> Motion:
    """Replace the motion of the chosen joints by their fastest stops from a state."""
    joints = np.flatnonzero(chosen).tolist()
    stopping = {joint: fastest_stop(state.of(joint), bounds.of(joint)) for joint in joints}
    return united(stopping, motion)
