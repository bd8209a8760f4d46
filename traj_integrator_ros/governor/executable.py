"""A motion to be published, and when a plan can begin. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.motion import SHORTEST_GAP, Motion, State
from ..execution.rows import Points, points_of
from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..parameters.table import LONGEST_WAIT_S
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, require_finite
from .reference import PlannedMotion

_LONGEST_NS = (2**31 - 1) * SECOND_NS
"""Longest time, ns, that a Duration message holds: its seconds are int32."""


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, its start, and how it follows the previous motion."""

    motion: Motion
    """The motion from the controller's present command on."""
    points: Points
    start_ns: int
    """When the motion starts, ns, by the motion's clock."""
    stamp_ns: int
    """Stamp of the message: the start by the robot's clock; 0 if it starts on arrival, at a scaled controller."""
    due_ns: int
    """When the plan begins: the controller must have received the message by then."""
    planned: PlannedMotion
    """The plan that the motion leads to."""
    delay: float = 0.0
    """Time by which the plan was slowed to keep its limits, s."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam_offset: State | None = None
    """Difference between command and plan when the plan begins; None if nothing was in execution."""
    origin_ns: int = 0
    """When the plan's first step began according to its sender, ns; 0 if unknown."""
    topic: str = ""
    """Topic on which its plan arrived; empty if it is a stop."""
    received_ns: int = 0
    """When its plan arrived, ns."""

    def begun_at(self, start_ns: int) -> ExecutableTrajectory:
        """Return the same trajectory from a later time of the motion's clock on."""
        into = (start_ns - self.start_ns) * NANOSECOND_S
        motion = self.motion.from_time(into).without_slivers()
        return replace(self, motion=motion, points=points_of(motion), start_ns=start_ns)


def schedule(plan: Plan, earliest_ns: int, now_ns: int) -> tuple[float, int]:
    """Return how long a plan waits after the earliest start, s, and how many of its steps are over then.

    Args:
        plan: without an origin or steps, it begins at once.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    into = (earliest_ns - plan.origin_ns) * NANOSECOND_S
    if not plan.origin_ns or not (len(plan.steps) or plan.untimed):
        return 0.0, 0
    if into < 0:
        ahead = (plan.origin_ns - now_ns) * NANOSECOND_S
        if ahead > LONGEST_WAIT_S:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {LONGEST_WAIT_S:g} s ahead of the node's clock, got {ahead:.3f} s",
            )
        return -into, 0
    dropped = int(plan.ends.searchsorted(into + SHORTEST_GAP, side="right"))
    if dropped == len(plan.steps):
        ago = (now_ns - plan.origin_ns) * NANOSECOND_S
        raise Rejected(
            RejectionReason.STALE_SEQUENCE,
            f"header.stamp: all {dropped} steps are over; the first began {ago:.3f} s ago "
            f"and the last ended {into - plan.duration:.3f} s before a trajectory can start "
            f"(in {(earliest_ns - now_ns) * NANOSECOND_S:.3f} s, parameter publish.lead_time)",
        )
    return 0.0, dropped


def require_written(points: Points) -> None:
    """Check that a message can hold points.

    Raises:
        Rejected: non_finite_result or invalid_times.

    """
    for name, values in zip(("position", "velocity", "acceleration"), points[1:], strict=True):
        if values is not None:
            require_finite(name, values, RejectionReason.NON_FINITE_RESULT)
    time_ns = points.time_ns
    if time_ns[-1] >= _LONGEST_NS or time_ns[-1] < 0:
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            f"dt: the trajectory comes to its end after {time_ns[-1] * NANOSECOND_S:g} s, beyond 2^31 s",
        )
    if np.count_nonzero(time_ns[1:] <= time_ns[:-1]):
        raise Rejected(RejectionReason.INVALID_TIMES, "dt: expected steps of at least one nanosecond")
