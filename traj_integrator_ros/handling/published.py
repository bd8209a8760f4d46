"""The motion that was last published for the controller, and the robot's state according to it. Knows no ROS."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..execution.motion import Motion, State, resting
from ..execution.points import Points
from .chunks import ChunkMemory
from .plan import Plan

SETTLING_S = 0.25
"""Time after a motion has come to rest during which the joints may still be moving towards their commands."""
_MARGINS_KEPT = 10_000
_NANOSECOND_S = 1e-9


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, its start, and how it follows the previous motion."""

    motion: Motion
    points: Points
    start_ns: int
    """When the motion starts, ns of the node's clock."""
    stamp_ns: int
    """Stamp of the message; 0: it starts on arrival."""
    due_ns: int
    """When the controller must have received it: at its start, or when it no longer repeats the previous motion."""
    brakes_at: float | None = None
    """When the plan ends and a brake begins, s from the start; None: there is no brake."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam: State | None = None
    """Difference of the robot's state from the plan's at the start; None if the plan began from the robot's state."""
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


class PublishedMotion:
    """The last published motion, the robot's state according to it, and statistics of its replacements."""

    def __init__(self) -> None:
        self.chunks = ChunkMemory()
        """The chunks from which the motion was averaged."""
        self._last: ExecutableTrajectory | None = None
        self._recorded_ns = 0
        self._brake_counted = False
        self._seam = np.zeros(3)
        self._margins: deque[float] = deque(maxlen=_MARGINS_KEPT)
        self._dropped = self._late = self._starved = self._brakes = self._out_of_order = 0
        self._newest_origin_ns = 0

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Record a trajectory that has just been published."""
        self.observe(trajectory.start_ns)
        self._starved += self._brake_counted
        if trajectory.stamp_ns:
            margin = (trajectory.due_ns - now_ns) * _NANOSECOND_S
            self._late += margin < 0
            self._margins.append(margin)
        self._dropped += trajectory.dropped
        if trajectory.origin_ns:
            self._out_of_order += trajectory.origin_ns < self._newest_origin_ns
            self._newest_origin_ns = max(self._newest_origin_ns, trajectory.origin_ns)
        if trajectory.seam is not None:
            self._seam = np.maximum(self._seam, [np.abs(part).max() for part in trajectory.seam])
        self._last, self._recorded_ns, self._brake_counted = trajectory, now_ns, False
        self.chunks.take(trajectory.chunk, now_ns)

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
        return ExecutionReport(seam, least, median, *counts, *chunks, self._out_of_order)

    def check_clock(self, now_ns: int) -> bool:
        """Forget a motion published later than now, and return whether there was one: then the clock jumped back."""
        if self._last is None or now_ns >= self._recorded_ns:
            return False
        self.clear()
        return True

    def state_at(self, time_ns: int) -> State | None:
        """Commanded state of the robot at a time; None if it is unknown.

        It is known from the motion's start on (and before it, if it begins at rest) until its end, and for 0.25 s more
        if it has come to rest, during which the measured joints may still be following.
        """
        last = self._last
        if last is None:
            return None
        elapsed = (time_ns - last.start_ns) * _NANOSECOND_S
        if elapsed < 0:
            begin = last.motion.begin
            return None if begin.velocity.any() else State(begin.position, *np.zeros((2, last.motion.dof)))
        if elapsed >= last.motion.duration + (SETTLING_S if last.motion.ends_at_rest else 0.0):
            return None
        return last.motion.state_at(elapsed)

    @property
    def earliest_ns(self) -> int:
        """Earliest time at which another motion can take over: not before the start of the last, if that is moving."""
        last = self._last
        return 0 if last is None or not last.motion.begin.velocity.any() else last.start_ns

    def motion_between(self, begin_ns: int, end_ns: int) -> Motion | None:
        """The robot's commanded motion between two times; None if it is not known throughout."""
        last = self._last
        begin = self.state_at(begin_ns)
        if last is None or begin is None:
            return None
        elapsed = (begin_ns - last.start_ns) * _NANOSECOND_S
        span = (end_ns - begin_ns) * _NANOSECOND_S
        if elapsed + span - last.motion.duration > _NANOSECOND_S and not last.motion.ends_at_rest:
            return None
        if elapsed < 0 and span <= -elapsed:
            return resting(begin.position, span)
        if elapsed < 0:
            return resting(begin.position, -elapsed).then(_first(last.motion, span + elapsed))
        if elapsed >= last.motion.duration:
            return resting(begin.position, span)
        return _first(last.motion.from_time(elapsed), span)

    def clear(self) -> None:
        """Forget the motion."""
        self._last = None
        self._newest_origin_ns = 0
        self.chunks.clear()
        self._brake_counted = False


def _first(motion: Motion, span: float) -> Motion:
    """The first `span` s of a motion, padded with rest if the motion is shorter."""
    missing = span - motion.duration
    if missing <= _NANOSECOND_S:
        return motion.until(min(span, motion.duration))
    return motion.then(resting(motion.end.position, missing))
