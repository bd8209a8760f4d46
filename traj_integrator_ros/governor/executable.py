"""A motion to be published, and when a plan can begin. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.motion import SHORTEST_GAP, Motion, State
from ..execution.rows import Points, points_of
from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, require_finite
from .reference import PlannedMotion

_LONGEST_NS = (2**31 - 1) * SECOND_NS
"""Limit of a Duration message, whose seconds are int32."""


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion to be published: its points, its start, and how it follows the previous motion."""

    motion: Motion
    """The motion from the controller's present command on."""
    points: Points
    start_ns: int
    """When the motion starts, ns of the motion's clock."""
    stamp_ns: int
    """The same by the robot's clock, the stamp of the message; 0: when it arrives, since the controller is scaled."""
    due_ns: int
    """When the plan is taken up: the controller must have received the message by then."""
    planned: PlannedMotion
    """The plan that the motion leads to."""
    delay: float = 0.0
    """Time by which the plan was slowed to keep its limits, s."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam_offset: State | None = None
    """Difference of the command from the plan when it is taken up; None if nothing was in execution."""
    origin_ns: int = 0
    """When the plan's first step began according to its sender, ns; 0: unknown."""
    topic: str = ""
    """Where its plan came; empty: it is a stop."""
    received_ns: int = 0
    """When its plan came, ns."""
    made_ns: int = 0
    """When it was made."""

    def begun_at(self, start_ns: int, made_ns: int) -> ExecutableTrajectory:
        """The same from a later time of the motion's clock on."""
        into = (start_ns - self.start_ns) * NANOSECOND_S
        motion = self.motion.from_time(into).without_slivers()
        return replace(self, motion=motion, points=points_of(motion), start_ns=start_ns, made_ns=made_ns)


def schedule(plan: Plan, earliest_ns: int, now_ns: int, longest_wait: float) -> tuple[float, int]:
    """Time that a plan waits after the earliest start, s, and the number of its steps that are over then.

    Args:
        plan: without an origin or steps, it begins at once.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.
        longest_wait: longest time from now until the plan begins, s.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    into = (earliest_ns - plan.origin_ns) * NANOSECOND_S
    if not plan.origin_ns or not (len(plan.steps) or plan.untimed):
        return 0.0, 0
    if into < 0:
        ahead = (plan.origin_ns - now_ns) * NANOSECOND_S
        if ahead > longest_wait:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {longest_wait:g} s ahead of the node's clock (parameter "
                f"publish.longest_wait), got {ahead:.3f} s",
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
