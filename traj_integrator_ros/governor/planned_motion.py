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

_OF_LIMITS = 0.97
"""Share of the limits to which a plan is slowed that is blended into from a motion: the blend needs some room."""
_NO_BLEND = "motion: the plan cannot be blended with the present command within the limits"


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


@np.errstate(over="ignore", invalid="ignore", divide="ignore")
def motion_to(task: Task, parameters: NodeParameters, assumed: Bounds, *, slows: bool) -> Found:
    """Return the motion from the command to a plan and along it: steps 4 to 7 of a sequence, in any thread.

    Args:
        task: the plan and the command.
        parameters: the node's configuration.
        assumed: limits, with assumed values where none is given.
        slows: whether a plan that exceeds limits may be slowed now, which takes longer.

    Raises:
        Rejected: limits_violated, non_finite_result or brake_impossible.

    """
    reference, limits = task.reference(), task.limits
    planned, bounds = reference.motion, assumed.containing(*limits.range_of("position"))
    require_finite("motion", planned.coefficients, RejectionReason.NON_FINITE_RESULT)
    rest = planned.rest_from(task.begin_ns)
    if reference.keeps_limits:  # Neither the interpolation of its points nor the blend to it counts as a violation.
        limits, bounds = limits.raised_to(rest), replace(bounds, most=np.inf)
    bounds = bounds.raised_to(rest.valid)
    meant, into = _ended(rest, task, bounds, parameters), (task.begin_ns - planned.start_ns) * NANOSECOND_S
    blend = _Blend(task, parameters, bounds, limits, reference.keeps_limits)
    try:
        found = blend.judged(meant, reference.passes - into)
    except Rejected as refused:
        if not slows or parameters.limits_action != ACTION_RETIME or meant.plan_from >= meant.duration:
            raise
        moves = bool((np.abs(task.state.known[1:]) > SAME[1:]).any())
        found = blend.slowed(meant, reference.passes - into, refused.message, assumed, moves=moves)
        into = into if moves else 0.0
    if reference.why_slow:
        not_fastest = Rejected(RejectionReason.NOT_FASTEST, f"points: {reference.why_slow}")
        found = found._replace(warnings=(not_fastest, *found.warnings))
    kept = found.meant
    if 0 < into < planned.duration:  # A later plan may begin, by its stamp, before this one does.
        kept = planned.until(into).then(kept)
    end = kept.end.position
    if np.count_nonzero(task.floating | (end < bounds.position_min) | (end > bounds.position_max)):
        kept = kept.moved(found.motion.end.position - end)
    return found._replace(meant=kept)


def _ended(motion: Motion, task: Task, bounds: Bounds, parameters: NodeParameters) -> Motion:
    """Return a plan with its end at rest, in which joints that stop do so at once."""
    if parameters.publish_end == END_STOP:
        motion = stopped_at_end(motion, bounds, parameters.publish_rest_tolerance, parameters.joint_names)
    if np.count_nonzero(task.stopped):
        joints = np.flatnonzero(task.stopped).tolist()
        motion = united({joint: fastest_stop(task.state.of(joint), bounds.of(joint)) for joint in joints}, motion)
    return motion


class _Blend(NamedTuple):
    """The blend from the command of a task to motions that end at rest."""

    task: Task
    parameters: NodeParameters
    bounds: Bounds
    limits: JointLimits
    """Limits that the motion has to keep."""
    keeps_limits: bool

    def judged(self, meant: Motion, passes: np.ndarray) -> Found:
        """Blend into a motion, which passes rows at times, s.

        A chunk may exceed limits if a motion within the limits stays near it. A complete plan has to pass its points.

        Raises:
            Rejected: limits_violated.

        """
        warns, fault = self.parameters.limits_action == ACTION_WARN, ""
        if at_points := self.task.plan.is_complete or not meant.with_accelerations or warns:
            fault = find_motion_violation(meant.valid, self.limits, steps=not self.keeps_limits)
        motion = None if fault and not warns else self._followed(meant, np.inf if warns else self.task.most_apart)
        if motion is None:
            fault = fault or find_motion_violation(meant.valid, self.limits) or _NO_BLEND
        elif not fault and not (at_points and motion is meant):
            fault = find_motion_violation(motion, self.limits, steps=False)
        warnings = (Rejected(RejectionReason.LIMITS, fault),) if fault else ()
        if warnings and (motion is None or not warns):
            raise warnings[0]
        return Found(motion, meant, passes=passes, warnings=warnings)

    def slowed(self, meant: Motion, passes: np.ndarray, fault: str, assumed: Bounds, *, moves: bool) -> Found:
        """Blend into a motion that is slowed along its path because of a fault.

        `moves` says whether any joint does at the command. If none does, blend and plan are slowed together, so that
        joints stay on their common path. Raises Rejected: limits_violated.
        """
        if not moves:  # as if it kept its limits
            free = replace(self.bounds, most=np.inf, deceleration=None).raised_to(meant.valid)
            blend = self._replace(bounds=free.containing(*extremes(meant.valid)[:, 0]))._followed(meant)
            meant = meant if blend is None else blend._replace(plan_from=0.0)  # All of it counts as planned.
        valid, rates = meant.valid, assumed.raised_to(meant.valid).rates
        begins = meant.duration - valid.duration
        rates = _OF_LIMITS * rates if moves else rates
        try:
            slowed = slow(valid, rates, self.parameters.joint_names, marks=passes - begins)
            later = slowed.motion if meant.plan_from <= 0 else slowed.motion.from_time(-meant.plan_from)
            found = self.judged(later._replace(start_ns=meant.start_ns), begins + slowed.passes)
        except Rejected as refused:
            fault = f"{fault}; it cannot be slowed (speeds as parts of the plan's): {refused.message}"
            raise Rejected(RejectionReason.LIMITS, fault) from None
        return found._replace(delay=later.duration - meant.duration)

    def _followed(self, motion: Motion, most_apart: np.ndarray | float = np.inf) -> Motion | None:
        state, bounds = self.task.state, self.bounds
        if self.task.plan.is_complete and motion.plan_from <= 0:
            # If accelerations jump within a plan, it may also begin with a jump.
            orders = 2 if self.keeps_limits or not motion.with_accelerations else 3
            if not (np.abs(state.beyond(motion.begin)) > SAME)[:orders].any():
                return motion
        if self.keeps_limits or self.parameters.limits_action == ACTION_WARN:
            bounds = bounds.containing(*extremes(motion.valid)[:, 0])
        return follow(state, motion, bounds, self.parameters.publish_bandwidth, self.task.floating, most_apart)
