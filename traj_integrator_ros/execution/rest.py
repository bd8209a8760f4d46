"""What is left of a motion's velocity at its end, taken away."""

from __future__ import annotations

import numpy as np

from .motion import Motion, raised, taylor_shift


def brought_to_rest(motion: Motion, within: float) -> Motion:
    """The motion with velocity and acceleration of its end taken away over its last seconds; where it ends stays.

    A quintic grows towards the end, and a cubic that leaves the acceleration where points carry none: the controller
    repeats both exactly.

    Args:
        motion: one that ends slowly.
        within: s; counted from the last knot that is so far from the end, or from the start.

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
