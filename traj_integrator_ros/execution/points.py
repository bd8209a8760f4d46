"""From a motion to the points of a message, and back to the motion that a controller interpolates; one kind of both."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native
from .motion import Motion, powers_of

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
_FINE_S = 2e-3
"""Length of cubics that stand for quintics: their accelerations differ by less than 1e-4 of a fade's."""
_JUMP_NS = 1_000
"""In which an acceleration jumps, where points have accelerations."""
_NO_JUMP = 1e-6
"""Difference of accelerations, rad/s^2, that is rounding."""
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
    native.points(motion.coefficients, motion.knots, _RULES, ends_pieces, rests, time_ns, state)
    position, velocity, acceleration = state
    return Points(time_ns, position, velocity, acceleration if motion.with_accelerations else None)


def motion_of_points(points: Points) -> Motion:
    """The motion that a controller commands between points: quintic, cubic or linear, by what the points have."""
    knots = points.time_ns * 1e-9
    h = np.diff(points.time_ns)[:, None] * 1e-9
    p0, p1 = points.position[:-1], points.position[1:]
    if points.velocity is None:
        return Motion(knots - knots[0], powers_of([p0, (p1 - p0) / h]), with_accelerations=False)
    v0, v1 = points.velocity[:-1], points.velocity[1:]
    if points.acceleration is None:
        p, v = (p1 - p0 - v0 * h) / h**2, (v1 - v0) / h
        return Motion(knots - knots[0], powers_of([p0, v0, 3 * p - v, (v - 2 * p) / h]), with_accelerations=False)
    a0, a1 = points.acceleration[:-1], points.acceleration[1:]
    p = (p1 - p0 - v0 * h - a0 * h**2 / 2) / h**3
    v, a = (v1 - v0 - a0 * h) / h**2, (a1 - a0) / h / 2
    quintic = [p0, v0, a0 / 2, 10 * p - 4 * v + a, (-15 * p + 7 * v - 2 * a) / h, (6 * p - 3 * v + a) / h**2]
    return Motion(knots - knots[0], powers_of(quintic))


def continued(before: Motion, motion: Motion) -> Motion:
    """One motion after the other; both have the same kind of points afterwards."""
    if before.with_accelerations != motion.with_accelerations:
        before = _with_jumps(before) if motion.with_accelerations else _as_cubics(before)
    return before.then(motion)


def _as_cubics(motion: Motion) -> Motion:
    """A motion as cubics through positions and velocities."""
    count = max(int(np.ceil(motion.duration / _FINE_S)), 1)
    knots = np.unique(np.concatenate([motion.knots, np.linspace(0.0, motion.duration, count + 1)]))
    knots = np.append(knots[:-1][np.diff(knots) > 1e-6], motion.duration)
    times = np.rint(knots * 1e9).astype(np.int64)
    states = motion.states_at(np.minimum(knots, motion.duration * (1 - 1e-12)))
    end = motion.end
    states[0, -1], states[1, -1] = end.position, end.velocity
    return motion_of_points(Points(times, states[0], states[1], None))._replace(ends_at_rest=motion.ends_at_rest)


def _with_jumps(motion: Motion) -> Motion:
    """A motion of held accelerations with accelerations in its points: where one jumps, it does so in a microsecond."""
    points = points_of(motion._replace(with_accelerations=True))
    before = motion.states_at(np.nextafter(motion.knots[1:-1], 0.0))[2]
    jumps = (np.abs(points.acceleration[1:-1] - before) > _NO_JUMP).any(axis=1)
    has_room = np.diff(points.time_ns)[:-1] > 2 * _JUMP_NS  # a shorter piece has its acceleration change on all of it
    inner = 1 + np.flatnonzero(jumps & has_room)
    early_ns = points.time_ns[inner] - _JUMP_NS
    states = motion.states_at(early_ns * 1e-9)
    both = [np.insert(part, inner, states[order], axis=0) for order, part in enumerate(points[1:])]
    times = np.insert(points.time_ns, inner, early_ns)
    return motion_of_points(Points(times, *both))._replace(ends_at_rest=motion.ends_at_rest)
