"""Differences in acceleration at the ends of a motion, which fade to 0 as quintics."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from .motion import Motion, raised, taylor_shift

_STEPS = 3
"""Number of steps in which an acceleration difference fades: with fewer, jerk is larger and a step of the first row
overshoots more; with more than 4, a motion that is replaced repeatedly drifts further and further from its plans.
"""
_SHORT = 0.8
"""Share of the fade's time below which the next knot is the better end."""
_SAME_TIME = 1e-9
"""Rounding of times, s."""


def taken_up(motion: Motion, acceleration: np.ndarray, fade_time: float) -> Motion:
    """Return the motion begun with an acceleration `[D]`: the difference from its own fades to 0, in three steps.

    Args:
        motion: the motion to follow; one without accelerations in its points stays as it is.
        acceleration: rad/s^2.
        fade_time: s, within which the fade ends, at a knot, at the earliest one step from the start; 0: none.

    """
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    ends = _possible_ends(motion.knots, fade_time)
    span = ends[min(_STEPS, len(ends)) - 1]
    fade = _acceleration_quintic(acceleration - motion.begin.acceleration, span)
    touched = slice(0, bisect_left(motion.knots, span - _SAME_TIME))
    return _with_fade(motion, touched, taylor_shift(motion.knots[touched], 5) @ fade)


def settle(motion: Motion, fade_time: float, steps: int = _STEPS) -> Motion:
    """Return a motion that ends at rest with its last acceleration removed by a fade, as by `taken_up` in reverse."""
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    to_end = motion.knots[-1] - motion.knots
    ends = _possible_ends(to_end[::-1], fade_time)
    span = ends[min(steps, len(ends)) - 1]
    touched = slice(bisect_left(motion.knots, motion.duration - span - _SAME_TIME), len(motion.coefficients))
    fade = _acceleration_quintic(-motion.end.acceleration, span)
    return _with_fade(motion, touched, (taylor_shift(to_end[touched], 5) * _ALTERNATING) @ fade)


def _possible_ends(knots: np.ndarray, fade_time: float) -> np.ndarray:
    """Knots at which a fade may end, s from where it begins: within `fade_time`, and not before a full step.

    If the last of them is much shorter than `fade_time`, the next one, which is longer, is possible, too.
    """
    last = max(int(np.searchsorted(knots, fade_time * (1 + 1e-9), side="right")), 2)
    if last < len(knots) and knots[last - 1] < _SHORT * fade_time:
        last += 1
    first = 2 if len(knots) > 2 and knots[1] < 0.9 * (knots[2] - knots[1]) else 1
    return knots[first : max(last, first + 1)]


def _acceleration_quintic(a: np.ndarray, span: float) -> np.ndarray:
    """Coefficients `[6, D]` of a t^2 (1 - t/span)^3 / 2."""
    half, rate, zero = a / 2, 1 / span, np.zeros_like(a)
    return np.array([zero, zero, half, -3 * half * rate, 3 * half * rate**2, -half * rate**3])


def _with_fade(motion: Motion, touched: slice, fade: np.ndarray) -> Motion:
    """The motion with a fade added to some of its pieces."""
    total = raised(motion.coefficients, 5)
    total = total.copy() if total is motion.coefficients else total
    total[touched] += fade
    return Motion(motion.knots, total, True, motion.ends_at_rest)


_ALTERNATING = ((-1.0) ** np.arange(6))[:, None]
