"""The motion from the command to a plan and along it: interpolated, stopped, blended, slowed if necessary. No ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.following import follow
from ..execution.limits import extremes, find_motion_violation
from ..execution.motion import Motion, State, united
from ..execution.rows import Reference
from ..execution.stopping import fastest_stop
from ..execution.tolerances import NANOSECOND_S, SAME
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..parameters.table import ACTION_RETIME, ACTION_WARN, END_STOP
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, require_finite
from .slow import slow
from .stop import stopped_at_end

_OF_LIMITS = 0.97, 0.6
"""Shares of the limits, tried in this order, to which a plan is slowed that is blended into from a motion: the blend
needs some room, more of it where the command uses all of its jerk in order to keep a limit of velocity.
"""
_NO_BLEND = "motion: the plan cannot be blended with the present command within the limits"


class Found(NamedTuple):
    """A motion to a plan and along it."""

    motion: Motion
    meant: Motion
    """The planned motion itself, which later plans continue; it may begin earlier."""
    delay: float = 0.0
    """Time by which the plan was slowed, s."""
    passes: np.ndarray = np.empty(0)
    """Times of the motion at the plan's rows, s, `[N]`."""
    warnings: tuple[Rejected, ...] = ()
    """Why it is not the fastest, or limits that it exceeds although limits.action is warn."""


