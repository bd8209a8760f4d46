"""Motions whose times follow from limits: the fastest motion along a path, and slowed plans. No ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..execution.motion import Motion, resting
from ..execution.rows import points_of
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
_LEAST_STEP_NS = whole_ns(MOMENT_S)
_SAME_ACCELERATION = 1e-3
"""Smallest difference of accelerations that counts, rad/s^2."""
_ATTEMPTS = (1.0, 1), (0.8, 1), (0.0, 1), (0.0, 4), (0.0, 12)
"""Shares of the largest possible rate at the start, and factors on the number of intervals, which are tried in this
order: where accelerations jump, a solution may be found on fine intervals only.
"""
_LEADS_S = 0.4
"""Time, s, for which a motion after a brake is slow: 0.1 rad at 0.25 rad/s."""
_SAME_PACE = 0.02
"""Share by which such a motion may exceed its pace without being slowed."""
_NO_LIMIT = 1e6
"""Acceleration, rad/s^2, and jerk, rad/s^3, that stand for no limit."""
_BELOW = 1 - 1e-7
"""Factor on the limits, which keeps rounding errors within them."""


class Timed(NamedTuple):
    """The motion along a path."""

    motion: Motion
    why_slow: str = ""
    """Why the motion is slower than usual; empty if it is not."""
    times: np.ndarray | None = None
    """Times of the waypoints, s, `[N]`, or of `marks`."""


def fastest(rows: np.ndarray, limits: np.ndarray, joint_names: Sequence[str]) -> Timed:
    """Return the fastest motion along a path, from rest to rest.

    Args:
        rows: waypoints, rad, `[N, dof]`.
        limits: velocity, acceleration and jerk, `[3, dof]`.
        joint_names: for errors.

    Raises:
        Rejected: limits_violated, if no motion within limits is found.

    """
    if (rows == rows[0]).all():
        return Timed(resting(rows[-1], MOMENT_S), times=np.zeros(len(rows)))
    found = retime(torch.from_numpy(rows[None]), _tensors(limits))
    reason = found.reason(0, joint_names)
    if not bool(found.ok[0]):
        raise Rejected(
            RejectionReason.LIMITS, f"points: expected a path that can be passed within limits, but {reason}"
        )
    return Timed(motion_of(found, 0), reason, found.row_times[0].numpy())


def slow(
    motion: Motion,
    limits: np.ndarray,
    joint_names: Sequence[str] = (),
    *,
    from_state: bool = False,
    marks: Sequence[float] = (),
) -> Timed | str:
    """Slow a motion along its path where it exceeds limits, and only there.

    Args:
        motion: if it ends in motion, its velocity at the end is kept.
        limits: velocity, acceleration and jerk, `[3, dof]`; a jump of acceleration counts as no jerk.
        joint_names: for the reason.
        from_state: whether the slowed motion has to begin at the same velocity; otherwise as fast as limits allow.
        marks: times of the motion, s.

    Returns:
        The slowed motion, and its times at the marks, or the reason if none is found.

    """
    points = points_of(motion)
    order = 3 if motion.with_accelerations else 2
    kept = _apart(points.time_ns)
    before = points.time_ns[kept] * NANOSECOND_S
    p, v, a = (None if x is None else torch.from_numpy(x[kept][None]) for x in points[1:])
    if bool((p == p[:, :1]).all()):
        return "the plan stands still"
    given = {"order": order, "dt": torch.from_numpy(np.diff(before)), "velocity": v, "acceleration": a}
    largest, reason = 1.0, ""
    for share, finer in _ATTEMPTS:
        found = _slower(p, _tensors(limits), before[-1], share * largest, finer, given)
        if bool(found.ok[0]) and float(found.row_times[0, -1]) <= _MOST_SLOWED * before[-1]:
            made = motion_of(found, 0, order)
            gap = np.abs(made.begin.acceleration - motion.begin.acceleration).max()
            if from_state and order == 3 and gap > _SAME_ACCELERATION:
                return ""  # All joints turned at once where the motion was to be continued.
            until, times = motion.plan_until, found.row_times[0].numpy()
            if until <= before[-1]:
                until = float(np.interp(until, before, times))
            made = made._replace(ends_at_rest=motion.ends_at_rest, plan_until=until)
            return Timed(made, times=np.interp(marks, before, times))
        reason = reason or found.reason(0, joint_names) or "it would stand still"
        if from_state:
            break
        largest = min(largest, float(found.largest_start_speed[0]))
    return reason


def gently(
    motion: Motion, stopped: np.ndarray, pace: np.ndarray, limits: np.ndarray, marks: Sequence[float] = ()
) -> Timed | str:
    """Slow the beginning of a motion after a brake, where joints move on in the direction in which they were stopped.

    Args:
        motion: from a state that keeps the pace.
        stopped: the directions in which joints were stopped, -1, 0 or 1, `[dof]`.
        pace: largest speed in that direction, rad/s, `[dof]`, over as far as the joint goes at it in 0.4 s.
        limits: velocity, acceleration and jerk, `[3, dof]`.
        marks: times of the motion, s.

    Returns:
        The slowed motion, or the same motion if it is slow enough, and its times at the marks, or the reason if none
        is found.

    """
    knots = np.stack([motion.states_at(motion.knots, 2)[order] for order in (0, 1)])
    led = np.maximum.accumulate(stopped * (knots[0] - knots[0, 0]))
    speeds = np.maximum(stopped * knots[1], 0.0)
    first = (np.maximum(speeds[:-1], speeds[1:]) > 0) & (led[:-1] < _LEADS_S * pace)
    fast = first & (np.maximum(speeds[:-1], speeds[1:]) > pace * (1 + _SAME_PACE))
    joints = np.flatnonzero(fast.any(axis=0))
    if not len(joints):
        return Timed(motion, times=np.asarray(marks, float))
    # The pace is a limit of velocity of additional joints, which copy these joints there and rest elsewhere.
    more = motion.coefficients[..., joints] * first[:, None, joints]
    steps = np.diff(knots[0], axis=0)[:, joints] * first[:, joints]
    more[:, 0] = np.vstack([np.zeros(len(joints)), steps.cumsum(axis=0)[:-1]])
    coefficients = np.concatenate([motion.coefficients, more], axis=2)
    wider = np.vstack([pace[joints], np.full((2, len(joints)), _NO_LIMIT)])
    moves = bool(np.abs(motion.begin.velocity).any())
    wider = np.hstack([limits, wider])
    found = slow(motion._replace(coefficients=coefficients), wider, from_state=moves, marks=marks)
    if isinstance(found, str):
        return found
    own = np.ascontiguousarray(found.motion.coefficients[..., : motion.dof])
    return found._replace(motion=found.motion._replace(coefficients=own))


def _slower(rows: Tensor, limits: MotionLimits, duration: float, rate: float, finer: int, given: dict) -> Retimed:
    """Slow a plan `[1, N, dof]` of a duration, s, on `finer` times the intervals that its slowed form needs."""
    pieces = rows.shape[1] - 1

    def solved(lasting: float) -> Retimed:
        # Whole numbers, because solutions change with the places where segments begin.
        each = round(lasting / _INTERVAL_S[given["order"]] / pieces)
        each = max(1, min(finer * each, _MOST_INTERVALS // pieces))
        intervals = max(_FEWEST_INTERVALS, each * pieces)
        return retime(rows, limits, mode="slow only", intervals=intervals, start_speed=rate, **given)

    found = solved(duration)
    lasts = float(found.row_times[0, -1])
    if not found.ok[0] or not _SLOWER * duration < lasts <= _MOST_SLOWED * duration:
        return found
    again = solved(lasts)
    return again if again.ok[0] else found


def _apart(time_ns: np.ndarray) -> np.ndarray:
    """Choose points that are at least a millisecond apart, the first and the last among them; bool `[N]`."""
    kept, last = np.zeros(len(time_ns), bool), time_ns[0] - _LEAST_STEP_NS
    for index, time in enumerate(time_ns[:-1].tolist()):
        if time - last >= _LEAST_STEP_NS and time_ns[-1] - time >= _LEAST_STEP_NS:
            kept[index], last = True, time
    kept[0] = kept[-1] = True
    return kept


def _tensors(limits: np.ndarray) -> MotionLimits:
    velocity, acceleration, jerk = torch.from_numpy(limits * _BELOW)
    return MotionLimits(velocity=velocity, acceleration=acceleration, jerk=jerk)
