"""When a trajectory starts, and which part of its plan is over by then. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .plan import Plan
from .rejection import Rejected, RejectionReason

_NANOSECOND_S = 1e-9
_SHORTEST_REST_S = 1e-6
"""A step with less time left counts as over: points closer together than this are of no use to a controller."""


class Schedule(NamedTuple):
    """Start of a motion, and the time of its plan relative to it."""

    start_ns: int
    """Start of the motion, ns of the node's clock."""
    into: float = 0.0
    """How much of the plan is over at the start, s."""
    dropped: int = 0
    """Steps that are over at the start."""
    wait: float = 0.0
    """Time from the start until the plan begins, s; until then the robot continues its previous motion."""


def schedule(plan: Plan, earliest_ns: int, now_ns: int, longest_wait: float) -> Schedule:
    """Place a plan on the node's clock.

    Args:
        plan: the plan to execute.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.
        longest_wait: longest time from now until the plan begins, s.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    if not plan.origin_ns:
        return Schedule(earliest_ns)
    into = (earliest_ns - plan.origin_ns) * _NANOSECOND_S
    if into < 0:
        ahead = (plan.origin_ns - now_ns) * _NANOSECOND_S
        if ahead > longest_wait:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {longest_wait:g} s ahead of the node's clock (parameter "
                f"publish.longest_wait), got {ahead:.3f} s",
            )
        return Schedule(earliest_ns, wait=-into)
    dropped = int(np.searchsorted(plan.ends, into + _SHORTEST_REST_S, side="right"))
    if dropped == len(plan.steps):
        raise Rejected(
            RejectionReason.STALE_SEQUENCE,
            f"header.stamp: all {dropped} steps are over; the first began {(now_ns - plan.origin_ns) * 1e-9:.3f} s ago "
            f"and the last ended {into - plan.duration:.3f} s before a trajectory can start "
            f"(in {(earliest_ns - now_ns) * 1e-9:.3f} s, parameter publish.lead_time)",
        )
    if dropped:
        into = max(into, float(plan.ends[dropped - 1]))
    return Schedule(earliest_ns, into, dropped)
