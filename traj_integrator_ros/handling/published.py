"""What was published for the controller, what it commands now and will if nothing new arrives. Knows no ROS.

What it commands is known from its own report, where there is one, and otherwise from what was published.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.rows import Points
from .controller_reports import ControllerReport, ControllerStatus, matches, rests
from .courses import Course
from .plan import ChunkMemory, Plan
from .rejection import Rejected, RejectionReason
from .supervision import Guard

_REMEMBERED_S = 0.5
"""How long a motion that was replaced may still be in execution: until the next one has arrived."""
_MOMENT_S = 1e-3
_SILENT_S = 0.05
_SILENT_PERIODS = 6.0
_OVERDUE_PERIODS = 1.2
_OVERDUE_S = 4e-3
KEPT_S = 30.0
_MOST_COMMANDED, _MOST_MEASURED = 2048, 4096
_MARGINS_KEPT = 10_000
_COURSES_KEPT = 64
_NANOSECOND_S = 1e-9


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, its start, and how it follows the previous motion."""

    motion: Motion
    """From the controller's present command on."""
    points: Points
    start_ns: int
    """When the motion starts, ns of the node's clock."""
    stamp_ns: int
    """Stamp of the message."""
    due_ns: int
    """When the plan is taken up: the controller must have received the message by then."""
    course: Course
    """The plan that the motion leads to."""
    known_from_ns: int
    """The controller executes the motion from here on; later than now where it comes to the first point by itself."""
    brakes_at: float | None = None
    """When the plan ends and a brake begins, s from the start; None: there is no brake."""
    own_until: float = np.inf
    """s from the start; see `Course`."""
    delay: float = 0.0
    """By how much the plan was slowed to keep its limits, s."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam: State | None = None
    """Difference of the command from the plan when it is taken up; None if nothing was in execution."""
    origin_ns: int = 0
    """When the plan's first step began according to its sender, ns; 0: unknown."""
    chunk: Plan | None = None
    """The chunk as the policy sent it, to be averaged with later ones; None if chunks are not averaged."""


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
                exact = matches(report, course)
                # Whoever rests where an earlier motion ended has lost the newest one, if that should be there by now.
                if exact is not None and (on_time or not rests(report.reference)):
                    if index == newest:
                        self.status = ControllerStatus.EXECUTING if exact else ControllerStatus.BLENDING
                    elif on_time:
                        late = matches(report, self._own[newest][1]) is None
                        self.status = ControllerStatus.LATE if late else ControllerStatus.EXECUTING
                    return
            self._own.clear()
            self.status = ControllerStatus.RESTARTED if rests(report.reference) else ControllerStatus.OTHER
        elif self.status is not ControllerStatus.RESTARTED:
            self.status = ControllerStatus.HOLDING if rests(report.reference) else ControllerStatus.OTHER
        elif not rests(report.reference):
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
        if not rests(report.reference):
            raise Rejected(
                RejectionReason.CONTROLLER_UNAVAILABLE,
                "controller_state: the controller executes a motion that this node has not published; expected it at "
                f"rest (largest velocity {np.abs(report.reference.velocity).max():.3g})",
            )
        return Present(Course(now_ns, resting(report.reference.position, _MOMENT_S)), False, now_ns)

    def may_move(self) -> bool:
        """Whether the controller reports a motion."""
        return self._report is not None and not rests(self._report.reference)

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
        self.motions: deque[tuple[int, Course | None]] = deque(maxlen=_MOST_COMMANDED)
        """From when on it is in execution, ns, and the motion; None: not known what is."""
        self.states: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_MOST_MEASURED)

    def published(self, course: Course, from_ns: int) -> None:
        """Take note of a motion that is in execution from a time on."""
        while self.motions and self.motions[-1][0] >= from_ns:
            self.motions.pop()
        self.motions.append((from_ns, course))
        while len(self.motions) > 1 and (from_ns - self.motions[1][0]) * 1e-9 > KEPT_S:
            self.motions.popleft()

    def dropped(self) -> None:
        """Take note that the controller does not execute the newest motion any more; since when, is not known."""
        if self.motions:
            self.motions[-1] = (self.motions[-1][0], None)

    def measured(self, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        """Take note of a joint state `[dof]`."""
        self.states.append((stamp_ns, position, velocity))

    def clear(self) -> None:
        """Forget everything."""
        self.motions.clear()
        self.states.clear()


class ExecutionReport(NamedTuple):
    """Diagnostics of executed motions: counts since the start, other values since the previous report."""

    seam_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Largest difference in position, velocity and acceleration between a new plan and the previous motion."""
    lead_margin_least_s: float | None = None
    """Times by which trajectories were published ahead of their start; None: none had a start in the future."""
    lead_margin_median_s: float | None = None
    dropped_steps: int = 0
    late: int = 0
    """Number of trajectories that were published after their own start."""
    starved: int = 0
    """Number of trajectories that came when the previous one was already braking, or had been stopped by a brake."""
    brakes: int = 0
    """Number of brakes that were executed, at least in part."""
    chunks_averaged: int = 0
    """Largest number of chunks averaged for one time since the previous report."""
    chunks_forgotten: int = 0
    """Number of chunks that were not over when something took over with which they are not averaged."""
    out_of_order: int = 0
    """Number of trajectories of plans that began before one that had already been published."""
    slowed: int = 0
    """Number of trajectories that were slowed to keep limits."""


class PublishedMotion:
    """What was published last, the plans behind it, and statistics of their replacements."""

    def __init__(self) -> None:
        self.chunks = ChunkMemory()
        """The chunks from which the motion was averaged."""
        self.present = PresentCommand()
        self.guard = Guard()
        self.history = History()
        self._courses: deque[Course] = deque(maxlen=_COURSES_KEPT)
        self._last: ExecutableTrajectory | None = None
        self._recorded_ns = 0
        self._brake_counted = False
        self._seam = np.zeros(3)
        self._margins: deque[float] = deque(maxlen=_MARGINS_KEPT)
        self._dropped = self._late = self._starved = self._brakes = self._out_of_order = self._slowed = 0
        self._newest_origin_ns = 0

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Record a trajectory that has just been published."""
        self.observe(max(trajectory.start_ns, now_ns))
        self._starved += self._brake_counted and trajectory.seam is not None
        if trajectory.due_ns > trajectory.start_ns:
            margin = (trajectory.due_ns - now_ns) * _NANOSECOND_S
            self._late += margin < 0
            self._margins.append(margin)
        self._dropped += trajectory.dropped
        self._slowed += trajectory.delay > 0
        if trajectory.origin_ns:
            self._newest_origin_ns = max(self._newest_origin_ns, trajectory.origin_ns)
        if trajectory.seam is not None:
            self._seam = np.maximum(self._seam, np.abs(np.array(trajectory.seam)).max(axis=1))
        else:
            self._courses.clear()
        self._courses.append(trajectory.course)
        commanded = Course(trajectory.start_ns, trajectory.motion, own_until=trajectory.own_until)
        self.present.published(commanded, trajectory.known_from_ns, now_ns)
        self.history.published(commanded, trajectory.start_ns)
        self._last, self._recorded_ns, self._brake_counted = trajectory, now_ns, False
        self.chunks.take(trajectory.chunk, now_ns)

    def is_older(self, origin_ns: int, *, count: bool = True) -> bool:
        """Whether a plan that began then is older than the one in execution; counted if it is."""
        older = bool(origin_ns) and origin_ns < self._newest_origin_ns
        self._out_of_order += older and count
        return older

    def observe(self, now_ns: int) -> None:
        """Notice that a brake has begun."""
        last = self._last
        if last is None or last.brakes_at is None or self._brake_counted:
            return
        if (now_ns - last.start_ns) * _NANOSECOND_S >= last.brakes_at:
            self._brake_counted = True
            self._brakes += 1

    def report(self) -> ExecutionReport:
        """Return the report, and reset the values that count since the previous one."""
        margins = np.asarray(self._margins)
        least, median = (float(margins.min()), float(np.median(margins))) if len(margins) else (None, None)
        seam = tuple(self._seam.tolist())
        self._margins.clear()
        self._seam = np.zeros(3)
        counts = (self._dropped, self._late, self._starved, self._brakes)
        chunks = self.chunks.most_averaged(), self.chunks.forgotten
        return ExecutionReport(seam, least, median, *counts, *chunks, self._out_of_order, self._slowed)

    def check_clock(self, now_ns: int) -> bool:
        """Forget a motion published later than now, and return whether there was one: then the clock jumped back."""
        if self._last is None or now_ns >= self._recorded_ns:
            return False
        self.clear()
        return True

    def planned(self, time_ns: int) -> Course | None:
        """The newest plan that had begun at a time; None if no plan is known."""
        begun = (it for it in reversed(self._courses) if time_ns >= max(it.start_ns, it.valid_from_ns))
        return next(begun, None)

    @property
    def is_delayed(self) -> bool:
        """Whether the motion that was published was slowed: it is not where its plan is by the clock."""
        return self._last is not None and self._last.delay > 0

    def is_moving(self, now_ns: int) -> bool:
        """Whether the motion that was published is not over."""
        last = self._last
        return last is not None and (now_ns - last.start_ns) * _NANOSECOND_S < last.motion.duration

    def drop(self) -> None:
        """Forget the motion and its plans, because the controller does not execute them any more."""
        self._last = None
        self._newest_origin_ns = 0
        self._courses.clear()
        self.chunks.clear()
        self.present.drop()
        self.history.dropped()
        self._brake_counted = False

    def clear(self) -> None:
        """Forget everything about the robot."""
        self.drop()
        self.history.clear()
        self.present.clear()
        self.guard.clear()
