"""The controller's command now, and later if nothing new arrives. Knows no ROS.

Its command is known from its own report, where there is one, and otherwise from the published motions.
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
from .robot_clock import RobotClock, Step
from .sent import NotYet, Present, SentMotion

_ARRIVES_S = 0.5
"""By then a message has arrived, even on a busy machine: what was replaced is over, a silent controller is off."""
_SILENT_S = 0.05
_SILENT_PERIODS = 6.0
"""A controller without a report for the longer of both is silent: a few may be lost, or wait for a busy machine."""
_OVERDUE_PERIODS, _OVERDUE_S = 1.2, 4e-3
"""A report is overdue after so many periods, its jitter, and the time, s, for which a thread waits for its turn."""
_KEPT_S = 30.0
_MOST_IN_USE = 64
"""Motions that the controller may execute."""


@dataclass
class PresentCommand:
    """The motions that were published, in the last 30 s at most, and the controller's reports.

    All times are nanoseconds of the robot's clock, those of motions by `motion_clock`.
    """

    sent: deque[SentMotion] = field(default_factory=lambda: deque(maxlen=MOST_KEPT))
    _in_use: int = 0
    """Number of the newest motions that the controller may execute."""
    _taken: SentMotion | None = None
    """The newest motion that the controller was seen to execute: it does not return to earlier ones."""
    report: ControllerReport | None = None
    """The newest report."""
    _status: ControllerStatus = ControllerStatus.UNKNOWN
    """State of the controller, by the last report, or by the published motions."""
    _received_ns: int = 0
    period_s: float = 0.0
    """Usual time from one report to the next; 0: not known."""
    left_at: np.ndarray | None = None
    """Where the last motion that was dropped ended, rad: the controller may still hold it."""
    clock: RobotClock = field(default_factory=RobotClock)
    motion_clock: MotionClock = field(default_factory=MotionClock)
    is_doubtful: bool = False
    """True if a clock was set in motion, and no report has shown what the controller did: until the robot rests."""
    _set_by_ns: int = 0
    """Time by which the robot's clock was set, if no report has come since."""
    revisions: int = 0
    """Number of times that reports showed the motion elsewhere than assumed."""
    transport: deque[float] = field(default_factory=lambda: deque(maxlen=256))
    """Ages of reports at their arrival, s."""

    @property
    def _newest(self) -> SentMotion | None:
        """The motion that the controller executes, or will execute; None: no published one."""
        return self.sent[-1] if self._in_use else None

    def _own(self) -> Iterator[SentMotion]:
        """Motions that the controller may execute, the newest first."""
        return islice(reversed(self.sent), self._in_use)

    def published(
        self,
        planned: PlannedMotion,
        known_from_ns: int,
        now_ns: int,
        plan: PlannedMotion | None = None,
        *,
        continues: bool = True,
    ) -> None:
        """Take note of a motion that was published; see `SentMotion`."""
        self.sent.append(SentMotion(now_ns, planned, known_from_ns, plan, continues))
        self._in_use = min(self._in_use + 1, _MOST_IN_USE)
        while self._in_use > 2 and (now_ns - self.sent[1 - self._in_use].sent_ns) * NANOSECOND_S > _ARRIVES_S:
            if self.sent[-self._in_use] is self._taken:
                break
            self._in_use -= 1
        while len(self.sent) > self._in_use and (now_ns - self.sent[1].sent_ns) * NANOSECOND_S > _KEPT_S:
            self.sent.popleft()
        if self.report is None:
            self._status = ControllerStatus.ASSUMED

    def take_report(self, report: ControllerReport, now_ns: int, count: int = 1) -> None:
        """Take the newest of `count` reports of the controller; older ones than the last are ignored."""
        last = self.report
        if self.clock.is_doubted:  # its stamp may come from another clock than the motions
            self._received_ns = now_ns
            return
        if self._set_by_ns:
            self._shift(report)
            last = None
        elif last is not None and report.stamp_ns <= last.stamp_ns:
            if (last.stamp_ns - report.stamp_ns) * NANOSECOND_S < 1.0:
                return
            last = None
        if last is not None:
            gap = (report.stamp_ns - last.stamp_ns) * NANOSECOND_S / count
            self.period_s = gap if not self.period_s else 0.9 * self.period_s + 0.1 * min(gap, 2 * self.period_s)
        self.report, self._received_ns = report, now_ns
        self.transport.append(max((now_ns - report.stamp_ns) * NANOSECOND_S, 0.0))
        self.follow_scaling(report.speed_scaling, report.stamp_ns, report)
        self._compare(replace(report, stamp_ns=self.motion_clock.at(report.stamp_ns)), report.stamp_ns)

    def follow_scaling(self, rate: float, stamp_ns: int, report: ControllerReport | None = None) -> None:
        """Take the rate at which motions are executed from a time on, and perhaps a report of the motion then."""

        def seen(near_ns: int, within_ns: int) -> int | None:
            for one in self._own() if report is not None else ():
                time_ns = found_in(one.planned, report, near_ns, within_ns)
                if time_ns is not None and time_ns >= one.planned.start_ns:
                    return time_ns
            return None

        is_lost = report is not None and self._is_lost(replace(report, stamp_ns=self.motion_clock.at(stamp_ns)))
        self.revisions += self.motion_clock.follow(stamp_ns, rate, seen, is_lost=is_lost)

    def _is_lost(self, report: ControllerReport) -> bool:
        """Return whether a report of a motion, by the motion's time, fits none there, or no longer exactly."""
        if not self._in_use or rests(report.reference):
            return False
        found = next((one for one in (matches(report, one.planned) for one in self._own()) if one is not None), None)
        was_exact = self._status is ControllerStatus.EXECUTING and self._taken is self._newest
        return found is None or (was_exact and not found)

    def _compare(self, report: ControllerReport, stamp_ns: int) -> None:
        """Find the motion in execution by a report, whose own time is that in the motion; `stamp_ns` is the robot's."""
        if report.speed_scaling > 1.0 + SAME_RATE:
            self._status = ControllerStatus.FASTER
        elif newest := self._newest:
            if report.stamp_ns < newest.known_from_ns:
                self._status = ControllerStatus.EXECUTING  # it bridges to the first point
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
                    break  # it has dropped that motion: restarted, it may hold where an earlier one ended
                replaced_ns = one.sent_ns
            self._in_use = 0
            self._status = ControllerStatus.RESTARTED if rests(report.reference) else ControllerStatus.OTHER
        elif self._status is not ControllerStatus.RESTARTED:
            self._status = ControllerStatus.HOLDING if rests(report.reference) else ControllerStatus.OTHER
        elif not rests(report.reference):
            self._status = ControllerStatus.OTHER

    def _lose_after(self, executed: SentMotion) -> None:
        """Take a motion as the one in execution, and newer ones as lost until a report shows them."""
        is_lost = True
        for index in range(len(self.sent) - 1, len(self.sent) - 1 - self._in_use, -1):
            one = self.sent[index]
            is_lost = is_lost and one is not executed
            if one.is_lost != is_lost and (is_lost or one is executed):
                self.sent[index] = one._replace(is_lost=is_lost)
                self._taken = self.sent[index] if one is self._taken else self._taken

    @property
    def has_lost(self) -> bool:
        """Return whether the controller was seen not to execute the motion published last."""
        return self._in_use > 0 and self.sent[-1].is_lost

    def _is_of_others(self, report: ControllerReport, motion: SentMotion) -> bool:
        """Return whether a report of a motion could as well be one of an earlier motion."""
        others = (one.planned for one in self._own() if one is not motion)
        before = (planned for planned in others if planned.start_ns <= motion.planned.start_ns)
        return any(matches(report, planned) is not None for planned in before)

    def set_clock(self, step: Step) -> None:
        """The robot's clock was set: the controller executes its motion by it."""
        self.sent = deque((one._replace(sent_ns=one.sent_ns + step.read_ns) for one in self.sent), maxlen=MOST_KEPT)
        self._received_ns = self._received_ns and self._received_ns + step.read_ns
        self.motion_clock.set_clock(step.read_ns)
        self._set_by_ns = step.stamps_ns if self.report else 0
        self.is_doubtful = self.report is None and self._in_use > 0

    def wait(self, by_ns: int) -> None:
        """The motions in execution were held up for a time, and go on from where they were."""
        for index in range(len(self.sent) - self._in_use, len(self.sent)):
            taken, self.sent[index] = self.sent[index] is self._taken, self.sent[index].shifted(by_ns)
            self._taken = self.sent[index] if taken else self._taken
        self.revisions += 1

    def _shift(self, report: ControllerReport) -> None:
        """Shift the motions in execution as a report shows them: some controllers count cycles, others read the clock.

        How far the last report before that was ahead of its stamp counts, too: stamps may be those of another cycle.
        """
        by_ns, self._set_by_ns, was = self._set_by_ns, 0, self.report
        report, was = (replace(one, stamp_ns=self.motion_clock.at(one.stamp_ns)) for one in (report, was))
        for number, one in enumerate(self._own()):
            if matches(report, one.planned):
                return
            by_report = found_in(one.planned, report, report.stamp_ns - by_ns)
            if by_report is None:
                continue
            shift_ns = report.stamp_ns - by_report + self._report_ahead_ns(was)
            kept = len(self.sent) - self._in_use
            for index in range(kept, len(self.sent) - number):
                self.sent[index] = self.sent[index].shifted(shift_ns)
            return

    def _report_ahead_ns(self, report: ControllerReport) -> int:
        """Time by which a report of the motion in execution is ahead of its stamp, ns; 0 at rest."""
        begun = (one.planned for one in self._own() if one.planned.start_ns <= report.stamp_ns)
        times = (found_in(planned, report, report.stamp_ns) for planned in begun)
        return next((time_ns - report.stamp_ns for time_ns in times if time_ns is not None), 0)

    @property
    def is_unsure(self) -> bool:
        """Return whether a clock was, or may have been, set, and no report has shown the controller's reaction yet."""
        return self.clock.is_doubted or self._set_by_ns != 0

    @property
    def is_unclear(self) -> bool:
        """Return whether it is not known where the controller is in its motion, because of a clock."""
        return self.is_unsure or self.is_doubtful

    def is_silent(self, now_ns: int) -> bool:
        """Return whether the controller has stopped reporting; longer after a first report that cannot be believed."""
        if not self._received_ns:
            return False
        most = max(_SILENT_S, _SILENT_PERIODS * self.period_s) if self.report else _ARRIVES_S
        return self.quiet_s(now_ns) > most

    def status(self, now_ns: int) -> ControllerStatus:
        """The controller's activity, as far as it is known."""
        return ControllerStatus.SILENT if self.is_silent(now_ns) else self._status

    def is_off(self, now_ns: int) -> bool:
        """Return whether it has been silent for so long that it counts as off."""
        return self.is_silent(now_ns) and self.quiet_s(now_ns) > _ARRIVES_S

    def unavailable(self, now_ns: int) -> Rejected:
        """The rejection of sequences while the controller is silent."""
        return Rejected(
            RejectionReason.CONTROLLER_UNAVAILABLE,
            f"controller_state: expected reports of the controller, got none for {self.quiet_s(now_ns):.3f} s; it is "
            "off, and would not take a trajectory",
        )

    def own(self, now_ns: int) -> Present | None:
        """The published motion, which is executed unless reports say otherwise; None: there is none."""
        own = next((one for one in self._own() if not one.is_lost), self._newest)
        return own and Present(own.planned, True, max(own.known_from_ns, self.motion_clock.at(now_ns)))

    def quiet_s(self, now_ns: int) -> float:
        """Time since the last report, s."""
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
            waits: whether a report that is overdue is waited for.

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
        """State that was, or will be, commanded at a time by the published motions; None: there are none."""
        oldest, at_ns = self.sent[-self._in_use] if self._in_use else None, self.motion_clock.at(time_ns)
        for one in self._own():
            if (one.sent_ns <= time_ns or one is oldest) and at_ns >= one.planned.start_ns and not one.is_lost:
                return one.planned.state_at(at_ns)
        return None

    def plans(self) -> Callable[[int], PlannedMotion | None]:
        """A function, for any thread, that returns the newest plan begun at a time, among those published by now."""
        sent = tuple(self.sent)

        def at_time(time_ns: int) -> PlannedMotion | None:
            for one in reversed(sent):
                if one.plan is not None and time_ns >= one.plan.valid_from_ns:
                    return one.plan
                if not one.continues:
                    break
            return None

        return at_time

    def drop(self) -> None:
        """Forget the motion in execution: nobody knows when, or whether, the controller executes it."""
        self.is_doubtful = False
        if newest := self._newest:
            self.left_at = newest.planned.motion.end.position
        if self.sent:
            self.sent[-1] = self.sent[-1]._replace(is_known=False, plan=None, continues=False)
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
