"""What was last published for the controller, and what the robot does by it. Knows no ROS."""

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
"""For so long after a motion has come to rest, the joints may be on their way to where their commands already are."""
_MARGINS_KEPT = 10_000
_NANOSECOND_S = 1e-9


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, when it starts, and how it follows what was before."""

    motion: Motion
    points: Points
    start_ns: int
    """When the motion starts, on the node's clock."""
    stamp_ns: int
    """Of the message; 0: it starts on arrival."""
    due_ns: int
    """By when the controller must have it: at its start, or once it no longer repeats what was published before."""
    brakes_at: float | None = None
    """When the plan is over and a brake begins, s from the start; None: the plan stops by itself, or is not stopped."""
    dropped: int = 0
    """Steps that were over at its start."""
    seam: State | None = None
    """What the plan lacked of the robot's state at the start; None where it began from that."""
    origin_ns: int = 0
    """When the plan's first step began, where its sender said so; 0: it did not."""
    chunk: Plan | None = None
    """Of a policy, to be averaged with those that follow: as it was sent; None: none is."""


class ExecutionReport(NamedTuple):
    """What diagnostics tell about executed motions: counts since the start, the others since the report before."""

    seam_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Largest difference of position, velocity and acceleration between a new plan and the motion before."""
    lead_margin_least_s: float | None = None
    """Time that trajectories were published before their start; None: none with a start in the future."""
    lead_margin_median_s: float | None = None
    dropped_steps: int = 0
    late: int = 0
    """Trajectories that were published after their own start."""
    starved: int = 0
    """Trajectories that came when the one before was already braking, or had come to rest by a brake."""
    brakes: int = 0
    """Brakes that were executed, in part at least."""
    chunks_averaged: int = 0
    """Most chunks that were averaged for one time, since the report before."""
    chunks_forgotten: int = 0
    """Chunks that were not over when something took over that they are not averaged with."""
    out_of_order: int = 0
    """Trajectories of plans that began before one that had been published already."""


class PublishedMotion:
    """The last motion published, where it says the robot is at any time, and what happened at its replacements."""

    def __init__(self) -> None:
        self.chunks = ChunkMemory()
        """What the motion was averaged from."""
        self._last: ExecutableTrajectory | None = None
        self._recorded_ns = 0
        self._brake_counted = False
        self._seam = np.zeros(3)
        self._margins: deque[float] = deque(maxlen=_MARGINS_KEPT)
        self._dropped = self._late = self._starved = self._brakes = self._out_of_order = 0
        self._newest_origin_ns = 0

    def record(self, trajectory: ExecutableTrajectory, now_ns: int) -> None:
        """Keep a trajectory that has just been published."""
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
        """Tell what happened, and begin anew with what is told since the report before."""
        margins = np.asarray(self._margins)
        least, median = (float(margins.min()), float(np.median(margins))) if len(margins) else (None, None)
        seam = tuple(self._seam.tolist())
        self._margins.clear()
        self._seam = np.zeros(3)
        counts = (self._dropped, self._late, self._starved, self._brakes)
        chunks = self.chunks.most_averaged(), self.chunks.forgotten
        return ExecutionReport(seam, least, median, *counts, *chunks, self._out_of_order)

    def check_clock(self, now_ns: int) -> bool:
        """Forget a motion that was published later than now; returns whether the clock has so jumped back."""
        if self._last is None or now_ns >= self._recorded_ns:
            return False
        self.clear()
        return True

    def state_at(self, time_ns: int) -> State | None:
        """State that the robot is commanded at a time; None where nothing is known of it.

        It is known from the motion's start on (before it, if it begins at rest) until its end, and for 0.25 s more if
        it has come to rest: for so long measured joints may still follow.
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
        """The soonest that another motion can take over: not before the last one, if that begins in motion."""
        last = self._last
        return 0 if last is None or not last.motion.begin.velocity.any() else last.start_ns

    def motion_between(self, begin_ns: int, end_ns: int) -> Motion | None:
        """What the robot does between two times; None where that is not known all the while."""
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
    """A motion for so many s, and its rest where that is longer."""
    missing = span - motion.duration
    if missing <= _NANOSECOND_S:
        return motion.until(min(span, motion.duration))
    return motion.then(resting(motion.end.position, missing))
