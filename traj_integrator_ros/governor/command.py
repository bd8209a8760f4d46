"""What is commanded: the motions that were sent, and which of them the controller executes. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import replace
from functools import partial
from itertools import chain

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.polynomials import powers_of
from ..execution.tolerances import MOMENT_S, MOST_KEPT, NANOSECOND_S, SECOND_NS, whole_ns
from ..requests.rejection import Rejected, RejectionReason
from .controller_reports import ControllerReport, ControllerStatus, found_in, matches, rests
from .executable import ExecutableTrajectory
from .executed import Executed
from .heard import ARRIVES_S, Heard
from .measured import JointStates
from .motion_clock import NEAR_NS, SAME_RATE, MotionClock, Sought
from .robot_clock import STEP_NS, RobotClock
from .supervision import Guard

_KEPT_NS = 30 * SECOND_NS
"""Time, ns, for which it is known what was commanded."""
_MOST_IN_USE = 64
"""Largest number of motions that the controller may be executing."""
CUT_OFF_S = 1.0
"""Longest time, s, for which a network counts as standing still: messages would arrive after their motions' begin."""
_TOGETHER_S = 0.1
"""Reports and joint states that end within this time, s, of each other have one cause: the network."""


class NotYet(Exception):
    """No trajectory can be made until the present motion is known."""


