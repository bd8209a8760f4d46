"""What was last published for the controller, and the plans behind it. Knows no ROS."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..execution.motion import Motion, State
from ..execution.rows import Points
from .courses import Course
from .measured import Guard
from .plan import ChunkMemory, Plan
from .present import History, PresentCommand

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
