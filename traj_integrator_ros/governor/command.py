"""What is commanded: the motions that were sent to the controller, and what it reports of them. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.tolerances import MOMENT_S, MOST_KEPT, NANOSECOND_S, whole_ns
from ..requests.rejection import Rejected, RejectionReason
from .controller_reports import ControllerReport, ControllerStatus, found_in, matches, rests
from .executable import ExecutableTrajectory
from .executed import Executed
from .motion_clock import SAME_RATE, MotionClock, Sought
from .reference import PlannedMotion
from .robot_clock import STEP_NS, RobotClock
from .supervision import Guard

_ARRIVES_S = 0.5
"""Longest time, s, in which a message arrives, even on a busy machine. After that, replaced motions are over, and a
silent controller is off.
"""
_SILENT_S = 0.05
_SILENT_PERIODS = 6.0
"""Periods without a report after which the controller is silent, if they are longer than `_SILENT_S`: a few reports may
be lost, or wait for a busy machine.
"""
_OVERDUE_PERIODS = 1.2
"""Periods after which a report is overdue, in addition to its jitter and `_OVERDUE_S`."""
_OVERDUE_S = 4e-3
"""Time, s, for which a thread may wait for its turn before it reads a report."""
_TRANSPORT_NS = 20_000_000
"""Longest way of a message, ns: so far from where stamps say, and by a lead, a motion is after a clock was set."""
_SET_BACK_S = 1.0
"""Time, s, by which a stamp is older than the last one if the clock was set back, and not only the report late."""
_KEPT_S = 30.0
_MOST_IN_USE = 64
"""Largest number of motions that the controller may be executing."""
_PASSES_NS = 50_000_000
"""Time between two positions that the command has passed, ns: no motion goes far in between."""
_MOST_PASSED = 40
"""Largest number of such positions."""
_AT_ONCE_NS = 1_000_000
"""Longest time, ns, of writing a message without an interruption by other processes."""
_TRIES = 3
"""Number of times that an interrupted message is written: interruptions last milliseconds, and seldom come twice."""


class NotYet(Exception):
    """No trajectory can be made until the present motion is known."""


class Present(NamedTuple):
    """The controller's motion from now on, as long as it gets no other one."""

    planned: PlannedMotion
    follows: bool
    """True if the controller executes a motion of this node; otherwise it rests."""
    known_from_ns: int
    """When the motion becomes certain, ns: later than now while the controller is on its way to the first point."""

    def require_known(self, now_ns: int) -> None:
        """Let nothing begin while the controller is on its way to the first point of a motion. Raises NotYet."""
        if self.follows and self.known_from_ns > now_ns:
            raise NotYet


@dataclass
class _Sent:
    """A motion that was sent."""

    sent_ns: int
    planned: PlannedMotion
    """The command from the start of the motion on."""
    known_from_ns: int
    """When the command becomes certain, ns."""
    plan: PlannedMotion | None
    """The planned motion to which it leads; None if it is a stop."""
    is_lost: bool = False
    """True if a report showed an earlier motion when this one was due: it is late, or was refused."""


