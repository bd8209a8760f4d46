"""Diagnostics of executed motions: how late they came, how well they fitted, how they ended."""

from __future__ import annotations

from collections import Counter, deque
from statistics import median as median_of
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import MOST_KEPT, NANOSECOND_S
from .executable import ExecutableTrajectory


class ExecutionReport(NamedTuple):
    """Diagnostics of executed motions: counts since the start, other values since the previous report."""

    seam_offset: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Largest difference in position, velocity and acceleration between a new plan and the previous motion."""
    lead_margin_least_s: float | None = None
    """Shortest time, s, by which trajectories were published before their plan began; None if none was."""
    lead_margin_median_s: float | None = None
    dropped_steps: int = 0
    late: int = 0
    """Number of trajectories that were published after their plan should have begun."""
    starved: int = 0
    """Number of trajectories that came when the previous one was already braking, or had been stopped by a brake."""
    brakes: int = 0
    """Number of brakes that were executed, at least in part."""
    out_of_order: int = 0
    """Number of plans that were refused because they began before one that had already been published."""
    slowed: int = 0
    """Number of trajectories that were slowed to keep limits."""
    slowed_by_s: float = 0.0
    """Largest delay of an end by slowing, s."""


class Executed:
    """Statistics of the motions that were published, and of their replacements."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        """Counts by the names of the fields of `ExecutionReport`."""
        self._margins: deque[float] = deque(maxlen=MOST_KEPT)
        self._seam, self._delay = np.zeros(3), 0.0
        self._braked_ns = 0
        """Start of the motion whose brake was counted last, ns."""

    def take(self, trajectory: ExecutableTrajectory, last: ExecutableTrajectory | None, now_ns: int) -> None:
        """Take note of a trajectory that has just been published after the last one."""
        self.observe(last, max(trajectory.start_ns, now_ns))
        if trajectory.due_ns > trajectory.start_ns:
            self._margins.append((trajectory.due_ns - now_ns) * NANOSECOND_S)
            self.counts["late"] += self._margins[-1] < 0
        if trajectory.seam_offset is not None:
            self.counts["starved"] += last is not None and last.start_ns == self._braked_ns
            self._seam = np.maximum(self._seam, np.abs(trajectory.seam_offset).max(axis=1))
        self.counts["dropped_steps"] += trajectory.dropped
        self.counts["slowed"] += trajectory.delay > 0
        self._delay = max(self._delay, trajectory.delay)

    def observe(self, last: ExecutableTrajectory | None, now_ns: int) -> None:
        """Notice that the brake of the last motion has begun."""
        if last is not None and (now_ns - last.start_ns) * NANOSECOND_S >= last.motion.plan_until:
            self.counts["brakes"] += last.start_ns != self._braked_ns
            self._braked_ns = last.start_ns

    def report(self) -> ExecutionReport:
        """Return the report, and reset what counts since the last one."""
        margins, seam, delay = [*self._margins], tuple(self._seam.tolist()), self._delay
        self._margins.clear()
        self._seam, self._delay = np.zeros(3), 0.0
        least, median = min(margins, default=None), median_of(margins) if margins else None
        return ExecutionReport(seam, least, median, slowed_by_s=delay, **self.counts)
