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
from ..parameters.table import ACTION_RETIME, ACTION_WARN, END_STOP, GRIPPER
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, require_finite
from .slow import slow
from .stop import stopped_at_end

_MOST_APART = 0.03
"""Largest distance at which a chunk that exceeds limits is followed within them instead of being slowed: rad or m, or
that share of a joint's range below 1 rad or m.
"""
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
    dropped: int
    """Number of steps of the plan that are over by then."""


class Found(NamedTuple):
    """A motion to a plan and along it."""

    motion: Motion | None
    """None if there is none that may be executed."""
    meant: Motion
    """The planned motion itself, which later plans continue; it may begin earlier."""
    delay: float = 0.0
    """Time by which the plan was slowed, s."""
    passes: np.ndarray = np.empty(0)
    """Times of the motion at the plan's rows, s, `[N]`."""
    fault: str = ""
    """Why the motion must not be executed, or limits that it exceeds although limits.action is warn."""
    warnings: tuple[Rejected, ...] = ()
    """What to tell of it: its fault, or why it is not the fastest."""


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
    blend = _Blend(task, parameters, bounds, limits, _most_apart(parameters, assumed), reference.keeps_limits)
    found = blend.judged(meant, reference.passes - into)
    slows = slows and parameters.limits_action == ACTION_RETIME
    if found.fault and slows and meant.plan_from < meant.duration:
        moves = bool((np.abs(task.state.known[1:]) > SAME[1:]).any())
        found, into = blend.slowed(meant, found, assumed, moves=moves), into if moves else 0.0
    warnings = [Rejected(RejectionReason.NOT_FASTEST, f"points: {reference.why_slow}")] if reference.why_slow else []
    if found.fault:
        warnings.append(Rejected(RejectionReason.LIMITS, found.fault))
        if found.motion is None or parameters.limits_action != ACTION_WARN:
            raise warnings[-1]
    kept = found.meant
    if 0 < into < planned.duration:  # A later plan may begin, by its stamp, before this one does.
        kept = planned.until(into).then(kept)
    end = kept.end.position
    if np.count_nonzero(task.floating | (end < bounds.position_min) | (end > bounds.position_max)):
        kept = kept.moved(found.motion.end.position - end)
    return found._replace(meant=kept, warnings=tuple(warnings))


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
    most_apart: np.ndarray
    keeps_limits: bool

    def judged(self, meant: Motion, passes: np.ndarray) -> Found:
        """Blend into a motion, which passes rows at times, s.

        A chunk may exceed limits if a motion within the limits stays near it. A complete plan has to pass its points.
        """
        warns, fault = self.parameters.limits_action == ACTION_WARN, ""
        if at_points := self.task.plan.is_complete or not meant.with_accelerations or warns:
            fault = find_motion_violation(meant.valid, self.limits, steps=not self.keeps_limits)
            if fault and not warns:
                return Found(None, meant, passes=passes, fault=fault)
        motion = self._followed(meant, np.inf if warns else self.most_apart)
        if motion is None:
            fault = fault or find_motion_violation(meant.valid, self.limits) or _NO_BLEND
            return Found(None, meant, passes=passes, fault=fault)
        if not fault and not (at_points and motion is meant):
            fault = find_motion_violation(motion, self.limits, steps=False)
        return Found(motion, meant, passes=passes, fault=fault)

    def slowed(self, meant: Motion, found: Found, assumed: Bounds, *, moves: bool) -> Found:
        """Blend into a motion that is slowed along its path; what was found before says why that is needed.

        `moves` says whether any joint does at the command. If none does, blend and plan are slowed together, so that
        joints stay on their common path.
        """
        if not moves:  # as if it kept its limits
            free = replace(self.bounds, most=np.inf, deceleration=None).raised_to(meant.valid)
            blend = self._replace(bounds=free.containing(*extremes(meant.valid)[:, 0]))._followed(meant)
            meant = meant if blend is None else blend._replace(plan_from=0.0)  # All of it counts as planned.
        valid, rates = meant.valid, assumed.raised_to(meant.valid).rates
        begins = meant.duration - valid.duration
        rates = _OF_LIMITS * rates if moves else rates
        slowed = slow(valid, rates, self.parameters.joint_names, marks=found.passes - begins)
        if isinstance(slowed, str):
            fault = slowed
        else:
            later = slowed.motion if meant.plan_from <= 0 else slowed.motion.from_time(-meant.plan_from)
            again = self.judged(later._replace(start_ns=meant.start_ns), begins + slowed.passes)
            if not (fault := again.fault):
                return again._replace(delay=later.duration - meant.duration)
        return found._replace(fault=f"{found.fault}; it cannot be slowed (speeds as parts of the plan's): {fault}")

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


def _most_apart(parameters: NodeParameters, assumed: Bounds) -> np.ndarray:
    """Return the largest distances at which a chunk is followed, rad, `[dof]`: grippers go as fast as they can."""
    most = _MOST_APART * np.minimum(assumed.position_max - assumed.position_min, 1.0)
    return np.where(parameters.of_kind(GRIPPER), np.inf, most)
