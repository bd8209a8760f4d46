"""What is commanded when: plans, plans that wait, brakes and stops. Knows no ROS."""

from __future__ import annotations

from math import isfinite

from ..execution.tolerances import NANOSECOND_S, whole_ns
from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason
from .executable import ExecutableTrajectory
from .measured import JointStates, MeasuredState
from .planner import Planner
from .published import PublishedMotion
from .sent import NotYet
from .supervision import Finding
from .trajectories import TrajectoryMaker

_RESTARTS_S = 0.16
"""Time, s, within which a controller restarts: the arm stands, and would execute a brake from its middle."""

_CUT_OFF_S = 1.0
"""Longest time, s, for which a stop waits for a network that stands still: it may only stand still on the way back."""

_TOGETHER_S = 0.1
"""Reports and joint states that end within this time, s, of each other have one cause: the network."""


class Commands:
    """Brings plans to the controller, and stops the robot when it, its states or a caller demand that."""

    def __init__(self, joint_states: JointStates, published: PublishedMotion, planner: Planner) -> None:
        self._joint_states, self._published, self.planner = joint_states, published, planner
        self._trajectories: TrajectoryMaker | None = None
        self._revisions = 0
        """Revisions of the present command that the tracking monitor has seen (`PresentCommand.revisions`)."""
        self._kept: JointLimits | None = None
        """The limits before a change, until the motion in execution has been compared with the new ones."""

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters; `tick` brings the motion in execution within their limits."""
        if self._trajectories is not None and self._kept is None:
            self._kept = self._trajectories.limits
        self._parameters, self._trajectories = parameters, trajectories
        self.planner.reconfigure(parameters, trajectories)

    def tick(self, now_ns: int) -> ExecutableTrajectory | None:
        """Supervise the robot: return a trajectory to publish at once (a brake, or a plan that waited), or None.

        Called every few milliseconds, also while nothing arrives.
        """
        published, guard = self._published, self._published.guard
        self.check_clock(now_ns)
        moving = published.is_moving(now_ns)
        if guard.stopped_until_rest and not moving:
            guard.stopped_until_rest = False
        is_void = published.present.is_doubtful or self._joint_states.believed.begins_anew
        if is_void and not moving and guard.rests(now_ns, self._trajectories.allowance):
            self._joint_states.believed.begins_anew = False
            published.drop()  # A clock was set in the motion, or a driver started: the next one begins at the robot.
        found = self._why_brake(now_ns, moving)
        contradicts = found is not None and found.kind is RejectionReason.CONTRADICTORY_STATE
        if guard.reason and not moving and not contradicts and guard.rests(now_ns, self._trajectories.allowance):
            if guard.back_to is None:
                if published.present.report is None and guard.was_moved(self._trajectories.allowance):
                    published.drop()  # Whatever the controller holds, the next motion begins where the robot is.
                guard.recover()
                found = None
            elif not published.present.is_overdue(now_ns) and (back := self._way_back(now_ns)) is not None:
                return back
        if found is not None and (not guard.reason or (contradicts and guard.kind is not found.kind)):
            guard.brake(found, self._joint_states.lately(), self._trajectories.allowance)
            self.planner.refuse(guard.refusal())
            return self._stopped(now_ns) if moving else None
        if guard.stop_waits or (guard.is_busy and moving and published.present.has_lost):
            return self._stopped(now_ns)
        if self._kept is not None and (within := self._within_limits(now_ns)) is not None:
            return within
        if published.present.is_off(now_ns):
            self.planner.refuse(published.present.unavailable(now_ns))
        if published.present.is_silent(now_ns):
            return None  # The controller would execute a motion that is sent now from its middle, when it is back.
        return self.planner.go_on(now_ns)

    def _way_back(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the motion by which the command goes back, once after a brake; None if it stands where it is.

        It requires reports of the controller: without them, nobody knows whether it still holds the command.
        """
        guard, present = self._published.guard, self._published.present
        own = None if present.report is None or present.is_silent(now_ns) else present.own(now_ns)
        if own is None or guard.held:
            guard.back_to = None
            return None
        place, most = own.planned.motion.end.position, self._parameters.limits_start_deviation
        way = guard.way_back(place, most, self._trajectories.allowance)
        return None if way is None else self._trajectories.back(now_ns, way)

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command; None if nothing moves, or if `tick` will return it.

        Sequences are rejected until the robot rests, or with `hold` until `release`.
        """
        guard = self._published.guard
        guard.held = hold
        guard.back_to = None  # Whoever stops the robot wants it to stand: the command does not go back.
        self.planner.refuse(Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun"))
        if not self._published.is_moving(now_ns) and not self._published.present.may_move():
            return None
        guard.stopped_until_rest = True
        return self._stopped(now_ns)

    def awaited_stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the stop that `tick` will return once the controller is at the first point of a motion; or None."""
        if not self._published.guard.stop_waits:
            return None
        try:
            return self._trajectories.stop(now_ns)
        except NotYet as later:
            if not later.until_ns:
                return None
            left_s = (later.until_ns - self._published.motion_clock.at(now_ns)) * NANOSECOND_S
            lasts_s = self._published.motion_clock.lasts_s(left_s)
            return self._trajectories.stop(now_ns + whole_ns(lasts_s)) if isfinite(lasts_s) else None

    @property
    def waits(self) -> bool:
        """Return whether a plan, or a change of limits, still waits for its effect on the controller."""
        return self.planner.waits or self._kept is not None

    def deactivate(self) -> None:
        """Refuse waiting plans: they must not begin when the node is active again."""
        self.planner.refuse(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the sequence was begun"))
        self.planner.tell_refused()

    def supervise(self, now_ns: int) -> None:
        """Compare the latest joint state with the command at its time, if a comparison is due."""
        state = self._comparable(now_ns)
        clock, present, guard = self._published.clock, self._published.present, self._published.guard
        # While nobody knows where the controller is in its motion, a brake could begin away from the command.
        if present.is_unclear or clock.states.is_alone or not guard.monitor.is_due(state.stamp_ns):
            return
        position, turning = state.position, self._parameters.continuous
        commanded = self._published.present.commanded
        if turning.any() and (then := commanded(state.stamp_ns)) is not None:
            position = turned(position, then.position, turning)
        position = position - guard.offset
        allowance = self._trajectories.allowance
        if self._revisions != present.revisions:
            self._revisions = present.revisions
            guard.monitor.forget_line()
        guard.monitor.take(position, state.stamps_ns, commanded, allowance, free=not guard.reason)
        guard.measured(position, allowance, state.stamp_ns)
        if guard.monitor.knows_command:
            guard.grips.take(position, guard.monitor.commanded, state.stamp_ns, allowance.grip)

    def _comparable(self, now_ns: int) -> MeasuredState:
        """Return the latest joint state whose command is known: in scaled motions, one before the last report."""
        latest, present = self._joint_states.latest(now_ns, 0.0), self._published.present
        if present.report is None or present.motion_clock.is_settled(now_ns):
            return latest
        known = (one for one in reversed(self._joint_states.recent) if one.stamp_ns <= present.report.stamp_ns)
        return next(known, latest)

    def check_clock(self, now_ns: int) -> None:
        """Forget states and motions whose times are later than now: the clock has jumped back."""
        self._joint_states.check_clock(now_ns)
        if self._published.check_clock(now_ns):
            self._joint_states.drop_for_jump()

    def _why_brake(self, now_ns: int, moving: bool) -> Finding | None:
        """Return the reason to brake the robot; None if there is none."""
        try:
            self._joint_states.believed.require_agreement(now_ns)
        except Rejected as contradictory:
            return Finding(contradictory.message, contradictory.reason)
        timeout, age = self._parameters.state_timeout, self._joint_states.age_s(now_ns)
        if moving and timeout > 0 and age is not None and age > timeout:
            message = f"joint states ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)"
            return Finding(message, RejectionReason.STATE_TOO_OLD)
        present = self._published.present
        if moving and present.is_off(now_ns):
            quiet = present.quiet_s(now_ns)
            message = f"expected reports of the controller, got none for {quiet:.3f} s"
            return Finding(message, RejectionReason.CONTROLLER_UNAVAILABLE)
        if moving and present.is_doubtful and present.report and not present.clock.is_doubted:
            return Finding("a clock was set during a motion", RejectionReason.CLOCK_JUMPED_BACK)
        restart_s = _RESTARTS_S + present.period_s  # Until a report shows that the motion is over.
        if present.report and present.is_overdue(now_ns) and (not moving or present.quiet_s(now_ns) < restart_s):
            return None
        return self._published.guard.exceeded(self._trajectories.allowance, self._parameters.joint_names)

    def _is_cut_off(self, now_ns: int) -> bool:
        """Return whether reports and joint states ended together, for a second at most: the network stands still.

        A stop that the network holds up would be executed from its middle. It is sent as soon as anything comes.
        """
        present, states_s = self._published.present, self._joint_states.overdue_s(now_ns)
        if not states_s or present.report is None or not present.is_overdue(now_ns):
            return False
        reports_s = present.quiet_s(now_ns)
        return reports_s < _CUT_OFF_S and abs(reports_s - states_s) < _TOGETHER_S

    def _stopped(self, now_ns: int) -> ExecutableTrajectory | None:
        guard = self._published.guard
        if self._is_cut_off(now_ns):
            guard.stop_waits = True
            return None
        try:
            stop = self._trajectories.stop(now_ns)
        except NotYet:
            guard.stop_waits = True
            return None
        guard.stop_waits = False
        return stop

    def _within_limits(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the motion in execution within changed limits; None if it keeps them, or if the change waits."""
        try:
            within = self._trajectories.kept(now_ns, self._kept)
        except NotYet:
            return None
        self._kept = None
        return within
