"""When a trajectory starts, and what of its plan is over by then. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .plan import Plan
from .rejection import Rejected, RejectionReason

_NANOSECOND_S = 1e-9
_SHORTEST_REST_S = 1e-6
"""A step of which less is left counts as over: points closer than this are of no use to any controller."""


class Schedule(NamedTuple):
    """Start of a motion, and how its plan lies to it."""

    start_ns: int
    """On the node's clock."""
    into: float = 0.0
    """How much of the plan is over at the start, s."""
    dropped: int = 0
    """Steps that are over at the start."""
    wait: float = 0.0
    """From the start until the plan begins, s; until then the robot goes on as before."""


def schedule(plan: Plan, earliest_ns: int, now_ns: int, longest_wait: float) -> Schedule:
    """Lay a plan on the clock.

    Args:
        plan: what is to be executed.
        earliest_ns: the soonest that a motion can start.
        now_ns: the node's clock.
        longest_wait: s from now until the plan begins.

    Raises:
        Rejected: stale_sequence, where all steps are over at the start; future_sequence.

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
