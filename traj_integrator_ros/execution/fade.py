"""Differences in position, velocity and acceleration that are added to a motion and fade to 0 as quintics."""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from .motion import Motion, State, raised, taylor_shift

_STEPS = 3
"""Number of steps in which an acceleration difference fades: with fewer, jerk is larger and a step of the first row
overshoots more; with more than 4, a motion that is replaced repeatedly drifts further and further from its plans.
"""
_SHORT = 0.8
"""Share of the fade's time below which the next knot is the better end."""
_SAME_TIME = 1e-9
"""Rounding of times, s."""


def join(motion: Motion, state: State, fade_time: float) -> Motion:
    """Return the motion begun from `state`: its difference from that at the start fades to 0, so that the seam is C2.

    Position and velocity fade within `fade_time`. If they are the motion's own, as for a plan made from this state,
    acceleration fades in three steps, since its fade leads away from the rows by 0.017 T^2 times the difference.
    Otherwise each joint takes T^2 = fade_time^2 a / difference for it, where a is the state's acceleration: long if the
    plan is smooth, three steps if it begins with a step or with noise, but at most fade_time. All fades end at a knot,
    at the earliest one step from the start.

    A motion without accelerations in its points takes over position and velocity, as cubic pieces.

    Args:
        motion: the motion to follow.
        state: the robot's state when the motion starts; an unknown acceleration counts as the motion's.
        fade_time: s; 0: nothing is carried over.

    Returns:
        A motion that equals `motion` once all differences have faded.

    """
    if fade_time <= 0:
        return motion
    begin = motion.begin
    lack_p, lack_v = state.position - begin.position, state.velocity - begin.velocity
    if not (lack_p.any() or lack_v.any()):
        return motion if state.acceleration is None else taken_up(motion, state.acceleration, fade_time)
    ends = _possible_ends(motion.knots, fade_time)
    parts = [(_quintic(lack_p, lack_v, float(ends[-1])), ends[-1])]
    if state.acceleration is not None and motion.with_accelerations:
        lack = state.acceleration - begin.acceleration
        carried = fade_time**2 * np.abs(state.acceleration)
        reached = (ends[1:, None] ** 2 * np.abs(lack) <= carried * (1 + 1e-9)).sum(axis=0)
        span = ends[np.maximum(reached, min(_STEPS, len(ends)) - 1)]
        parts.append((_acceleration_quintic(lack, span), span))
    touched = slice(0, bisect_left(motion.knots, ends[-1] - _SAME_TIME))
    return _with_fades(motion, parts, touched, motion.knots[touched], sign=1.0)


def taken_up(motion: Motion, acceleration: np.ndarray, fade_time: float) -> Motion:
    """Like `join`, for a state that has the motion's own position and velocity, and an acceleration `[D]`."""
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    ends = _possible_ends(motion.knots, fade_time)
    span = ends[min(_STEPS, len(ends)) - 1]
    part = _acceleration_quintic(acceleration - motion.begin.acceleration, span), span
    touched = slice(0, bisect_left(motion.knots, span - _SAME_TIME))
    return _with_fades(motion, [part], touched, motion.knots[touched], sign=1.0)


def settle(motion: Motion, fade_time: float) -> Motion:
    """Return a motion that ends at rest with its last acceleration removed by a fade, as by `join` in reverse."""
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    to_end = motion.knots[-1] - motion.knots
    ends = _possible_ends(to_end[::-1], fade_time)
    span = ends[min(_STEPS, len(ends)) - 1]
    touched = slice(bisect_left(motion.knots, motion.duration - span - _SAME_TIME), len(motion.coefficients))
    part = _acceleration_quintic(-motion.end.acceleration, span), span
    return _with_fades(motion, [part], touched, to_end[touched], sign=-1.0)


def _possible_ends(knots: np.ndarray, fade_time: float) -> np.ndarray:
    """Knots at which a fade may end, s from where it begins: within `fade_time`, and not before a full step.

    If the last of them is much shorter than `fade_time`, the next one, which is longer, is possible, too.
    """
    last = max(int(np.searchsorted(knots, fade_time * (1 + 1e-9), side="right")), 2)
    if last < len(knots) and knots[last - 1] < _SHORT * fade_time:
        last += 1
    first = 2 if len(knots) > 2 and knots[1] < 0.9 * (knots[2] - knots[1]) else 1
    return knots[first : max(last, first + 1)]


def _quintic(p: np.ndarray, v: np.ndarray, span: float) -> np.ndarray:
    """Coefficients `[6, D]` of a quintic from position p and velocity v to 0 with velocity and acceleration 0."""
    q, w = p / span**3, v / span**2
    zero = np.zeros_like(p)
    return np.array([p, v, zero, -10 * q - 6 * w, (15 * q + 8 * w) / span, (-6 * q - 3 * w) / span**2])


def _acceleration_quintic(a: np.ndarray, span: np.ndarray | float) -> np.ndarray:
    """Coefficients `[6, D]` of a t^2 (1 - t/span)^3 / 2."""
    half, rate, zero = a / 2, 1 / span, np.zeros_like(a)
    return np.array([zero, zero, half, -3 * half * rate, 3 * half * rate**2, -half * rate**3])


def _with_fades(
    motion: Motion,
    parts: list[tuple[np.ndarray, np.ndarray]],
    touched: slice,
    times: np.ndarray,
    *,
    sign: float,
) -> Motion:
    """The sum of the motion and some fading polynomials.

    Args:
        motion: to which they are added.
        parts: coefficients `[6, D]` and span, s, `[D]` or a scalar, of each polynomial.
        touched: pieces that any of them affects.
        times: when these pieces begin in the time of the fades, s.
        sign: -1 if that time runs backwards.

    """
    shift = taylor_shift(times, 5)
    if sign < 0:
        shift = shift * _ALTERNATING
    added = 0.0
    for coefficients, span in parts:
        active = times[:, None] < span + _SAME_TIME * -sign
        added = added + (shift @ coefficients) * active[:, None]
    if not motion.with_accelerations:
        return _as_cubics(motion, added, touched)
    total = raised(motion.coefficients, 5)
    total = total.copy() if total is motion.coefficients else total
    total[touched] += added
    return Motion(motion.knots, total, True, motion.ends_at_rest)


_ALTERNATING = ((-1.0) ** np.arange(6))[:, None]


def _as_cubics(motion: Motion, added: np.ndarray, touched: slice) -> Motion:
    """The same sum, with cubics through the positions and velocities at the knots instead of the polynomials."""
    h = motion.steps[touched, None]
    p0, v0 = added[:, 0], added[:, 1]
    p = sum(added[:, k] * h**k for k in range(6))
    v = sum(k * added[:, k] * h ** (k - 1) for k in range(1, 6))
    secant = (p - p0) / h
    bend = (v0 + v - 2 * secant) / h
    total = raised(motion.coefficients, 3).copy()
    total[touched] += np.stack([p0, v0, (secant - v0) / h - bend, bend / h], axis=1)
    return Motion(motion.knots, total, False, motion.ends_at_rest)
