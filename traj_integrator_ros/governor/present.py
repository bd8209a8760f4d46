"""The controller's command now, and later if nothing new arrives. Knows no ROS.

The command is known from the controller's reports or, without reports, from the published motions.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from ..execution.motion import State, resting
from ..execution.tolerances import MOMENT_S, MOST_KEPT, NANOSECOND_S, whole_ns
from ..requests.rejection import Rejected, RejectionReason
from .controller_reports import ControllerReport, ControllerStatus, found_in, matches, rests
from .motion_clock import SAME_RATE, MotionClock
from .reference import PlannedMotion
from .robot_clock import RobotClock
from .sent import NotYet, Present, SentMotion

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
_KEPT_S = 30.0
_MOST_IN_USE = 64
"""Largest number of motions that the controller may be executing."""


@dataclass
class PresentCommand:
    """The motions that were published (in the last 30 s at most), and what the controller reports.

    All times are those of `clock`, ns; those of motions are of `motion_clock`.
    """

    sent: deque[SentMotion] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    _in_use: int = 0
    """Number of the newest motions, at the end of `sent`, that the controller may be executing."""
    _taken: SentMotion | None = None
    """The newest motion that reports have shown in execution: the controller does not return to earlier ones."""
    report: ControllerReport | None = None
    """The newest report."""
    _status: ControllerStatus = ControllerStatus.UNKNOWN
    """State of the controller by its last report, or by the published motions."""
    _received_ns: int = 0
    period_s: float = 0.0
    """Usual time from one report to the next, s; 0 if unknown."""
    left_at: np.ndarray | None = None
    """End of the last motion that was dropped, rad, `[dof]`: the controller may still hold it."""
    clock: RobotClock = field(default_factory=RobotClock)
    motion_clock: MotionClock = field(default_factory=MotionClock)
    _known_set_ns: int = 0
    """`RobotClock.set_ns` when it was known last where the controller is in its motion."""
    revisions: int = 0
    """Number of times that reports have shown the motion elsewhere than expected."""
    transport: deque[float] = field(default_factory=lambda: deque(maxlen=256))
    """Ages of reports at their arrival, s."""

    @property
    def _newest(self) -> SentMotion | None:
        """The newest motion that the controller may be executing; None if there is none."""
        return self.sent[-1] if self._in_use else None

    def _own(self) -> Iterator[SentMotion]:
        """Yield the motions that the controller may be executing, the newest first."""
        return islice(reversed(self.sent), self._in_use)

    def published(
        self, planned: PlannedMotion, known_from_ns: int, now_ns: int, plan: PlannedMotion | None = None
    ) -> None:
        """Record a motion that was published; see `SentMotion`."""
        if not self._in_use and self.report is None:
            self._known_set_ns = self.clock.set_ns
        self.sent.append(SentMotion(now_ns, planned, known_from_ns, plan))
        self._in_use = min(self._in_use + 1, _MOST_IN_USE)
        while self._in_use > 2 and (now_ns - self.sent[1 - self._in_use].sent_ns) * NANOSECOND_S > _ARRIVES_S:
            if self.sent[-self._in_use] is self._taken:
                break
            self._in_use -= 1
        over = len(self.sent) - self._in_use - 1
        while over >= 0 and not self.sent[over].is_over and not self.sent[over + 1].is_lost:
            self.sent[over] = self.sent[over].until(self.sent[over + 1])
            over -= 1
        while len(self.sent) > self._in_use and (now_ns - self.sent[1].sent_ns) * NANOSECOND_S > _KEPT_S:
            self.sent.popleft()
        if self.report is None:
            self._status = ControllerStatus.ASSUMED

    def take_report(self, report: ControllerReport, now_ns: int, count: int = 1) -> None:
        """Take the newest of `count` reports of the controller, unless it is older than the last one."""
        last = self.report
        if self.clock.is_doubted:  # The stamp may come from another clock than the motions.
            self._received_ns = now_ns
            return
        if last is not None and self._set_by_ns:
            self._find_again(report, last)
            last = None
        elif last is not None and report.stamp_ns <= last.stamp_ns:
            if (last.stamp_ns - report.stamp_ns) * NANOSECOND_S < 1.0:
                return
            last = None
        if last is not None:
            gap = (report.stamp_ns - last.stamp_ns) * NANOSECOND_S / count
            self.period_s = gap if not self.period_s else 0.9 * self.period_s + 0.1 * min(gap, 2 * self.period_s)
        self.report, self._received_ns, self._known_set_ns = report, now_ns, self.clock.set_ns
        self.transport.append(max((now_ns - report.stamp_ns) * NANOSECOND_S, 0.0))
        self.follow_scaling(report.speed_scaling, report.stamp_ns, report)
        self._compare(replace(report, stamp_ns=self.motion_clock.at(report.stamp_ns)), report.stamp_ns)

    def follow_scaling(self, rate: float, stamp_ns: int, report: ControllerReport | None = None) -> None:
        """Take the rate at which motions are executed from a time on, and perhaps a report of that time."""

        def seen(near_ns: int, within_ns: int) -> int | None:
            for one in self._own() if report is not None else ():
                time_ns = found_in(one.planned, report, near_ns, within_ns)
                if time_ns is not None and time_ns >= one.planned.start_ns:
                    return time_ns
            return None

        is_lost = report is not None and self._is_lost(replace(report, stamp_ns=self.motion_clock.at(stamp_ns)))
        self.revisions += self.motion_clock.follow(stamp_ns, rate, seen, is_lost=is_lost)

    def _is_lost(self, report: ControllerReport) -> bool:
        """Return whether a report during a motion fits no published motion, or does not fit one exactly any more."""
        if not self._in_use or rests(report.reference):
            return False
        found = next((one for one in (matches(report, one.planned) for one in self._own()) if one is not None), None)
        was_exact = self._status is ControllerStatus.EXECUTING and self._taken is self._newest
        return found is None or (was_exact and not found)

    def _compare(self, report: ControllerReport, stamp_ns: int) -> None:
        """Find the motion in execution from a report. The report's time is the motion's, `stamp_ns` the robot's."""
        if report.speed_scaling > 1.0 + SAME_RATE:
            self._status = ControllerStatus.FASTER
        elif newest := self._newest:
            if report.stamp_ns < newest.known_from_ns:
                self._status = ControllerStatus.EXECUTING  # The controller is on its way to the first point.
                return
            replaced_ns = stamp_ns
            for one in self._own():
                on_time = stamp_ns <= replaced_ns + whole_ns(_ARRIVES_S)
                exact = matches(report, one.planned)
                # A controller that rests where an earlier motion ended has lost the newest one, if that is due.
                if exact is not None and (on_time or not rests(report.reference)):
                    if one is not self._taken and not self._is_of_others(report, one):
                        self._taken = one
                    late = one is not newest and matches(report, newest.planned) is None
                    self._status = ControllerStatus.LATE if late else ControllerStatus.EXECUTING
                    self._lose_after(one if late else newest)
                    if one is newest and not exact:
                        self._status = ControllerStatus.BLENDING
                    return
                if one is self._taken:
                    break  # The controller has dropped it, and after a restart may hold the end of an earlier motion.
                replaced_ns = one.sent_ns
            self._in_use = 0
            self._status = ControllerStatus.RESTARTED if rests(report.reference) else ControllerStatus.OTHER
        elif self._status is not ControllerStatus.RESTARTED:
            self._status = ControllerStatus.HOLDING if rests(report.reference) else ControllerStatus.OTHER
        elif not rests(report.reference):
            self._status = ControllerStatus.OTHER

    def _lose_after(self, executed: SentMotion) -> None:
        """Record a motion as the one in execution, and newer ones as lost until a report shows them."""
        is_lost = True
        for index in range(len(self.sent) - 1, len(self.sent) - 1 - self._in_use, -1):
            one = self.sent[index]
            is_lost = is_lost and one is not executed
            if one.is_lost != is_lost and (is_lost or one is executed):
                self.sent[index] = one._replace(is_lost=is_lost)
                self._taken = self.sent[index] if one is self._taken else self._taken

    @property
    def has_lost(self) -> bool:
        """Return whether reports show that the controller does not execute the motion published last."""
        return self._in_use > 0 and self.sent[-1].is_lost

    def _is_of_others(self, report: ControllerReport, motion: SentMotion) -> bool:
        """Return whether a report that fits a motion also fits an earlier one."""
        others = (one.planned for one in self._own() if one is not motion)
        before = (planned for planned in others if planned.start_ns <= motion.planned.start_ns)
        return any(matches(report, planned) is not None for planned in before)

    def wait(self, by_ns: int) -> None:
        """Shift the motions in execution, which waited for some time and go on from where they were."""
        for index in range(len(self.sent) - self._in_use, len(self.sent)):
            taken, self.sent[index] = self.sent[index] is self._taken, self.sent[index].shifted(by_ns)
            self._taken = self.sent[index] if taken else self._taken
        self.revisions += 1

    def _find_again(self, report: ControllerReport, last: ControllerReport) -> None:
        """Shift the motions in execution to where a report shows them, the first one after a clock was set.

        Some controllers count cycles and go on; others read the clock and jump. The last report before that may have
        been ahead of its stamp, which may be the stamp of another cycle: this counts, too.
        """
        now, was = (replace(one, stamp_ns=self.motion_clock.at(one.stamp_ns)) for one in (report, last))
        jumped = replace(now, stamp_ns=now.stamp_ns + self._set_by_ns)
        begun = (one.planned for one in self._own() if one.planned.start_ns <= was.stamp_ns)
        found = (found_in(planned, was, was.stamp_ns) for planned in begun)
        ahead_ns = (time_ns - was.stamp_ns for time_ns in found if time_ns is not None)
        for one in self._own():
            if matches(jumped, one.planned):
                return self.wait(-self._set_by_ns)
            if (found_ns := found_in(one.planned, now, now.stamp_ns)) is not None:
                return self.wait(now.stamp_ns - found_ns + next(ahead_ns, 0))

    @property
    def _set_by_ns(self) -> int:
        """Time by which the robot's clock was set, ns, and no report has shown since where the controller is."""
        return self.clock.set_ns - self._known_set_ns

    @property
    def is_unsure(self) -> bool:
        """Return whether a clock was, or may have been, set, and no report has shown the controller's reaction yet."""
        return self.clock.is_doubted or (self.report is not None and self._set_by_ns != 0)

    @property
    def is_doubtful(self) -> bool:
        """True, until the robot rests, if a clock was set during a motion and nobody reports what became of it."""
        return self.report is None and self._in_use > 0 and self._set_by_ns != 0

    @property
    def is_unclear(self) -> bool:
        """Return whether a set clock has made the controller's place in its motion unknown."""
        return self.is_unsure or self.is_doubtful

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the controller has stopped reporting, or has sent no valid report for 0.5 s."""
        if not self._received_ns:
            return False
        most = max(_SILENT_S, _SILENT_PERIODS * self.period_s) if self.report else _ARRIVES_S
        return self.quiet_s(now_ns) > most

    def status(self, now_ns: int) -> ControllerStatus:
        """Return the controller's activity, as far as it is known."""
        return ControllerStatus.SILENT if self.is_silent(now_ns) else self._status

    def is_off(self, now_ns: int) -> bool:
        """Return whether the controller has been silent for so long that it counts as off."""
        return self.is_silent(now_ns) and self.quiet_s(now_ns) > _ARRIVES_S

    def unavailable(self, now_ns: int) -> Rejected:
        """Return the rejection of sequences while the controller is silent."""
        return Rejected(
            RejectionReason.CONTROLLER_UNAVAILABLE,
            f"controller_state: expected reports of the controller, got none for {self.quiet_s(now_ns):.3f} s; it is "
            "off, and would not take a trajectory",
        )

    def own(self, now_ns: int) -> Present | None:
        """Return the published motion, which is executed unless reports show otherwise; None if there is none."""
        own = next((one for one in self._own() if not one.is_lost), self._newest)
        return own and Present(own.planned, True, max(own.known_from_ns, self.motion_clock.at(now_ns)))

    def quiet_s(self, now_ns: int) -> float:
        """Return the time since the last report, s."""
        return (now_ns - self._received_ns) * NANOSECOND_S

    def is_overdue(self, now_ns: int) -> bool:
        """Return whether the next report is overdue: the controller may have stopped."""
        if self.report is None or not self.period_s:
            return False
        ages = sorted(self.transport)
        jitter = ages[int(0.95 * (len(ages) - 1))] - ages[0]
        return self.quiet_s(now_ns) > _OVERDUE_PERIODS * self.period_s + jitter + _OVERDUE_S

    def at(self, now_ns: int, *, waits: bool = True) -> Present | None:
        """Return the controller's motion from now on; None if it is unknown.

        Args:
            now_ns: the time.
            waits: whether to wait for a report that is overdue.

        Raises:
            NotYet: a report is overdue.
            Rejected: controller_unavailable, if it reports something that cannot be continued.

        """
        if self.is_silent(now_ns):
            raise self.unavailable(now_ns)
        if waits and (self.is_overdue(now_ns) or self.is_unsure):
            raise NotYet
        if waits and self.is_doubtful:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "node: a clock was set, and no report says what the controller made of it; expected it at rest",
            )
        if self._status is ControllerStatus.FASTER:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                f"controller_state.speed_scaling_factor: expected at most 1, got {self.report.speed_scaling:g}: "
                "motions are executed faster than they are checked",
            )
        if own := self.own(now_ns):
            return own
        if self.report is None:
            return None
        reference = self.report.reference
        if not rests(reference):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller executes a motion that this node has not published; expected it at "
                f"rest (largest velocity {np.abs(reference.velocity).max():.3g})",
            )
        at_ns = self.motion_clock.at(now_ns)
        return Present(PlannedMotion(at_ns, resting(reference.position, MOMENT_S)), False, at_ns)

    def may_move(self) -> bool:
        """Return whether the controller reports a motion."""
        return self.report is not None and not rests(self.report.reference)

    def commanded(self, time_ns: int) -> State | None:
        """Return the state commanded by published motions at a time, past or future, ns; None if there are none."""
        oldest, at_ns = self.sent[-self._in_use] if self._in_use else None, self.motion_clock.at(time_ns)
        for one in self._own():
            if (one.sent_ns <= time_ns or one is oldest) and at_ns >= one.planned.start_ns and not one.is_lost:
                return one.planned.state_at(at_ns)
        return None

    def plans(self) -> Callable[[int], PlannedMotion | None]:
        """Return a function, for any thread, of a time, ns: the newest plan published so far that has begun by then."""
        sent = tuple(self.sent)

        def at_time(time_ns: int) -> PlannedMotion | None:
            for one in reversed(sent):
                if not one.is_known:
                    break
                if one.plan is not None and time_ns >= one.plan.valid_from_ns:
                    return one.plan
            return None

        return at_time

    def drop(self) -> None:
        """Forget the motion in execution, because it is unknown when, or whether, the controller executes it."""
        self._known_set_ns = self.clock.set_ns
        if newest := self._newest:
            self.left_at = newest.planned.motion.end.position
        if self.sent:
            self.sent[-1] = self.sent[-1]._replace(is_known=False, plan=None)
        self._in_use = 0
        if self.report is None:
            self._status = ControllerStatus.UNKNOWN

    def clear(self) -> None:
        """Forget everything."""
        self.sent.clear()
        self._in_use = 0
        self.left_at = None
        self.motion_clock = MotionClock()
        self.report, self._status = None, ControllerStatus.UNKNOWN
