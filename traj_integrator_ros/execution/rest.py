"""Removes a small remaining velocity at the end of a motion."""

from __future__ import annotations

import numpy as np

from .motion import Motion, raised, taylor_shift


def brought_to_rest(motion: Motion, within: float) -> Motion:
    """Return the motion with the velocity and acceleration of its end removed; its last position stays the same.

    What is added is a quintic or, where points have no accelerations, a cubic that leaves the acceleration as it is:
    the controller reproduces both exactly.

    Args:
        motion: one that ends with a small velocity.
        within: s; the correction begins at the last knot that is at least this far from the end, or at the start.

    """
    first = int(np.searchsorted(motion.knots, motion.duration - within, side="right")) - 1
    first = min(max(first, 0), len(motion.coefficients) - 1)
    span = motion.duration - float(motion.knots[first])
    v, a = motion.end.velocity, motion.end.acceleration
    zero = np.zeros_like(v)
    if motion.with_accelerations:
        s, w = v / span**2, a / span
        growing = [zero, zero, zero, 4 * s - w / 2, (-7 * s + w) / span, (3 * s - w / 2) / span**2]
    else:
        growing = [zero, zero, v / span, -v / span**2]
    degree = len(growing) - 1
    shift = taylor_shift(motion.knots[first:-1] - motion.knots[first], degree)
    total = raised(motion.coefficients, degree).copy()
    total[first:, : degree + 1] += shift @ np.array(growing)
    return Motion(motion.knots, total, motion.with_accelerations, ends_at_rest=True)
