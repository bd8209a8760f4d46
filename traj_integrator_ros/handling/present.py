"""What the controller commands now, will command if nothing new arrives, and has commanded lately. Knows no ROS.

It is known from the controller's own report, where there is one, and otherwise from what was published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

import numpy as np

from ..execution.motion import State, resting
from .courses import Course
from .rejection import Rejected, RejectionReason

_MATCH_S = 3e-3
"""The reference is compared with own motions within this time: stamps are those of cycles, and blending shifts them."""
_MATCH_RAD, _MATCH_RAD_S, _HOLDS_RAD_S = 2e-5, 7e-3, 2e-4
"""What blending adds to a motion; and how fast one may be that is taken for a hold."""
_REST_RAD_S, _HELD_RAD = 1e-6, 2e-8
"""Up to this speed a reference is held; and how far a motion may be from it then: one that restarted holds another."""
_REMEMBERED_S = 0.5
"""How long a motion that was replaced may still be in execution: until the next one has arrived."""
_MOMENT_S = 1e-3
_SILENT_S = 0.05
_SILENT_PERIODS = 6.0
_OVERDUE_PERIODS = 1.2
_OVERDUE_S = 4e-3
KEPT_S = 30.0
_MOST_COMMANDED, _MOST_MEASURED = 2048, 4096
_LONGEST_GAP_NS = 200_000_000
"""Between two joint states that are further apart, nothing is said about where the robot was."""


class ControllerStatus(Enum):
    """What the controller does, as far as the node knows."""

    UNKNOWN = "unknown"
    """It does not report, and nothing has been published to it that it would execute."""
    ASSUMED = "assumed"
    """It does not report; joint states agree with what was published."""
    HOLDING = "holding"
    """It reports a reference at rest."""
    EXECUTING = "executing"
    LATE = "late"
    """It still executes a motion that has been replaced: the new one has not arrived in time."""
    BLENDING = "blending"
    """It executes the motion, up to 3 ms early or late, as after a replacement that blends."""
    RESTARTED = "restarted"
    """It has dropped the motion: restarted, aborted, or refused it."""
    OTHER = "other"
    """It executes a motion that this node has not published."""
    SCALED = "scaled"
    """It executes at another speed than planned."""
    SILENT = "silent"
    """It reported, and does not any more."""


@dataclass(frozen=True)
class ControllerReport:
    """One message of the controller about itself, in the node's joint order, float64 `[dof]`."""

    stamp_ns: int
    reference: State
    speed_scaling: float = 1.0
    has_velocity: bool = True
    """Whether it says the velocity of its reference: 0 otherwise."""


class NotYet(Exception):
    """A trajectory can be made only later, because it is not known yet what the controller does.

    Args:
        until_ns: when that will be known; 0: nobody knows.
        meanwhile: a trajectory that has to be published first, if there is one.

    """

    def __init__(self, until_ns: int = 0, meanwhile: object = None) -> None:
        super().__init__()
        self.until_ns, self.meanwhile = until_ns, meanwhile


class Present(NamedTuple):
    """What the controller does from now on, until it is told otherwise."""

    course: Course
    follows: bool
    """Whether it executes a motion of this node; otherwise it rests."""
    known_from_ns: int
    """The course is certain from here on: later than now while the controller bridges to its first point."""