class Task(NamedTuple):
    """A plan, and the command where the motion to it begins."""

    plan: Plan
    reference: Callable[[], Reference]
    """Interpolates the plan, in any thread."""
    begin_ns: int
    state: State
    """Commanded state at that time."""
    stopped: np.ndarray
    """Joints that stop as fast as they may instead of following rows, bool `[dof]`."""
    floating: np.ndarray
    """Joints that follow velocities without a position to catch up with, bool `[dof]`."""
    limits: JointLimits
    """Limits of the plan; its position limits are widened to contain the robot's position."""
    most_apart: np.ndarray
    """Largest distances at which the plan is followed where it exceeds limits, rad, `[dof]`."""
    dropped: int
    """Number of steps of the plan that are over by then."""
    parameters: NodeParameters
    bounds: Bounds
    """Limits of the blend, with assumed values where none is given."""
    keeps_limits: bool = False
    """Whether the points of the plan keep the limits, so that neither interpolation nor blend counts as a violation."""

    @np.errstate(over="ignore", invalid="ignore", divide="ignore")
    def motion(self, *, slows: bool) -> Found:
        """Return the motion from the command to the plan and along it: steps 4 to 7 of a sequence, in any thread.

        `slows` says whether a plan that exceeds limits may be slowed now, which takes longer. Raises Rejected:
        limits_violated, non_finite_result or brake_impossible.
        """
        planned, passes, keeps_limits, why_slow = self.reference()
        limits, bounds = self.limits, self.bounds.containing(*self.limits.range_of("position"))
        require_finite("motion", planned.coefficients, RejectionReason.NON_FINITE_RESULT)
        rest, into = planned.rest_from(self.begin_ns), (self.begin_ns - planned.start_ns) * NANOSECOND_S
        if keeps_limits:
            limits, bounds = limits.raised_to(rest), replace(bounds, most=np.inf)
        bounds, passes = bounds.raised_to(rest.valid), passes - into
        task = self._replace(bounds=bounds, limits=limits, keeps_limits=keeps_limits)
        meant = task._ended(rest)
        try:
            found = task._judged(meant, passes)
        except Rejected as refused:
            if not slows or self.parameters.limits_action != ACTION_RETIME or meant.plan_from >= meant.duration:
                raise
            moves = bool((np.abs(self.state.known[1:]) > SAME[1:]).any())
            found = task._slowed(meant, passes, refused.message, self.bounds, moves=moves)
            into = into if moves else 0.0
        if why_slow:
            not_fastest = Rejected(RejectionReason.NOT_FASTEST, f"points: {why_slow}")
            found = found._replace(warnings=(not_fastest, *found.warnings))
        kept = found.meant
        if 0 < into < planned.duration:  # A later plan may begin, by its stamp, before this one does.
            kept = planned.until(into).then(kept)
        end = kept.end.position
        if np.count_nonzero(self.floating | (end < bounds.position_min) | (end > bounds.position_max)):
            planned = kept.planned.end.position  # Where only its stop leads beyond limits, the plan stays where it is.
            elsewhere = self.floating | (planned < bounds.position_min) | (planned > bounds.position_max)
            kept = kept.moved(np.where(elsewhere, found.motion.end.position - end, 0.0))
        return found._replace(meant=kept)

    def _ended(self, motion: Motion) -> Motion:
        """Return a plan with its end at rest, in which joints that stop do so at once."""
        parameters, bounds = self.parameters, self.bounds
        if parameters.publish_end == END_STOP:
            motion = stopped_at_end(motion, bounds, parameters.publish_rest_tolerance, parameters.joint_names)
        if np.count_nonzero(self.stopped):
            joints = np.flatnonzero(self.stopped).tolist()
            motion = united({joint: fastest_stop(self.state.of(joint), bounds.of(joint)) for joint in joints}, motion)
        return motion

    def _judged(self, meant: Motion, passes: np.ndarray) -> Found:
        """Blend into a motion, which passes rows at times, s.

        A chunk may exceed limits if a motion within the limits stays near it. A complete plan has to pass its points.

        Raises:
            Rejected: limits_violated.

        """
        warns, fault = self.parameters.limits_action == ACTION_WARN, ""
        if at_points := self.plan.is_complete or not meant.with_accelerations or warns:
            fault = find_motion_violation(meant.valid.planned, self.limits, steps=not self.keeps_limits)
        motion = None if fault and not warns else self._followed(meant, np.inf if warns else self.most_apart)
        if motion is None:
            fault = fault or find_motion_violation(meant.valid, self.limits) or _NO_BLEND
        elif not fault and not (at_points and motion is meant):
            fault = find_motion_violation(motion, self.limits, steps=False)
        warnings = (Rejected(RejectionReason.LIMITS, fault),) if fault else ()
        if warnings and (motion is None or not warns):
            raise warnings[0]
        return Found(motion, meant, passes=passes, warnings=warnings)

    def _slowed(self, meant: Motion, passes: np.ndarray, fault: str, assumed: Bounds, *, moves: bool) -> Found:
        """Blend into a motion that is slowed along its path because of a fault.

        `moves` says whether any joint does at the command. If none does, blend and plan are slowed together, so that
        joints stay on their common path. Raises Rejected: limits_violated.
        """
        if not moves:  # as if it kept its limits
            free = replace(self.bounds, most=np.inf, deceleration=None).raised_to(meant.valid)
            whole = self._replace(bounds=free.containing(*extremes(meant.valid)[:, 0]))._followed(meant)
            meant = meant if whole is None else whole._replace(plan_from=0.0)  # All of it counts as planned.
        valid, rates = meant.valid, assumed.raised_to(meant.valid).rates
        begins = meant.duration - valid.duration
        task = self._replace(bounds=self.bounds.slowing(self.state)) if moves else self
        for share in _OF_LIMITS if moves else (1.0,):
            try:
                slowed = slow(valid, share * rates, self.parameters.joint_names, marks=passes - begins)
                later = slowed.motion if meant.plan_from <= 0 else slowed.motion.from_time(-meant.plan_from)
                found = task._judged(later._replace(start_ns=meant.start_ns), begins + slowed.passes)
                return found._replace(delay=later.duration - meant.duration)
            except Rejected as refused:
                reason = refused.message
        fault = f"{fault}; it cannot be slowed (speeds as parts of the plan's): {reason}"
        raise Rejected(RejectionReason.LIMITS, fault)

    def _followed(self, motion: Motion, most_apart: np.ndarray | float = np.inf) -> Motion | None:
        bounds, bandwidth = self.bounds, self.parameters.publish_bandwidth
        if self.plan.is_complete and motion.plan_from <= 0:
            # If accelerations jump within a plan, it may also begin with a jump.
            orders = 2 if self.keeps_limits or not motion.with_accelerations else 3
            if not (np.abs(self.state.beyond(motion.begin)) > SAME)[:orders].any():
                return motion
        if self.keeps_limits or self.parameters.limits_action == ACTION_WARN:
            whole, planned = (extremes(one)[:, 0] for one in (motion.valid, motion.valid.planned))
            within = (planned[0] >= bounds.position_min) & (planned[1] <= bounds.position_max)  # if it brakes before
            bounds = bounds.containing(*np.where(within, planned, whole))
        return follow(self.state, motion, bounds, bandwidth, self.floating, most_apart)