class Command:
    """The motions that were sent in the last 30 s, what the controller reports of them, and why the robot is braked.

    The command is known from reports or, without them, from the motions that were sent. All times are those of `clock`,
    ns; those of motions are of `motion_clock`.
    """

    def __init__(self) -> None:
        self.clock, self.guard, self.executed = RobotClock(), Guard(), Executed()
        self._sent: deque[_Sent] = deque(maxlen=MOST_KEPT)
        """The motions, the oldest first: each was in execution until the next one began, unless it was lost."""
        self.left_at: np.ndarray | None = None
        """End of the last motion that was dropped, rad, `[dof]`: the controller may still hold it."""
        self.period_s = 0.0
        """Usual time from one report to the next, s; 0 if unknown."""
        self.transport: deque[float] = deque(maxlen=256)
        """Ages of reports at their arrival, s."""
        self._received_ns = 0
        self.report: ControllerReport | None = None
        """The newest report."""
        self.clear()

    def clear(self) -> None:
        """Forget everything about the robot, except for a hold, which only a release ends."""
        self.report, self._received_ns, self.period_s = None, 0, 0.0
        self.transport.clear()
        self.drop()
        self.guard, self.motion_clock, self.left_at = Guard(self.guard.held), MotionClock(), None

    def drop(self) -> None:
        """Forget the motion and its plans, because it is unknown when, or whether, the controller executes them."""
        self.left_at = self._sent[-1].planned.motion.end.position if self._sent else self.left_at
        self._sent.clear()
        self._in_use = 0
        """Number of the newest motions, at the end of `_sent`, that the controller may be executing."""
        self._is_exact = False
        """True if the last report showed the newest motion exactly."""
        self._steps = self.clock.steps
        """`RobotClock.steps` when it was known last where the controller is in its motion."""
        self.last: ExecutableTrajectory | None = None
        """The motion sent last; None once it is unknown whether the controller executes it."""
        self.newest_origin_ns = 0
        """When the first step of the newest plan that was sent began, ns; 0 if unknown."""
        if self.report is None:
            self._status = ControllerStatus.UNKNOWN
        self.guard.forget_command()
        self.executed.drop()

    # What is sent

    def written(
        self, trajectory: ExecutableTrajectory, write: Callable[[ExecutableTrajectory], bytes], clock: Callable[[], int]
    ) -> tuple[ExecutableTrajectory, bytes]:
        """Return a trajectory and its message, which is written again if the command has moved meanwhile."""
        for _ in range(_TRIES):
            made_ns = clock()
            trajectory = self.timed(trajectory, made_ns)
            message = write(trajectory)
            if trajectory.stamp_ns or clock() - made_ns < _AT_ONCE_NS:
                break
        return trajectory, message

    def timed(self, trajectory: ExecutableTrajectory, now_ns: int) -> ExecutableTrajectory:
        """Return a trajectory that begins on arrival, cut to where the command will be then."""
        if trajectory.stamp_ns or not self.motion_clock.is_scaled:
            return trajectory
        start_ns = min(self.motion_clock.begins_ns(now_ns), trajectory.due_ns)
        return trajectory.begun_at(start_ns) if start_ns > trajectory.start_ns else trajectory

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Record a trajectory that has just been sent."""
        self.executed.take(trajectory, self.motion_clock.at(now_ns))
        if trajectory.plan is not None:
            self.newest_origin_ns = max(self.newest_origin_ns, trajectory.plan.origin_ns)
        planned = PlannedMotion(trajectory.start_ns, trajectory.motion)
        self.add(planned, trajectory.start_ns, now_ns, trajectory.planned)
        self.last = trajectory

    def add(self, planned: PlannedMotion, known_from_ns: int, now_ns: int, plan: PlannedMotion | None = None) -> None:
        """Record a motion that was sent now, and cut those before to what was executed: they would fill the memory."""
        if self.report is not None or not self._in_use:
            self._steps = self.clock.steps
        sent, arrived_ns = self._sent, now_ns - whole_ns(_ARRIVES_S)
        sent.append(_Sent(now_ns, planned, known_from_ns, plan))
        self._in_use = min(self._in_use + 1, _MOST_IN_USE)
        if self.report is None:
            self._status = ControllerStatus.ASSUMED
            while self._in_use > 2 and sent[1 - self._in_use].sent_ns < arrived_ns:
                self._in_use -= 1
        for place in range(len(sent) - self._in_use, 0, -1):
            over, following = sent[place - 1], sent[place]
            part = over.planned.ending(following.planned.start_ns)
            if following.is_lost or part is over.planned:
                break
            over.planned = part
            if over.plan is not None and following.plan is not None:
                over.plan = over.plan.ending(following.plan.valid_from_ns)
        while len(sent) > self._in_use and sent[1].sent_ns < now_ns - whole_ns(_KEPT_S):
            sent.popleft()

    def found_at(self, robot_ns: int, motion_ns: int) -> None:
        """Take the time of motions at a time, ns: it is earlier than expected if a motion had to wait."""
        self._follow(robot_ns, 1.0, lambda *_: motion_ns, is_lost=True)

    def check_clock(self, now_ns: int) -> bool:
        """Return whether the last motion was sent later than now: the clock has jumped back; then forget it."""
        if self.last is None or now_ns + STEP_NS >= self._sent[-1].sent_ns:
            return False
        self.clear()
        return True

    # What the controller reports

    def take_report(self, report: ControllerReport, now_ns: int, count: int = 1) -> None:
        """Take the newest of `count` reports of the controller, unless it is older than the last one."""
        if self.clock.is_doubted:  # The stamp may come from another clock than the motions.
            self._received_ns = now_ns
            return
        gap_s = np.inf if self.report is None else (report.stamp_ns - self.report.stamp_ns) * NANOSECOND_S
        if -_SET_BACK_S < gap_s <= 0:
            return
        if 0 < gap_s < np.inf:
            gap_s /= count
            self.period_s += (min(gap_s, 2 * self.period_s) - self.period_s) / 10 if self.period_s else gap_s
        report = self._corrected(report) if self.is_doubtful else report
        self.report, self._received_ns = report, now_ns
        self.transport.append(max((now_ns - report.stamp_ns) * NANOSECOND_S, 0.0))
        self.motion_clock.arrived(self.transport[-1])
        if self.is_doubtful:
            return
        self.follow_scaling(report.speed_scaling, report.stamp_ns, report)
        before, self._status = self._status, self._compared(report)
        is_new = self._in_use or self._status is not before
        if is_new and self._status in (ControllerStatus.RESTARTED, ControllerStatus.OTHER):
            self.drop()

    def follow_scaling(self, rate: float, stamp_ns: int, report: ControllerReport | None = None) -> None:
        """Take the rate at which motions are executed from a time on, and perhaps a report of that time."""
        is_lost, seen = False, partial(self._found, report)
        if report is not None and self._in_use and not rests(report.reference):
            exact = self._fit(report)[1]
            is_lost = exact is None or (self._is_exact and not exact)
        self._follow(stamp_ns, rate, seen, is_lost=is_lost)

    def _follow(self, robot_ns: int, rate: float, seen: Sought, *, is_lost: bool) -> None:
        if self.motion_clock.follow(robot_ns, rate, seen, is_lost=is_lost):
            self.guard.monitor.forget_line()  # The motion was elsewhere than recorded.

    def _found(self, report: ControllerReport | None, near_ns: int, within_ns: int) -> int | None:
        """Return the time near another one, ns, at which the newest motion that fits is as reported; or None."""
        own = (one.planned for one in self._own() if report is not None)
        found = ((one, found_in(one, report, near_ns, within_ns)) for one in own)
        return next((at_ns for one, at_ns in found if at_ns is not None and at_ns >= one.start_ns), None)

    def _corrected(self, report: ControllerReport) -> ControllerReport:
        """Return a report with its time as if no clock had been set, which stamps tell but for the transport.

        The motion, as it is shown by this report and by the one before, tells it exactly.
        """

        def ahead_ns(one: ControllerReport | None) -> int | None:
            at_ns = self.motion_clock.at(one.stamp_ns if one else 0)
            found_ns = self._found(one, at_ns, self.clock.lead_ns + _TRANSPORT_NS)
            return found_ns and found_ns - at_ns

        before_ns, after_ns = ahead_ns(self.report), ahead_ns(report)
        self._is_exact = before_ns is not None and after_ns is not None
        if not self._is_exact:
            return report
        self.clock.set_ns -= after_ns - before_ns
        return replace(report, stamp_ns=report.stamp_ns + after_ns - before_ns)

    def _fit(self, report: ControllerReport, first: int = 0) -> tuple[int, bool | None]:
        """Return the place of the newest motion, counted from the newest, that a report fits, and whether exactly."""
        time_ns = self.motion_clock.at(report.stamp_ns)
        fits = (matches(report, one.planned, time_ns) for one in islice(self._own(), first, None))
        return next(((place, exact) for place, exact in enumerate(fits, first) if exact is not None), (0, None))

    def _compared(self, report: ControllerReport) -> ControllerStatus:
        """Find the motion in execution from a report, and return what the controller does."""
        self._is_exact, stands, own = False, rests(report.reference), [*self._own()]
        if report.speed_scaling > 1.0 + SAME_RATE:
            return ControllerStatus.FASTER
        if not own and stands and self._status is not ControllerStatus.RESTARTED:
            return ControllerStatus.HOLDING
        if own and self.motion_clock.at(report.stamp_ns) < own[0].known_from_ns:
            return ControllerStatus.EXECUTING  # It is on its way to the first point.
        place, exact = self._fit(report)
        # A controller that rests where an earlier motion ended has lost the newest one, if that is due.
        is_over = stands and place > 0 and report.stamp_ns > own[place - 1].sent_ns + whole_ns(_ARRIVES_S)
        if exact is None or is_over:
            return ControllerStatus.RESTARTED if stands else ControllerStatus.OTHER
        for newer in own[:place]:
            newer.is_lost = True
        own[place].is_lost = False
        if self._fit(report, place + 1)[1] is None:  # It does not return to earlier ones.
            self._in_use = place + 1
        self._is_exact = exact and self._in_use == 1
        if place > 0:
            return ControllerStatus.LATE
        return ControllerStatus.EXECUTING if exact else ControllerStatus.BLENDING

    @property
    def has_lost(self) -> bool:
        """Return whether reports show that the controller does not execute the motion sent last."""
        return self._in_use > 0 and self._sent[-1].is_lost

    @property
    def is_doubtful(self) -> bool:
        """Return whether a clock was set in a motion, which then has to come to rest: its place is not certain."""
        return self._in_use > 0 and self._steps != self.clock.steps

    @property
    def is_unclear(self) -> bool:
        """Return whether a clock that was, or may have been, set makes the controller's place in its motion unknown."""
        return self.clock.is_doubted or self.is_doubtful

    def status(self, now_ns: int) -> ControllerStatus:
        """Return the controller's activity, as far as it is known."""
        return ControllerStatus.SILENT if self.is_silent(now_ns) else self._status

    def quiet_s(self, now_ns: int) -> float:
        """Return the time since the last report, s."""
        return (now_ns - self._received_ns) * NANOSECOND_S

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the controller has stopped reporting, or has sent no valid report for 0.5 s."""
        most = max(_SILENT_S, _SILENT_PERIODS * self.period_s) if self.report else _ARRIVES_S
        return self._received_ns > 0 and self.quiet_s(now_ns) > most

    def is_off(self, now_ns: int) -> bool:
        """Return whether the controller has been silent for so long that it counts as off."""
        return self.is_silent(now_ns) and self.quiet_s(now_ns) > _ARRIVES_S

    def is_overdue(self, now_ns: int) -> bool:
        """Return whether the next report is overdue: the controller may have stopped."""
        if self.report is None or not self.period_s:
            return False
        ages = sorted(self.transport)
        jitter = ages[int(0.95 * (len(ages) - 1))] - ages[0]
        return self.quiet_s(now_ns) > _OVERDUE_PERIODS * self.period_s + jitter + _OVERDUE_S

    def unavailable(self, now_ns: int) -> Rejected:
        """Return the rejection of sequences while the controller is silent."""
        return Rejected(
            RejectionReason.CONTROLLER_UNAVAILABLE,
            f"controller_state: expected reports of the controller, got none for {self.quiet_s(now_ns):.3f} s; it is "
            "off, and would not take a trajectory",
        )

    def may_move(self) -> bool:
        """Return whether the controller reports a motion."""
        return self.report is not None and not rests(self.report.reference)

    # What is commanded

    def at(self, now_ns: int, *, waits: bool = True) -> Present | None:
        """Return the controller's motion from now on; None if it is unknown.

        Raises NotYet while a report is overdue, if the caller `waits`; and Rejected, with controller_unavailable or
        clock_jumped_back, if the motion cannot be continued.
        """
        if self.is_silent(now_ns):
            raise self.unavailable(now_ns)
        if self.is_doubtful and (waits or self.report is not None):
            raise Rejected(
                RejectionReason.CLOCK_JUMPED_BACK, "node: a clock was set during a motion; expected the robot at rest"
            )
        if waits and (self.is_overdue(now_ns) or self.clock.is_doubted):
            raise NotYet
        if self._status is ControllerStatus.FASTER:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                f"controller_state.speed_scaling_factor: expected at most 1, got {self.report.speed_scaling:g}: "
                "motions are executed faster than they are checked",
            )
        if self._in_use or self.report is None:
            return self.own(now_ns)
        reference, at_ns = self.report.reference, self.motion_clock.at(now_ns)
        if not rests(reference):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller executes a motion that this node has not published; expected it at "
                f"rest (largest velocity {np.abs(reference.velocity).max():.3g})",
            )
        return Present(PlannedMotion(at_ns, resting(reference.position, MOMENT_S)), False, at_ns)

    def to_stop(self, now_ns: int) -> Present | None:
        """Return the motion that a stop has to end, even that of another program; None if no motion is known.

        A silent controller is a reason to stop, and never a reason to go on.
        """
        is_lost = self._status is ControllerStatus.FASTER or (self.is_doubtful and not self._is_exact)
        if self.report is None or self.is_silent(now_ns) or (self._in_use and not is_lost):
            return self.own(now_ns)
        # What is reported is assumed to go on at its velocity until the stop begins.
        position, velocity, acceleration = self.report.reference
        begun_ns, at_ns = map(self.motion_clock.at, (self.report.stamp_ns, now_ns))
        lasts = (at_ns - begun_ns + self.clock.lead_ns) * NANOSECOND_S + MOMENT_S
        motion = Motion(np.array([0.0, lasts]), np.stack([position, velocity, acceleration / 2])[None])
        return Present(PlannedMotion(begun_ns, motion), False, at_ns)

    def own(self, now_ns: int) -> Present | None:
        """Return the motion that was sent and is executed, unless reports show otherwise; None if there is none."""
        own = next((one for one in self._own() if not one.is_lost), self._sent[-1] if self._in_use else None)
        return own and Present(own.planned, True, max(own.known_from_ns, self.motion_clock.at(now_ns)))

    def is_moving(self, now_ns: int) -> bool:
        """Return whether the motion in execution is not over."""
        if (own := self.own(now_ns)) is None:
            return False
        return self.motion_clock.at(now_ns) < own.planned.start_ns + whole_ns(own.planned.motion.duration)

    @property
    def is_delayed(self) -> bool:
        """Return whether the motion sent last was slowed, so that it is behind its plan."""
        return self.last is not None and self.last.delay > 0

    def commanded(self, time_ns: int) -> State | None:
        """Return the state that is commanded at a time, past or future, ns; None if it is unknown."""
        return self._commanded(self.motion_clock.at(time_ns))

    def passed(self, since_ns: int, until_ns: int) -> list[np.ndarray]:
        """Return positions, rad, `[dof]`, that the command passed between two times of its motions, ns."""
        step_ns = max((until_ns - since_ns) // _MOST_PASSED, _PASSES_NS)
        states = map(self._commanded, [*range(since_ns, until_ns, step_ns), until_ns])
        return [state.position for state in states if state is not None]

    def plans(self) -> Callable[[int], PlannedMotion | None]:
        """Return a function, for any thread, of a time, ns: the newest plan sent so far that has begun by then."""
        sent = tuple(self._sent)

        def at_time(time_ns: int) -> PlannedMotion | None:
            plans = (one.plan for one in reversed(sent) if one.plan is not None)
            return next((plan for plan in plans if time_ns >= plan.valid_from_ns), None)

        return at_time

    def _commanded(self, motion_ns: int) -> State | None:
        begun = (one for one in reversed(self._sent) if motion_ns >= one.planned.start_ns and not one.is_lost)
        return None if (one := next(begun, None)) is None else one.planned.state_at(motion_ns)

    def _own(self) -> islice[_Sent]:
        """Return the motions that the controller may be executing, the newest first."""
        return islice(reversed(self._sent), self._in_use)