@dataclass
class PresentCommand:
    """The motions that were published and the controller's reports.

    All times are nanoseconds of the node's clock.
    """

    status: ControllerStatus = ControllerStatus.UNKNOWN
    _own: deque[tuple[int, Course, int]] = field(default_factory=lambda: deque(maxlen=64))
    """When it was published, the motion, from when on it is certain."""
    _report: ControllerReport | None = None
    _received_ns: int = 0
    _period_s: float = 0.0
    left_at: np.ndarray | None = None
    """Where the last motion that was dropped ended, rad: the controller may still hold it."""
    transport: deque[float] = field(default_factory=lambda: deque(maxlen=256))
    """Ages of reports at their arrival, s."""

    @property
    def reports(self) -> bool:
        """Whether the controller has reported."""
        return self._report is not None

    def published(self, course: Course, known_from_ns: int, now_ns: int) -> None:
        """Take note of a motion that was published."""
        self._own.append((now_ns, course, known_from_ns))
        while len(self._own) > 2 and (now_ns - self._own[1][0]) * 1e-9 > _REMEMBERED_S:
            self._own.popleft()
        if not self.reports:
            self.status = ControllerStatus.ASSUMED

    def take_report(self, report: ControllerReport, now_ns: int) -> None:
        """Take a report of the controller; older ones than the last are ignored."""
        last = self._report
        if last is not None and report.stamp_ns <= last.stamp_ns:
            if (last.stamp_ns - report.stamp_ns) * 1e-9 < 1.0:
                return
            last = None
        if last is not None:
            gap = (report.stamp_ns - last.stamp_ns) * 1e-9
            self._period_s = gap if not self._period_s else 0.9 * self._period_s + 0.1 * min(gap, 2 * self._period_s)
        self._report, self._received_ns = report, now_ns
        self.transport.append(max((now_ns - report.stamp_ns) * 1e-9, 0.0))
        self._compare(report)

    def _compare(self, report: ControllerReport) -> None:
        if abs(report.speed_scaling - 1.0) > 1e-3:
            self.status = ControllerStatus.SCALED
        elif self._own:
            newest = len(self._own) - 1
            for index in range(newest, -1, -1):
                _, course, known_from_ns = self._own[index]
                if report.stamp_ns < known_from_ns and index == newest:
                    self.status = ControllerStatus.EXECUTING  # it bridges to the first point
                    return
                on_time = index == newest or report.stamp_ns <= self._own[index + 1][0] + round(_REMEMBERED_S * 1e9)
                exact = _matches(report, course)
                # Whoever rests where an earlier motion ended has lost the newest one, if that should be there by now.
                if exact is not None and (on_time or not _rests(report.reference)):
                    if index == newest:
                        self.status = ControllerStatus.EXECUTING if exact else ControllerStatus.BLENDING
                    elif on_time:
                        late = _matches(report, self._own[newest][1]) is None
                        self.status = ControllerStatus.LATE if late else ControllerStatus.EXECUTING
                    return
            self._own.clear()
            self.status = ControllerStatus.RESTARTED if _rests(report.reference) else ControllerStatus.OTHER
        elif self.status is not ControllerStatus.RESTARTED:
            self.status = ControllerStatus.HOLDING if _rests(report.reference) else ControllerStatus.OTHER
        elif not _rests(report.reference):
            self.status = ControllerStatus.OTHER

    def is_silent(self, now_ns: int) -> bool:
        """Whether the controller reported and no longer does."""
        if self._report is None:
            return False
        silent = self._quiet_s(now_ns) > max(_SILENT_S, _SILENT_PERIODS * self._period_s)
        if silent:
            self.status = ControllerStatus.SILENT
        return silent

    def _quiet_s(self, now_ns: int) -> float:
        return (now_ns - self._received_ns) * 1e-9

    def _is_overdue(self, now_ns: int) -> bool:
        """Whether the next report should have come: the controller may have stopped."""
        if self._report is None or not self._period_s:
            return False
        ages = sorted(self.transport)
        jitter = ages[int(0.95 * (len(ages) - 1))] - ages[0]
        return self._quiet_s(now_ns) > _OVERDUE_PERIODS * self._period_s + jitter + _OVERDUE_S

    def at(self, now_ns: int, *, waits: bool = True) -> Present | None:
        """Return what the controller does from now on; None if that is not known.

        Args:
            now_ns: the time.
            waits: whether a report that is overdue is waited for.

        Raises:
            NotYet: a report is overdue.
            Rejected: controller_unavailable, if it reports something that cannot be continued.

        """
        if self.is_silent(now_ns):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: expected reports of the controller, got none for "
                f"{self._quiet_s(now_ns):.3f} s; it is off, and would not take a trajectory",
            )
        if waits and self._is_overdue(now_ns):
            raise NotYet
        if self.status is ControllerStatus.SCALED:
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                f"controller_state.speed_scaling_factor: expected 1, got {self._report.speed_scaling:g}: motions are "
                "not executed at the speed that they are checked at",
            )
        if self._own:
            _, course, known_from_ns = self._own[-1]
            return Present(course, True, max(known_from_ns, now_ns))
        report = self._report
        if report is None:
            return None
        if not _rests(report.reference):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller executes a motion that this node has not published; expected it at "
                f"rest (largest velocity {np.abs(report.reference.velocity).max():.3g})",
            )
        return Present(Course(now_ns, resting(report.reference.position, _MOMENT_S)), False, now_ns)

    def may_move(self) -> bool:
        """Whether the controller reports a motion."""
        return self._report is not None and not _rests(self._report.reference)

    def moving_reference(self) -> tuple[int, State] | None:
        """The last report's reference and its stamp, for a stop of a motion that is not this node's."""
        return None if self._report is None else (self._report.stamp_ns, self._report.reference)

    def commanded(self, time_ns: int) -> State | None:
        """State that was, or will be, commanded at a time according to what was published; None if nothing was."""
        for published_ns, course, _ in reversed(self._own):
            if published_ns <= time_ns or published_ns == self._own[0][0]:
                if time_ns < course.start_ns:
                    continue
                return course.state_at(time_ns)
        return None

    def drop(self) -> None:
        """Forget what was published: the controller may not execute it any more."""
        if self._own:
            self.left_at = self._own[-1][1].motion.end.position
        self._own.clear()
        if not self.reports:
            self.status = ControllerStatus.UNKNOWN

    def clear(self) -> None:
        """Forget everything."""
        self._own.clear()
        self.left_at = None
        self._report, self.status = None, ControllerStatus.UNKNOWN


