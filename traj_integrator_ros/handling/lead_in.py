"""What the robot does until a new plan is taken up, put before it: one motion, one kind of points. Knows no ROS."""

from __future__ import annotations

import numpy as np

from ..execution.motion import Motion
from ..execution.points import Points, motion_of_points, points_of

_FINE_S = 2e-3
"""Length of cubics that stand for quintics: their accelerations differ by less than 1e-4 of a fade's."""
_JUMP_NS = 1_000
"""In which an acceleration jumps, where points have accelerations."""
_NO_JUMP = 1e-6
"""Difference of accelerations, rad/s^2, that is rounding."""


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
