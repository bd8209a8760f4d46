"""A motion to be published, and when a plan can begin. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from ..execution.motion import SHORTEST_GAP, Motion
from ..execution.rows import Points, points_of
from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..parameters.table import LONGEST_WAIT_S
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, require_finite

_LONGEST_NS = (2**31 - 1) * SECOND_NS
"""Longest time, ns, that a Duration message holds: its seconds are int32."""


@dataclass(frozen=True)
class ExecutableTrajectory:
    """A motion from the controller's present command on, its message, and how it follows the previous motion."""

    motion: Motion
    follows: bool = True
    """False if it was not sent: the robot is held, or something else moves it."""
    stamp_ns: int = 0
    """Stamp of the message: the start by the robot's clock; 0 if it starts on arrival, at a scaled controller."""
    points: Points | None = None
    """Its points; None if it was commanded in another way than by a message."""
    due_ns: int = 0
    """When the plan begins: the controller must have received the message by then."""
    meant: Motion | None = None
    """The planned motion that it leads to."""
    plan: Plan | None = None
    """The plan as it was sent; None if it is a stop."""
    delay: float = 0.0
    """Time by which the plan was slowed to keep its limits, s."""
    dropped: int = 0
    """Number of steps that were over at its start."""
    seam_offset: np.ndarray | None = None
    """Position, velocity and acceleration of the command less those of the plan when it begins, `[3, dof]`; None if
    nothing was in execution.
    """
    sent_ns: int = 0
    """When it was sent, ns; 0 if it was not."""
    is_lost: bool = False
    """True if a report showed an earlier motion when this one was due: it is late, or was refused."""

    @property
    def start_ns(self) -> int:
        """When it begins, ns, by the clock of motions."""
        return self.motion.start_ns

    @property
    def topic(self) -> str:
        """Topic on which its plan arrived; empty if it is a stop."""
        return "" if self.plan is None else self.plan.topic

    def until(self, following: ExecutableTrajectory) -> ExecutableTrajectory:
        """Return what is executed of it before another one begins, without its message."""
        meant = self.meant
        if meant is not None and following.meant is not None:
            meant = meant.ending(following.meant.valid_from_ns)
        return ExecutableTrajectory(self.motion.ending(following.start_ns), meant=meant)

    def begun_at(self, time_ns: int) -> ExecutableTrajectory:
        """Return the same trajectory for a controller that begins it at a time of the motion's clock."""
        time_ns = min(time_ns, self.due_ns)
        if time_ns <= self.start_ns:  # The controller goes to the first point by itself.
            return replace(self, points=self.points._replace(time_ns=self.points.time_ns + (self.start_ns - time_ns)))
        motion = self.motion.from_time((time_ns - self.start_ns) * NANOSECOND_S).without_slivers()
        return replace(self, motion=motion, points=points_of(motion))


def schedule(plan: Plan, earliest_ns: int, now_ns: int, soonest_ns: int) -> tuple[int, int]:
    """Return when a plan begins, ns, and how many of its steps are over then.

    Args:
        plan: without an origin or steps, it begins at once.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.
        soonest_ns: the time at which one could start if the controller were on its way: of a plan that is not over by
            then, all steps may be.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    if not plan.origin_ns or not (len(plan.steps) or plan.untimed):
        return earliest_ns, 0
    ago_s, into_s = ((time_ns - plan.origin_ns) * NANOSECOND_S for time_ns in (now_ns, earliest_ns))
    if into_s < 0:
        if -ago_s > LONGEST_WAIT_S:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {LONGEST_WAIT_S:g} s ahead of the node's clock, got {-ago_s:.3f} s",
            )
        return plan.origin_ns, 0
    dropped = int(plan.ends.searchsorted(into_s + SHORTEST_GAP, side="right"))
    if dropped == len(plan.steps) and plan.duration <= (soonest_ns - plan.origin_ns) * NANOSECOND_S + SHORTEST_GAP:
        raise Rejected(
            RejectionReason.STALE_SEQUENCE,
            f"header.stamp: all {dropped} steps are over; the first began {ago_s:.3f} s ago and the last ended "
            f"{into_s - plan.duration:.3f} s before a trajectory can start (in "
            f"{(earliest_ns - now_ns) * NANOSECOND_S:.3f} s, parameter publish.lead_time)",
        )
    return earliest_ns, dropped


def require_written(points: Points) -> None:
    """Check that a message can hold points. Raises Rejected: non_finite_result or invalid_times."""
    for name, values in zip(("position", "velocity", "acceleration"), points[1:], strict=True):
        if values is not None:
            require_finite(name, values, RejectionReason.NON_FINITE_RESULT)
    time_ns = points.time_ns
    if time_ns[-1] >= _LONGEST_NS or np.count_nonzero(time_ns[1:] <= time_ns[:-1]):
        raise Rejected(
            RejectionReason.INVALID_TIMES,
            "dt: expected steps of at least one nanosecond and an end within 2^31 s, got an end after "
            f"{time_ns[-1] * NANOSECOND_S:g} s",
        )
