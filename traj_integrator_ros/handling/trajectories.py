"""From plans to trajectories for the controller: scheduled, begun from the robot's state, brought to rest, checked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.native import all_finite
from ..execution.points import Points, motion_of_points, points_of
from ..execution.spline import largest
from .ending import brake_from, stopping
from .finite import require_finite
from .limits import JointLimits, find_motion_violation
from .parameter_table import ACTION_REJECT, END_STOP, START_FROM_PREVIOUS
from .parameters import NodeParameters
from .plan import Plan
from .planned_motion import Fading, joined, replacing_motion, started_motion
from .published import ExecutableTrajectory, PublishedMotion
from .rejection import Rejected, RejectionReason
from .schedule import Schedule, schedule
from .start_states import JointStates, MeasuredState
from .time_grid import LONGEST_NS

_NANOSECOND_S = 1e-9
_MOMENT_S = 1e-3
_PIECES = 16
_LONGER_FADES = (2.0, 4.0)
"""Multiples of publish.fade_time that are tried if a fade exceeds the limits."""
_LONGEST_OUTLOOK_S = 0.5
"""Longest time over which a measured velocity is used to bound how far the robot may have moved."""


class Robot(NamedTuple):
    """The robot when a trajectory takes over."""

    state: State
    follows: bool
    """Whether it follows a published motion; otherwise the state was measured, or is unknown."""
    rests: bool
    """Whether it has been at rest there since the plan's origin."""


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
        self._replaces = parameters.start_from == START_FROM_PREVIOUS
        self._fading = Fading(parameters.publish_fade_time, parameters.publish_rest_tolerance)
        self._braking = parameters.braking
        self._known_times: np.ndarray | None = None

    def earliest_ns(self, now_ns: int) -> int:
        """The earliest time at which a trajectory can start, ns."""
        if not self._replaces:
            return now_ns
        return max(now_ns + round(self._parameters.publish_lead_time * 1e9), self._published.earliest_ns)

    def predicted(self, now_ns: int) -> State | None:
        """The commanded state at the earliest start, to start from instead of a measured one; or None."""
        return self._published.state_at(self.earliest_ns(now_ns)) if self._replaces else None

    def trajectory(self, plan: Plan, now_ns: int) -> ExecutableTrajectory:
        """Make the trajectory of a plan.

        Raises:
            Rejected: with the reason.

        """
        when = self._schedule(plan, now_ns)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            trajectory, finding = self._within_limits(plan, when, now_ns)
            if finding:
                self._judge(Rejected(RejectionReason.LIMITS, finding))
            self._check_start(plan, trajectory, now_ns)
        return trajectory

    def _within_limits(self, plan: Plan, when: Schedule, now_ns: int) -> tuple[ExecutableTrajectory, str]:
        """Return the trajectory, and a description of where it exceeds the limits.

        A difference that cannot fade in time within the limits is given more time, up to the plan's duration.
        """
        trajectory = self._made(plan, when, now_ns, self._fading)
        finding = find_motion_violation(trajectory.motion, self._limits, trajectory.brakes_at)
        if not finding or trajectory.seam is None or not self._fading.time:
            return trajectory, finding
        for factor in _LONGER_FADES:
            fading = replace(self._fading, time=self._fading.time * factor)
            if fading.time > plan.duration - when.into:
                break
            longer = self._made(plan, when, now_ns, fading)
            if not find_motion_violation(longer.motion, self._limits, longer.brakes_at):
                return longer, ""
        return trajectory, finding

    def _schedule(self, plan: Plan, now_ns: int) -> Schedule:
        earliest_ns = self.earliest_ns(now_ns)
        if self._replaces and len(plan.steps):
            return schedule(plan, earliest_ns, now_ns, self._parameters.publish_longest_wait)
        return Schedule(plan.origin_ns or earliest_ns)

    def _made(self, plan: Plan, when: Schedule, now_ns: int, fading: Fading) -> ExecutableTrajectory:
        """Return the trajectory, not yet checked."""
        start_ns, before = when.start_ns, None
        if when.wait:
            start_ns, before = self._until_plan_begins(plan, when, now_ns)
        robot = self._robot(plan, plan.origin_ns if when.wait else start_ns, now_ns)
        motion, seam = self._motion(plan, when, robot, fading)
        _require_finite_motion(motion)
        brakes_at = None
        if self._parameters.publish_end == END_STOP:
            motion, brakes_at = stopping(motion, self._braking)
        on_arrival = start_ns == now_ns and not (plan.origin_ns and not self._replaces)
        due_ns = start_ns
        if self._parameters.publish_lead_in and robot.follows and start_ns > now_ns:
            lead_in = self._published.motion_between(now_ns, plan.origin_ns if when.wait else start_ns)
            if lead_in is not None:
                start_ns, before = now_ns, lead_in
        if before is not None:
            motion = _continued(before, motion)
            brakes_at = None if brakes_at is None else brakes_at + before.duration
        stamp_ns = 0 if on_arrival else start_ns
        if not len(plan.steps) and len(motion.coefficients) == 1:
            points = Points(*(None if part is None else part[:1] for part in points_of(motion)))
        else:
            points = points_of(motion, on_arrival or (self._replaces and not robot.follows and not when.wait))
        _require_finite_points(points)
        if points.time_ns is not self._known_times:  # mostly they are those of the trajectory before
            _require_times(points.time_ns)
            self._known_times = points.time_ns
        origin_ns = plan.origin_ns if self._replaces else 0
        return ExecutableTrajectory(
            motion, points, start_ns, stamp_ns, due_ns, brakes_at, when.dropped, seam, origin_ns
        )

    def _motion(self, plan: Plan, when: Schedule, robot: Robot, fading: Fading) -> tuple[Motion, State | None]:
        """The plan's motion from the robot's state, and the difference of that state from the plan's."""
        if not len(plan.steps):
            return self._motion_to_one_point(plan, robot, fading)
        if not robot.rests and (robot.follows or when.into):
            return replacing_motion(plan, when.into, robot.state, fading)
        motion = started_motion(plan, robot.state, fading)
        motion = motion.from_time(when.into) if when.into else motion
        if self._replaces and (when.into or plan.start is not None):
            return joined(motion, robot.state, fading)
        return motion, None

    def _motion_to_one_point(self, plan: Plan, robot: Robot, fading: Fading) -> tuple[Motion, State | None]:
        """Motion of a position trajectory with one point at time 0: to be at rest there."""
        position = np.where(np.isnan(plan.start.position), robot.state.position, plan.start.position)
        if robot.follows:
            span = max(fading.time, _MOMENT_S)
            return joined(resting(position, span, _PIECES), robot.state, fading)
        if np.abs(robot.state.velocity).max() <= fading.rest_tolerance:
            return resting(position, _MOMENT_S), None
        return brake_from(State(position, robot.state.velocity), self._braking.time / _PIECES, self._braking), None

    def _robot(self, plan: Plan, time_ns: int, now_ns: int) -> Robot:
        """Return the state of the robot at a time.

        Raises:
            Rejected: no_joint_state, state_too_old or clock_jumped_back, if nothing else gives the state.

        """
        state = self._published.state_at(time_ns) if self._replaces else None
        if state is not None:
            rests = not (state.velocity.any() or state.acceleration.any())
            if rests and plan.origin_ns and plan.origin_ns < time_ns:
                origin = self._published.state_at(plan.origin_ns)
                rests = origin is not None and np.allclose(origin.position, state.position, rtol=0, atol=1e-9)
            return Robot(state, follows=True, rests=rests)
        try:
            measured = self._joint_states.latest(now_ns, self._parameters.state_timeout)
        except Rejected:
            if plan.start is None or np.isnan(plan.start.velocity).any():
                raise
            return Robot(plan.start, follows=False, rests=True)
        # A moving robot continues until the trajectory starts.
        position = measured.position
        if time_ns > now_ns:
            position = position + measured.velocity * ((time_ns - now_ns) * _NANOSECOND_S)
        rests = largest(measured.velocity) <= self._fading.rest_tolerance
        return Robot(State(position, measured.velocity), follows=False, rests=rests)

    def _until_plan_begins(self, plan: Plan, when: Schedule, now_ns: int) -> tuple[int, Motion | None]:
        """For a plan that begins later: when its trajectory starts, and the robot's motion until then.

        Raises:
            Rejected: future_sequence, if the robot is moving and its motion until then is unknown.

        """
        before = self._published.motion_between(when.start_ns, plan.origin_ns)
        if before is not None:
            if before.coefficients[:, 1:].any():
                return when.start_ns, before
            return plan.origin_ns, None
        robot = self._robot(plan, when.start_ns, now_ns)
        speed = np.abs(robot.state.velocity).max()
        if speed > self._fading.rest_tolerance:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: the first step begins {when.wait:.3f} s after a trajectory can start, and until then "
                f"the robot's motion is unknown: it moves ({speed:g}), and no published trajectory lasts that long",
            )
        return plan.origin_ns, None

    def _check_start(self, plan: Plan, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        measured = self._measured(now_ns)
        if measured is not None and self._parameters.limits_start_deviation > 0:
            if plan.start is not None:
                given = plan.start.position
                if not all_finite(given):
                    given = np.where(np.isnan(given), measured.position, given)
                self._judge_start("start.position", given, plan.origin_ns or trajectory.start_ns, measured)
            begin = trajectory.motion.begin.position
            self._judge_start("the trajectory's start", begin, trajectory.start_ns, measured)

    def _judge_start(self, what: str, position: np.ndarray, time_ns: int, measured: MeasuredState) -> None:
        """Compare a position `[dof]` at a time with the robot's, and with how far it may have moved by then."""
        tolerance = self._parameters.limits_start_deviation
        deviation = position - measured.position
        if largest(deviation) <= tolerance:
            return
        until = (time_ns - measured.stamp_ns) * _NANOSECOND_S
        reach = np.abs(measured.velocity) * min(max(until, 0.0), _LONGEST_OUTLOOK_S)
        beyond = np.abs(deviation) - reach
        joint = int(beyond.argmax())
        if beyond[joint] > tolerance:
            self._judge(
                Rejected(
                    RejectionReason.START_MISMATCH,
                    f"{what} of {self._parameters.joint_names[joint]}: expected within {tolerance:g} "
                    f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
                    f"got {position[joint]:.6g}",
                )
            )

    def _measured(self, now_ns: int) -> MeasuredState | None:
        try:
            return self._joint_states.latest(now_ns, self._parameters.state_timeout)
        except Rejected:
            return None

    def _judge(self, finding: Rejected) -> None:
        if self._parameters.limits_action == ACTION_REJECT:
            raise finding
        self._warn(finding)


def _continued(before: Motion, motion: Motion) -> Motion:
    """One motion after the other; if only one of them is a hold, the controller's interpolation of their points."""
    whole = before.then(motion)
    if before.with_accelerations == motion.with_accelerations:
        return whole
    return motion_of_points(points_of(replace(whole, with_accelerations=True)))


def _require_finite_motion(motion: Motion) -> None:
    require_finite("motion", motion.coefficients, RejectionReason.NON_FINITE_RESULT)


def _require_finite_points(points: Points) -> None:
    for name, values in zip(("position", "velocity", "acceleration"), points[1:], strict=True):
        if values is not None:
            require_finite(name, values, RejectionReason.NON_FINITE_RESULT)


def _require_times(time_ns: np.ndarray) -> None:
    """Check that a message can represent the times of its points.

    Raises:
        Rejected: invalid_times.

    """
    if time_ns[-1] >= LONGEST_NS or time_ns[-1] < 0:
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            f"dt: the trajectory comes to its end after {time_ns[-1] * _NANOSECOND_S:g} s, beyond 2^31 s",
        )
    if (time_ns[1:] <= time_ns[:-1]).any():
        raise Rejected(RejectionReason.INVALID_TIMES, "dt: expected steps of at least one nanosecond")