class Command:
    """The motions that were sent in the last 30 s, what is reported and measured of them, and why the robot is braked.

    The command is known from reports or, without them, from the motions that were sent. All times are those of `clock`,
    ns; those of motions are of `motion_clock`.
    """

    def __init__(self) -> None:
        self.clock, self.guard, self.executed = RobotClock(), Guard(), Executed()
        self.joint_states = JointStates(())
        """What is measured of the joints of whoever executes motions."""
        self._own: tuple[ExecutableTrajectory, ...] = ()
        """The motions that the controller may be executing, the newest first."""
        self.clear()

    def clear(self) -> None:
        """Forget everything about the robot, except for a hold, which only a release ends."""
        self.heard = Heard()
        self.drop()
        self.guard, self.motion_clock = Guard(self.guard.held), MotionClock()
        self.left_at: np.ndarray | None = None
        """End of the last motion that was dropped, rad, `[dof]`: the controller may still hold it."""

    def drop(self) -> None:
        """Forget the motion and its plans, because it is unknown when, or whether, the controller executes them."""
        if self._own:
            self.left_at = self._own[0].motion.end.position
        self._own = ()
        self._past: tuple[ExecutableTrajectory, ...] = ()
        """What was executed of the motions before, the oldest first."""
        self._is_exact = False
        """True if the last report showed the newest motion exactly."""
        self._steps = self.clock.steps
        """`RobotClock.steps` when it was known last where the controller is in its motion."""
        self.newest_origin_ns = 0
        """When the first step of the newest plan that was sent began, ns; 0 if unknown."""
        if self.report is None:
            self._status = ControllerStatus.UNKNOWN
        self.guard.monitor.forget_command()
        self.guard.offset = np.zeros(())  # The next motion begins where the joints are measured.

    # What is sent

    def timed(self, trajectory: ExecutableTrajectory, now_ns: int) -> ExecutableTrajectory:
        """Return a trajectory that begins on arrival, at a scaled controller, from where the command will be then."""
        if trajectory.stamp_ns or not self.motion_clock.is_scaled:
            return trajectory
        return trajectory.begun_at(self.motion_clock.begins_ns(now_ns, self.heard.way_s(0.5)))

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Record a trajectory that has just been sent."""
        self.executed.take(trajectory, self.last, self.motion_clock.at(now_ns))
        if trajectory.plan is not None:
            self.newest_origin_ns = max(self.newest_origin_ns, trajectory.plan.origin_ns)
        if self.report is not None or not self._own:
            self._steps = self.clock.steps
        self._own = (replace(trajectory, sent_ns=now_ns), *self._own)
        most = _MOST_IN_USE
        if self.report is None:  # A motion is over when the next one has certainly arrived.
            self._status, arrived_ns = ControllerStatus.ASSUMED, now_ns - whole_ns(ARRIVES_S)
            most = min(most, 2 + sum(one.sent_ns >= arrived_ns for one in self._own[1:-1]))
        self._keep(most)

    def _keep(self, count: int) -> None:
        """Only the newest motions are still in use: of those before, keep what was executed in the last 30 s."""
        used, over, since_ns = self._own[:count], [], self._own[0].start_ns - _KEPT_NS
        following = next((one for one in reversed(used) if not one.is_lost), self._own[0])
        for one in self._own[count:]:
            if not one.is_lost and one.start_ns < following.start_ns:
                over.insert(0, one.until(following))
                following = one
        known = (*self._past, *over)[-MOST_KEPT:]
        first = bisect_right(known, since_ns, key=lambda one: one.start_ns)
        self._past, self._own = known[max(first - 1, 0) :], used

    def found_at(self, robot_ns: int, motion_ns: int) -> None:
        """Take the time of motions at a time, ns: it is earlier than expected if a motion had to wait."""
        self._follow(robot_ns, 1.0, lambda *_: motion_ns, is_lost=True)

    def check_clock(self, now_ns: int) -> None:
        """Forget states and motions whose times are later than now: the clock has jumped back."""
        self.joint_states.check_clock(now_ns)
        if self.last is not None and now_ns + STEP_NS < self.last.sent_ns:
            self.clear()
            self.joint_states.drop_for_jump()

    # What the controller reports

    @property
    def report(self) -> ControllerReport | None:
        """The newest report of the controller."""
        return self.heard.report

    def take_report(self, report: ControllerReport, now_ns: int, count: int = 1) -> None:
        """Take the newest of `count` reports of the controller, unless it is older than the last one."""
        if self.is_unclear:
            report = self._corrected(report, now_ns)
        if self.clock.is_doubted:  # The stamp may come from another clock than the motions.
            self.heard.received_ns = now_ns
            return
        if not self.heard.take(report, now_ns, count) or self.is_doubtful:
            return
        self.follow_scaling(report.speed_scaling, report.stamp_ns, report)
        was, self._status = self._status, self._compared(report)
        is_new = self._own or self._status is not was
        if is_new and self._status in (ControllerStatus.RESTARTED, ControllerStatus.OTHER):
            self.drop()

    def follow_scaling(self, rate: float, stamp_ns: int, report: ControllerReport | None = None) -> None:
        """Take the rate at which motions are executed from a time on, and perhaps a report of that time."""
        is_lost, seen = False, partial(self._found, report)
        if report is not None and self._own and not rests(report.reference):
            exact = self._fit(report)[1]
            is_lost = exact is None or (self._is_exact and not exact)
        self._follow(stamp_ns, rate, seen, is_lost=is_lost)

    def _follow(self, robot_ns: int, rate: float, seen: Sought, *, is_lost: bool) -> None:
        if self.motion_clock.follow(robot_ns, rate, seen, is_lost=is_lost):
            self.guard.monitor.forget_line()  # The motion was elsewhere than recorded.

    def _found(self, report: ControllerReport | None, near_ns: int, within_ns: int) -> int | None:
        """Return the time near another one, ns, at which the newest motion that fits is as reported; or None."""
        own = () if report is None else self._own
        found = ((one, found_in(one.motion, report, near_ns, within_ns)) for one in own)
        return next((at_ns for one, at_ns in found if at_ns is not None and at_ns >= one.start_ns), None)

    def _corrected(self, report: ControllerReport, now_ns: int) -> ControllerReport:
        """Return a report with its time as if no clock had been set, which the motion tells: at once, and exactly."""
        before, within_ns, at = self.report, self.clock.lead_ns + NEAR_NS, self.motion_clock.at
        before_ns = before and self._found(before, at(before.stamp_ns), within_ns)
        found_ns = self._found(report, at(now_ns), within_ns)
        self._is_exact = before_ns is not None and found_ns is not None
        if not self._is_exact:
            return report
        by_ns = at(report.stamp_ns) - found_ns - (at(before.stamp_ns) - before_ns)
        self.clock.was_set(by_ns)
        return replace(report, stamp_ns=report.stamp_ns - by_ns)

    def _fit(self, report: ControllerReport, first: int = 0) -> tuple[int, bool | None]:
        """Return the place of the newest motion, counted from the newest, that a report fits, and whether exactly."""
        time_ns = self.motion_clock.at(report.stamp_ns)
        fits = (matches(report, one.motion, time_ns) for one in self._own[first:])
        return next(((place, exact) for place, exact in enumerate(fits, first) if exact is not None), (0, None))

    def _compared(self, report: ControllerReport) -> ControllerStatus:
        """Find the motion in execution from a report, and return what the controller does."""
        self._is_exact, stands, own = False, rests(report.reference), self._own
        if report.speed_scaling > 1.0 + SAME_RATE:
            return ControllerStatus.FASTER
        if not own and stands and self._status is not ControllerStatus.RESTARTED:
            return ControllerStatus.HOLDING
        if own and self.motion_clock.at(report.stamp_ns) < own[0].start_ns:
            return ControllerStatus.EXECUTING  # It is on its way to the first point.
        place, exact = self._fit(report)
        # A controller that rests where an earlier motion ended has lost the newest one, if that is due.
        is_over = stands and place > 0 and report.stamp_ns > own[place - 1].sent_ns + whole_ns(ARRIVES_S)
        if exact is None or is_over:
            return ControllerStatus.RESTARTED if stands else ControllerStatus.OTHER
        if own[place].is_lost or not all(one.is_lost for one in own[:place]):
            lost = (replace(one, is_lost=place_of < place) for place_of, one in enumerate(own[: place + 1]))
            self._own = (*lost, *own[place + 1 :])
        if self._fit(report, place + 1)[1] is None:  # It does not return to earlier ones.
            self._keep(place + 1)
        self._is_exact = exact and len(self._own) == 1
        if place > 0:
            return ControllerStatus.LATE
        return ControllerStatus.EXECUTING if exact else ControllerStatus.BLENDING

    @property
    def is_doubtful(self) -> bool:
        """Return whether the controller's place in its motion is uncertain, which then has to come to rest.

        A clock was set, or a stop was sent in silence.
        """
        return bool(self._own) and self._steps != self.clock.steps

    def doubt(self) -> None:
        """Count the motion that is sent now as uncertain: without reports, nobody knows whether it arrives in time."""
        self._steps = -1

    @property
    def is_unclear(self) -> bool:
        """Return whether a clock that was, or may have been, set makes the controller's place in its motion unknown."""
        return self.clock.is_doubted or self.is_doubtful

    def silence_s(self, now_ns: int) -> float:
        """Return for how long nothing is heard of the robot, s, 0 if anything is: the network may stand still."""
        states_s, heard = self.joint_states.overdue_s(now_ns), self.heard
        if heard.report is None:
            return states_s
        reports_s = heard.quiet_s(now_ns) * heard.is_overdue(now_ns)
        return reports_s if states_s and abs(reports_s - states_s) < _TOGETHER_S else 0.0

    def status(self, now_ns: int) -> ControllerStatus:
        """Return the controller's activity, as far as it is known."""
        return ControllerStatus.SILENT if self.heard.is_silent(now_ns) else self._status

    # What is commanded

    @property
    def last(self) -> ExecutableTrajectory | None:
        """The motion sent last; None once it is unknown whether the controller executes it."""
        return self._own[0] if self._own else None

    def at(self, now_ns: int, *, waits: bool = True) -> ExecutableTrajectory | None:
        """Return the controller's motion from now on; None if it is unknown.

        Raises NotYet while a report is overdue, if the caller `waits`; and Rejected, with controller_unavailable or
        clock_jumped_back, if the motion cannot be continued.
        """
        if self.heard.is_silent(now_ns):
            raise self.heard.unavailable(now_ns)
        if self.is_doubtful and (waits or self.report is not None):
            raise Rejected(
                RejectionReason.CLOCK_JUMPED_BACK,
                "node: a clock was set during a motion, or a stop was sent in silence; expected the robot at rest",
            )
        if waits and (self.heard.is_overdue(now_ns) or self.clock.is_doubted):
            raise NotYet
        if self._status is ControllerStatus.FASTER:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                f"controller_state.speed_scaling_factor: expected at most 1, got {self.report.speed_scaling:g}: "
                "motions are executed faster than they are checked",
            )
        if (own := self.own) is not None or self.report is None:
            return self._once_begun(now_ns) if waits else own
        reference = self.report.reference
        if self.heard.moves():
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller executes a motion that this node has not published; expected it at "
                f"rest (largest velocity {np.abs(reference.velocity).max():.3g})",
            )
        held = resting(reference.position, MOMENT_S, self.motion_clock.at(now_ns))
        return ExecutableTrajectory(held, follows=False)

    def to_stop(self, now_ns: int, *, waits: bool = True) -> ExecutableTrajectory | None:
        """Return the motion that a stop has to end, even that of another program; None if no motion is known.

        A silent controller is a reason to stop, and never a reason to go on.
        """
        is_lost = self._status is ControllerStatus.FASTER or (self.is_doubtful and not self._is_exact)
        if self.report is None or self.heard.is_silent(now_ns) or (self._own and not is_lost):
            return self._once_begun(now_ns) if waits else self.own
        # What is reported is assumed to go on at its velocity until the stop begins.
        position, velocity, acceleration = self.report.reference
        begun_ns, at_ns = map(self.motion_clock.at, (self.report.stamp_ns, now_ns))
        lasts = (at_ns - begun_ns + self.clock.lead_ns) * NANOSECOND_S + MOMENT_S
        pieces = powers_of([position[None], velocity[None], acceleration[None] / 2])
        onward = Motion(np.array([0.0, lasts]), pieces, start_ns=begun_ns)
        return ExecutableTrajectory(onward, follows=False)

    @property
    def own(self) -> ExecutableTrajectory | None:
        """The motion that was sent and is executed, unless reports show otherwise; None if there is none."""
        return next((one for one in self._own if not one.is_lost), self.last)

    def _once_begun(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the motion in execution. Raises NotYet while the controller is on its way to its first point."""
        own = self.own
        if own is not None and own.start_ns > self.motion_clock.at(now_ns):
            raise NotYet
        return own

    def again(self, now_ns: int) -> ExecutableTrajectory | None:
        """Return the motion in execution as a message that changes nothing, however late; None if there is none."""
        own, clock = self.own, self.motion_clock
        if own is None or own.points is None or clock.is_scaled:
            return None
        return replace(own, stamp_ns=self.clock.set_ns + own.start_ns + clock.behind_ns(now_ns))

    def is_moving(self, now_ns: int) -> bool:
        """Return whether the motion in execution is not over."""
        own = self.own
        return own is not None and self.motion_clock.at(now_ns) < own.start_ns + whole_ns(own.motion.duration)

    def commanded(self, time_ns: int) -> State | None:
        """Return the state that is commanded at a time, past or future, ns; None if it is unknown."""
        return self.state_at(self.motion_clock.at(time_ns))

    def state_at(self, motion_ns: int) -> State | None:
        """Return the state that is commanded at a time of motions, ns, in any thread; None if it is unknown."""
        begun = (one for one in chain(self._own, reversed(self._past)) if one.start_ns <= motion_ns and not one.is_lost)
        return (one := next(begun, None)) and one.motion.at(motion_ns)

    def meant_at(self, motion_ns: int) -> State | None:
        """Return the state at a time of motions, ns, in the newest plan that has begun by then; None if unknown."""
        plans = (one.meant for one in chain(self._own, reversed(self._past)) if one.meant is not None)
        begun = (plan for plan in plans if plan.valid_from_ns <= motion_ns)
        return (plan := next(begun, None)) and plan.at(motion_ns)
