"""Motions whose times follow from limits: the fastest motion along a path, and slowed plans. No ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from ..execution.motion import Motion, resting
from ..execution.polynomials import spaced
from ..execution.rows import Reference, points_of
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, whole_ns
from ..kernels.retime import MotionLimits, Retimed, retime
from ..requests.rejection import Rejected, RejectionReason
from ..requests.retime_requests import motion_of

_FEWEST_INTERVALS = 8
"""Smallest number of intervals that divide a path: fewer resolve its ends too coarsely."""
_MOST_INTERVALS = 10_000
"""Largest number of intervals that divide a path: more take too long."""
_INTERVAL_S = {2: 0.007, 3: 0.02}
"""Duration of an interval, s, by order: such cubics (2) and quintics (3) stay within 1 µrad of the path."""
_SLOWER = 1.5
"""Ratio of slowed to planned duration beyond which the intervals, chosen for the plan, have become too long."""
_MOST_SLOWED = 1e3
"""Ratio of slowed to planned duration beyond which the slowed motion practically stands still."""
_SAME_ACCELERATION = 1e-3
"""Smallest difference of accelerations that counts, rad/s^2."""
_ATTEMPTS = (1.0, 1), (0.8, 1), (0.0, 1), (0.0, 4), (0.0, 12)
"""Shares of the largest possible rate at the start, and factors on the number of intervals, which are tried in this
order: where accelerations jump, a solution may be found on fine intervals only.
"""
_SAME_PACE = 0.02
"""Share by which such a motion may exceed its pace without being slowed."""
_NO_LIMIT = 1e6
"""Acceleration, rad/s^2, and jerk, rad/s^3, that stand for no limit."""
_BELOW = 1 - 1e-7
"""Factor on the limits, which keeps rounding errors within them."""


def fastest(rows: np.ndarray, limits: np.ndarray, joint_names: Sequence[str]) -> Reference:
    """Return the fastest motion along a path, from rest to rest.

    Args:
        rows: waypoints, rad, `[N, dof]`.
        limits: velocity, acceleration and jerk, `[3, dof]`.
        joint_names: for errors.

    Raises:
        Rejected: limits_violated, if no motion within limits is found.

    """
    if (rows == rows[0]).all():
        return Reference(resting(rows[-1], MOMENT_S), np.zeros(len(rows)))
    found = retime(torch.from_numpy(rows[None]), _tensors(limits))
    reason = found.reason(0, joint_names)
    if not bool(found.ok[0]):
        raise Rejected(
            RejectionReason.LIMITS, f"points: expected a path that can be passed within limits, but {reason}"
        )
    return Reference(motion_of(found, 0), found.row_times[0].numpy(), why_slow=reason)


def slow(
    motion: Motion,
    limits: np.ndarray,
    joint_names: Sequence[str] = (),
    *,
    from_state: bool = False,
    marks: Sequence[float] = (),
) -> Reference:
    """Slow a motion along its path where it exceeds limits, and only there.

    Args:
        motion: if it ends in motion, its velocity at the end is kept.
        limits: velocity, acceleration and jerk, `[3, dof]`; a jump of acceleration counts as no jerk.
        joint_names: for the reason.
        from_state: whether the slowed motion has to begin at the same velocity; otherwise as fast as limits allow.
        marks: times of the motion, s; those before its beginning stay.

    Returns:
        The slowed motion, which passes the marks.

    Raises:
        Rejected: limits_violated, if none is found.

    """
    points, order = points_of(motion), 3 if motion.with_accelerations else 2
    kept = np.isin(points.time_ns, spaced(points.time_ns, whole_ns(MOMENT_S)))
    before = points.time_ns[kept] * NANOSECOND_S
    p, v, a = (None if part is None else part[kept] for part in points[1:])
    if (p == p[0]).all():
        raise Rejected(RejectionReason.LIMITS, "the plan stands still")
    largest, reason = 1.0, ""
    for share, finer in _ATTEMPTS[: 1 if from_state else None]:
        found = _slower(before, (p, v, a), _tensors(limits), share * largest, finer)
        if bool(found.ok[0]) and float(found.row_times[0, -1]) <= _MOST_SLOWED * before[-1]:
            made, times = motion_of(found, 0, order), found.row_times[0].numpy()
            gap = np.abs(made.begin.acceleration - motion.begin.acceleration).max()
            if from_state and order == 3 and gap > _SAME_ACCELERATION:
                raise Rejected(RejectionReason.LIMITS, "all joints turn at once where it is to be continued")
            until = motion.plan_until
            if until <= before[-1]:
                until = float(np.interp(until, before, times))
            made = made._replace(ends_at_rest=motion.ends_at_rest, plan_until=until, start_ns=motion.start_ns)
            return Reference(made, np.interp(marks, before, times) + np.minimum(marks, 0.0))
        reason = reason or found.reason(0, joint_names) or "it would stand still"
        largest = min(largest, float(found.largest_start_speed[0]))
    raise Rejected(RejectionReason.LIMITS, reason)


def gently(
    motion: Motion, stopped: np.ndarray, reach: np.ndarray, limits: np.ndarray, marks: Sequence[float] = ()
) -> Reference:
    """Slow the beginning of a motion after a brake, where joints move on in the direction in which they were stopped.

    Args:
        motion: from a state that keeps the pace.
        stopped: velocities of joints, rad/s, `[dof]`, in the directions in which they were stopped; 0: they were not.
        reach: how far they have to go before they may be faster there, rad, `[dof]`.
        limits: velocity, acceleration and jerk, `[3, dof]`.
        marks: times of the motion, s.

    Returns:
        As `slow`; the same motion if it is slow enough.

    """
    (position, velocity), towards, pace = motion.states_at(motion.knots, 2), np.sign(stopped), np.abs(stopped)
    led = np.maximum.accumulate(towards * (position - position[0]))
    speeds = np.maximum(towards * velocity, 0.0)
    speeds = np.maximum(speeds[:-1], speeds[1:])
    first = (speeds > 0) & (led[:-1] < reach)
    joints = np.flatnonzero((first & (speeds > pace * (1 + _SAME_PACE))).any(axis=0))
    if not len(joints):
        return Reference(motion, np.asarray(marks, float))
    # The pace is a limit of velocity of additional joints, which copy these joints there and rest elsewhere.
    more = motion.coefficients[..., joints] * first[:, None, joints]
    steps = np.diff(position, axis=0)[:, joints] * first[:, joints]
    more[:, 0] = np.vstack([np.zeros(len(joints)), steps.cumsum(axis=0)[:-1]])
    both = motion._replace(coefficients=np.concatenate([motion.coefficients, more], axis=2))
    wider = np.vstack([pace[joints], np.full((2, len(joints)), _NO_LIMIT)])
    found = slow(both, np.hstack([limits, wider]), from_state=bool(motion.begin.velocity.any()), marks=marks)
    own = np.ascontiguousarray(found.motion.coefficients[..., : motion.dof])
    return found._replace(motion=found.motion._replace(coefficients=own))


def _slower(
    times: np.ndarray, states: tuple[np.ndarray | None, ...], limits: MotionLimits, rate: float, finer: int
) -> Retimed:
    """Slow a plan with points at times `[N]`, s, on `finer` times the intervals that its slowed form needs."""
    order, pieces, duration = 2 if states[2] is None else 3, len(times) - 1, times[-1]
    rows, velocity, acceleration = (None if part is None else torch.from_numpy(part[None]) for part in states)
    given = {"order": order, "dt": torch.from_numpy(np.diff(times)), "velocity": velocity, "acceleration": acceleration}

    def solved(lasting: float) -> Retimed:
        # Whole numbers, because solutions change with the places where segments begin.
        each = finer * round(lasting / _INTERVAL_S[order] / pieces)
        each = max(1, min(each, _MOST_INTERVALS // pieces))
        intervals = max(_FEWEST_INTERVALS, each * pieces)
        return retime(rows, limits, mode="slow only", intervals=intervals, start_speed=rate, **given)

    found = solved(duration)
    lasts = float(found.row_times[0, -1])
    if not found.ok[0] or not _SLOWER * duration < lasts <= _MOST_SLOWED * duration:
        return found
    again = solved(lasts)
    return again if again.ok[0] else found


def _tensors(limits: np.ndarray) -> MotionLimits:
    velocity, acceleration, jerk = torch.from_numpy(limits * _BELOW)
    return MotionLimits(velocity=velocity, acceleration=acceleration, jerk=jerk)