class History:
    """The motions that were published, and the joint states, of the last 30 s or the last 4096 joint states."""

    def __init__(self) -> None:
        self._commanded: deque[tuple[int, Course | None]] = deque(maxlen=_MOST_COMMANDED)
        """From when on it is in execution, ns, and the motion; None: not known what is."""
        self._measured: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_MOST_MEASURED)

    def published(self, course: Course, from_ns: int) -> None:
        """Take note of a motion that is in execution from a time on."""
        while self._commanded and self._commanded[-1][0] >= from_ns:
            self._commanded.pop()
        self._commanded.append((from_ns, course))
        while len(self._commanded) > 1 and (from_ns - self._commanded[1][0]) * 1e-9 > KEPT_S:
            self._commanded.popleft()

    def dropped(self) -> None:
        """Take note that the controller does not execute the newest motion any more; since when, is not known."""
        if self._commanded:
            self._commanded[-1] = (self._commanded[-1][0], None)

    def measured(self, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        """Take note of a joint state `[dof]`."""
        self._measured.append((stamp_ns, position, velocity))

    def clear(self) -> None:
        """Forget everything."""
        self._commanded.clear()
        self._measured.clear()

    def commanded_at(self, times_ns: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
        """Commanded positions and velocities `[N, dof]` at times `[N]`; NaN where they are not known."""
        position, velocity = np.full((2, len(times_ns), dof), np.nan)
        begins = [begin for begin, _ in self._commanded]
        for row, time_ns in enumerate(times_ns.tolist()):
            index = bisect_right(begins, time_ns) - 1
            course = self._commanded[index][1] if index >= 0 else None
            if course is not None:
                state = course.state_at(time_ns)
                position[row], velocity[row] = state.position, state.velocity
        return position, velocity

    def measured_at(self, times_ns: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
        """Measured positions and velocities `[N, dof]` at times `[N]`, linear between joint states; NaN elsewhere."""
        position, velocity = np.full((2, len(times_ns), dof), np.nan)
        stamps = [stamp for stamp, _, _ in self._measured]
        for row, time_ns in enumerate(times_ns.tolist()):
            index = bisect_right(stamps, time_ns)
            if not 0 < index < len(stamps):
                if stamps and time_ns == stamps[-1]:
                    position[row], velocity[row] = self._measured[-1][1:]
                continue
            (before_ns, p0, v0), (after_ns, p1, v1) = self._measured[index - 1], self._measured[index]
            if after_ns - before_ns > _LONGEST_GAP_NS:
                continue
            share = (time_ns - before_ns) / (after_ns - before_ns)
            position[row], velocity[row] = p0 + share * (p1 - p0), v0 + share * (v1 - v0)
        return position, velocity


def _matches(report: ControllerReport, course: Course) -> bool | None:
    """Whether a reference is a motion's exactly (True), within 3 ms (False), or not at all (None)."""
    own = course.state_at(report.stamp_ns)
    apart = np.abs(report.reference.position - own.position)
    speed = np.maximum(np.abs(own.velocity), np.abs(report.reference.velocity))
    turn = np.abs(own.acceleration) * _MATCH_S**2
    least = np.where(np.abs(report.reference.velocity) < _REST_RAD_S, _HELD_RAD, _MATCH_RAD)
    if (apart > speed * _MATCH_S + turn + least).any() or _is_at_another_speed(report, course, own):
        return None
    return bool((apart <= speed * _MATCH_S / 2 + turn + least).all())


def _is_at_another_speed(report: ControllerReport, course: Course, own: State) -> bool:
    """Whether a reference only passes where a motion passes: its velocity is not the motion's within 3 ms."""
    if not report.has_velocity:
        return False
    least = _HOLDS_RAD_S if _rests(report.reference) else _MATCH_RAD_S
    if (np.abs(report.reference.velocity - own.velocity) <= least).all():
        return False
    span_ns = round(_MATCH_S * 1e9)
    near = np.stack([own.velocity, *(course.state_at(report.stamp_ns + by).velocity for by in (-span_ns, span_ns))])
    beyond = np.maximum(report.reference.velocity - near.max(axis=0), near.min(axis=0) - report.reference.velocity)
    return bool((beyond > least).any())


def _rests(state: State) -> bool:
    return float(np.abs(state.velocity).max(initial=0.0)) < _REST_RAD_S
