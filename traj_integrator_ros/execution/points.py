"""From a motion to the points of a message, and back to the motion that a controller interpolates."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native
from .motion import Motion, shifted

_NANOSECONDS = 1e9
_ROUNDING = 5e-3
"""Last acceleration of a motion that ends at rest, rad/s^2, which is of rounding and of knots that became one."""
_NOTHING = 1e-12
"""Velocities and accelerations, rad/s and rad/s^2, that are what sums leave of 0."""
_SHORT_S = 1e-2
"""Length of a piece, s, in which a jump of an acceleration would show."""
_SHORTER = 0.9
"""Share of the next piece's length up to which a piece is shorter: equal steps differ by rounding."""
_NO_TIME = 1e-14
"""Rounding of times, s, that has no visible effect."""
_RULES = np.array([_NO_TIME, _SHORT_S, _SHORTER, _NOTHING, _ROUNDING])


class Points(NamedTuple):
    """Points of a trajectory, float64 `[N, D]` each."""

    time_ns: np.ndarray
    """Times from its start, ns, int64 `[N]`, increasing; must not be changed."""
    position: np.ndarray
    velocity: np.ndarray | None
    acceleration: np.ndarray | None


def points_of(motion: Motion) -> Points:
    """The points of a motion, one at each knot, with the state at the nearest whole nanosecond.

    Between them joint_trajectory_controller reproduces the motion, up to rounding, if its degree is at most 5 (3
    without accelerations). The last point has the state in which the last piece ends.
    """
    time_ns, state = np.empty(len(motion.knots), np.int64), np.empty((3, len(motion.knots), motion.dof))
    ends_pieces, rests = motion.with_accelerations and motion.degree > 1, motion.ends_at_rest
    if not native.points(motion.coefficients, motion.knots, _RULES, ends_pieces, rests, time_ns, state):
        time_ns[:] = np.rint(motion.knots * _NANOSECONDS)
        whole = time_ns * 1e-9
        times = np.where(np.abs(whole - motion.knots) > _NO_TIME, whole, motion.knots)
        state[:] = motion.states_at(times, 3)
        state[:, -1] = motion.end
        if ends_pieces:
            _end_short_pieces(motion, times, state)
        rates = state[1:]
        rates[np.abs(rates) < _NOTHING] = 0.0
        if rests:
            state[2, -1, np.abs(state[2, -1]) < _ROUNDING] = 0.0
    position, velocity, acceleration = state
    return Points(time_ns, position, velocity, acceleration if motion.with_accelerations else None)


def _end_short_pieces(motion: Motion, times: np.ndarray, state: np.ndarray) -> None:
    """Give points after short pieces, before longer ones, the states in which these end: `[3, N, D]`, in place.

    Where knots became one (`tracks.united`), an acceleration jumps by as much as a change of jerk was moved. Between
    points the longer piece leads there: its jerk changes by 9 times the jump over its length.
    """
    steps = motion.steps
    for knot in (np.flatnonzero((steps[:-1] < _SHORT_S) & (steps[:-1] < _SHORTER * steps[1:])) + 1).tolist():
        by = times[knot] - motion.knots[knot - 1]
        position, velocity, half = shifted(motion.coefficients[knot - 1], by)[:3]
        state[:, knot] = position, velocity, 2 * half


def motion_of_points(points: Points) -> Motion:
    """The motion that a controller commands between points: quintic, cubic or linear, by what the points have."""
    knots = points.time_ns * 1e-9
    h = np.diff(points.time_ns)[:, None] * 1e-9
    p0, p1 = points.position[:-1], points.position[1:]
    if points.velocity is None:
        return Motion(knots - knots[0], np.stack([p0, (p1 - p0) / h], axis=1), with_accelerations=False)
    v0, v1 = points.velocity[:-1], points.velocity[1:]
    if points.acceleration is None:
        p, v = (p1 - p0 - v0 * h) / h**2, (v1 - v0) / h
        return Motion(
            knots - knots[0], np.stack([p0, v0, 3 * p - v, (v - 2 * p) / h], axis=1), with_accelerations=False
        )
    a0, a1 = points.acceleration[:-1], points.acceleration[1:]
    p = (p1 - p0 - v0 * h - a0 * h**2 / 2) / h**3
    v, a = (v1 - v0 - a0 * h) / h**2, (a1 - a0) / h / 2
    quintic = [p0, v0, a0 / 2, 10 * p - 4 * v + a, (-15 * p + 7 * v - 2 * a) / h, (6 * p - 3 * v + a) / h**2]
    return Motion(knots - knots[0], np.stack(quintic, axis=1))
