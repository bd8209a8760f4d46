"""What is commanded when: plans, plans that wait, brakes and stops. Knows no ROS."""

from __future__ import annotations

from contextlib import suppress

from ..limits.joint_limits import JointLimits
from ..parameters.parameters import NodeParameters
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason
from .command import Command, NotYet
from .executable import ExecutableTrajectory
from .measured import CUT_OFF_S, JointStates
from .planner import Planner
from .trajectories import TrajectoryMaker

_RESTARTS_S = 0.16
"""Time, s, within which a controller restarts: the arm stands, and would execute a brake from its middle."""
_STOP_WAITS_S = 0.45
"""Longest silence of the robot, s, in which a stop that was asked for waits, and without reports any brake; a robot is
braked for silence itself after 0.5 s.
"""
_TOGETHER_S = 0.1
"""Reports and joint states that end within this time, s, of each other have one cause: the network."""


class Commands:
    """Brings plans to the controller, and stops the robot when it, its states or a caller demand that."""

    def __init__(self, joint_states: JointStates, published: Command, planner: Planner) -> None:
        self._joint_states, self._published, self.planner = joint_states, published, planner
        self._trajectories: TrajectoryMaker | None = None
        self._kept: JointLimits | None = None
        """The limits before a change, until the motion in execution has been compared with the new ones."""

    def reconfigure(self, parameters: NodeParameters, trajectories: TrajectoryMaker) -> None:
        """Continue with other parameters; `tick` brings the motion in execution within their limits."""
        if self._trajectories is not None and self._kept is None:
            self._kept = self._trajectories.limits
        self._parameters, self._trajectories = parameters, trajectories
        self.planner.reconfigure(trajectories)

    def tick(self, now_ns: int) -> ExecutableTrajectory | None:
        """Supervise the robot: return a trajectory to publish at once (a brake, or a plan that waited), or None.

        Called every few milliseconds, also while nothing arrives.
        """
        self.check_clock(now_ns)
        command, guard = self._published, self._published.guard
        believed, allowance = self._joint_states.believed, self._trajectories.allowance
        moving = command.is_moving(now_ns)
        guard.stopped_until_rest &= moving
        rests = not moving and guard.rests(now_ns, allowance)
        if rests and (command.is_doubtful or believed.begins_anew):
            believed.begins_anew = False
            command.drop()  # A clock was set in the motion, or a driver started: the next one begins at the robot.
        found = self._why_brake(now_ns, moving)
        contradicts = found is not None and found.reason is RejectionReason.CONTRADICTORY_STATE
        if guard.reason and rests and not contradicts:
            if guard.back_to is None:
                if command.report is None and guard.was_moved(allowance):
                    command.drop()  # Whatever the controller holds, the next motion begins where the robot is.
                guard.recover()
                found = None
            elif not command.heard.is_overdue(now_ns) and (back := self._way_back(now_ns)) is not None:
                return back
        if found is not None and (not guard.reason or (contradicts and guard.kind is not found.reason)):
            guard.brake(found, self._joint_states.lately(), allowance)
            self.planner.refuse(guard.refusal())
            return self._stopped(now_ns) if moving else None
        if guard.stop_waits or (guard.is_busy and moving and command.last.is_lost):
            return self._stopped(now_ns)
        if self._kept is not None:
            with suppress(NotYet):
                within, self._kept = self._trajectories.kept(now_ns, self._kept), None
                if within is not None:
                    return within
        if command.heard.is_off(now_ns):
            self.planner.refuse(command.heard.unavailable(now_ns))
        if command.heard.is_silent(now_ns):
            return None  # The controller would execute a motion that is sent now from its middle, when it is back.
        return self.planner.go_on(now_ns)

    def _way_back(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the motion by which the command goes back, once after a brake; None if it stands where it is.

        It requires reports of the controller: without them, nobody knows whether it still holds the command.
        """
        command = self._published
        own = None if command.report is None or command.heard.is_silent(now_ns) else command.own
        way = command.guard.way_back(own and own.motion.end.position, self._trajectories.allowance)
        return None if way is None else self._trajectories.back(now_ns, way)

    def stop(self, now_ns: int, hold: bool = False) -> ExecutableTrajectory | None:
        """Return the fastest stop from the present command; None if nothing moves, or if `tick` will return it.

        Sequences are rejected until the robot rests, or with `hold` until `release`.
        """
        guard = self._published.guard
        guard.held = hold
        guard.back_to = None  # Whoever stops the robot wants it to stand: the command does not go back.
        self.planner.refuse(Rejected(RejectionReason.STOPPED, "node: stopped before the sequence was begun"))
        if not self._published.is_moving(now_ns) and not self._published.heard.moves():
            return None
        guard.stopped_until_rest = True
        return self._stopped(now_ns)

    def awaited_stop(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the stop that `tick` will return once the controller is at the first point of a motion; or None."""
        waits = self._published.guard.stop_waits and self._published.motion_clock.rate > 0
        return self._trajectories.stop(now_ns, waits=False) if waits else None

    @property
    def waits(self) -> bool:
        """Return whether a plan, or a change of limits, still waits for its effect on the controller."""
        return self.planner.waits or self._kept is not None

    def deactivate(self) -> None:
        """Refuse waiting plans: they must not begin when the node is active again."""
        self.planner.refuse(Rejected(RejectionReason.NOT_ACTIVE, "node: deactivated before the sequence was begun"))
        self.planner.tell_refused()

    def supervise(self, now_ns: int) -> None:
        """Compare the latest joint state with the command at its time."""
        command, report, turning = self._published, self._published.report, self._parameters.continuous
        # While nobody knows where the controller is in its motion, a brake could begin away from the command.
        if command.is_unclear or command.clock.states.is_alone:
            return
        state = self._joint_states.latest(now_ns, 0.0)
        if report is not None and command.motion_clock.is_scaled:  # The command is known up to the last report.
            known = (one for one in reversed(self._joint_states.recent) if one.stamp_ns <= report.stamp_ns)
            state = next(known, state)
        if turning.any() and (then := command.commanded(state.stamp_ns)) is not None:
            state = state._replace(position=turned(state.position, then.position, turning))
        command.guard.take(state, command.commanded, self._trajectories.allowance)

    def check_clock(self, now_ns: int) -> None:
        """Forget states and motions whose times are later than now: the clock has jumped back."""
        self._joint_states.check_clock(now_ns)
        if self._published.check_clock(now_ns):
            self._joint_states.drop_for_jump()

    def _why_brake(self, now_ns: int, moving: bool) -> Rejected | None:
        """Return the reason to brake the robot; None if there is none."""
        command, heard, timeout = self._published, self._published.heard, self._parameters.state_timeout
        try:
            self._joint_states.believed.require_agreement(now_ns)
        except Rejected as contradictory:
            return contradictory
        if moving and 0 < timeout < (age := self._joint_states.age_s(now_ns) or 0.0):
            text = f"joint states ended {age:.3f} s ago, expected at most {timeout:g} s (parameter state_timeout)"
            return Rejected(RejectionReason.STATE_TOO_OLD, text)
        if moving and heard.is_off(now_ns):
            text = f"expected reports of the controller, got none for {heard.quiet_s(now_ns):.3f} s"
            return Rejected(RejectionReason.CONTROLLER_UNAVAILABLE, text)
        if moving and command.is_doubtful and command.report and not command.clock.is_doubted:
            return Rejected(RejectionReason.CLOCK_JUMPED_BACK, "a clock was set during a motion")
        restart_s = _RESTARTS_S + heard.period_s  # Until a report shows that the motion is over.
        if heard.is_overdue(now_ns) and (not moving or heard.quiet_s(now_ns) < restart_s):
            return None
        return self._published.guard.exceeded(self._trajectories.allowance, self._parameters.joint_names)

    def _is_cut_off(self, now_ns: int) -> bool:
        """Return whether all that is heard of the robot ended together, a moment ago: the network stands still.

        A stop that the network holds up would be executed from its middle. It is sent as soon as anything comes.
        """
        command, states_s = self._published, self._joint_states.overdue_s(now_ns)
        if command.report is None:
            return 0 < states_s < _STOP_WAITS_S
        if not states_s or not command.heard.is_overdue(now_ns):
            return False
        reports_s = command.heard.quiet_s(now_ns)
        most_s = _STOP_WAITS_S if command.guard.stopped_until_rest else CUT_OFF_S
        return reports_s < most_s and abs(reports_s - states_s) < _TOGETHER_S

    def _stopped(self, now_ns: int) -> ExecutableTrajectory | None:
        guard = self._published.guard
        guard.stop_waits = True
        if not self._is_cut_off(now_ns):
            with suppress(NotYet):
                stop, guard.stop_waits = self._trajectories.stop(now_ns), False
                if self._published.report is None and self._joint_states.overdue_s(now_ns):
                    self._published.doubt()
                return stop
        return None
