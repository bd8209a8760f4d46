"""The motion through positions that begins in a state and comes to rest at the last position without passing it."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import native
from .limits import POSITION_ROUNDING, extremes, extremes_of_pieces
from .motion import Motion, State
from .polynomials import between, powers_of
from .rows import Points, knots_of, motion_of_points
from .tolerances import ROUNDING, SECOND_NS

_FADE_S = 0.2
"""Longest time, s, over which the acceleration at an end is blended out."""
_FADES = 3, 6, 12, 24
"""Numbers of steps over which the accelerations at both ends are blended out: the first that keeps the jerk limit."""
_BETWEEN_ROWS_RAD = 1e-3
"""Largest distance, rad or m, by which a motion may swing beyond its outermost row if it turns between two rows."""
_TURNS = 1.25
"""Factor on the distance by which a parabola through three rows passes the outermost one: a sine with six rows in a
period passes it by that much more.
"""
_OF_MEAN = 1.25
"""Largest velocity at a row, as a multiple of the mean velocities beside it, with which no quintic without acceleration
at its ends leads beyond them: its inner control points stay in order.
"""


def through_to_rest(steps: np.ndarray, rows: np.ndarray, begin: State, jerk: np.ndarray) -> Motion:
    """Return the C2 spline through rows that begins in a state and ends at rest at the last row.

    A joint whose last rows are equal rests from the first of these on. No joint swings beyond its outermost row, except
    as far as the motion that was sampled may turn between two rows. Where the spline would swing further, the joint is
    slower at the rows beside.

    Args:
        steps: time between the rows, s, positive: `[N]`.
        rows: `[N + 1, D]`, rad.
        begin: velocity and acceleration at the first row.
        jerk: limit, rad/s^3, `[D]`, which slower blends keep if possible.

    """
    each = powers_of([rows[1:]])  # at rest
    for joint, (row, most) in enumerate(zip(rows.T, jerk, strict=True)):
        away = np.flatnonzero(row != row[-1])
        count = int(away[-1]) + 1 if len(away) else len(steps)
        own = row[: count + 1, None]
        spline = clamped_spline(steps[:count], own, begin.of(joint).velocity)
        for fade in _FADES:
            motion = _faded(spline, begin.of(joint), fade)
            if (np.abs(extremes(motion)[:, 3]) <= most).all():
                break
        each[:count, :, joint] = _within(motion, steps[:count], own)[:, :, 0]
    return Motion(knots_of(steps), each, ends_at_rest=True)


def clamped_spline(steps: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray | None = None) -> Motion:
    """Return the C2 cubic spline through rows `[N + 1, D]` with velocities at its ends, `[D]`; None: it rests there."""
    knots, velocities = knots_of(steps), np.empty(rows.shape)
    given = (np.ascontiguousarray(part) for part in (rows, begin, np.zeros_like(begin) if end is None else end))
    native.spline(knots, *given, velocities)
    return Motion(knots, between(steps, np.stack([rows, velocities])), ends_at_rest=end is None)


def played(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray | None = None) -> Motion:
    """Return what a controller interpolates between rows, at rest after the last one; each `[N + 1, D]`."""
    time_ns = np.concatenate([[0], np.rint(steps.cumsum() * SECOND_NS).astype(np.int64)])
    return motion_of_points(Points(time_ns, rows, velocity, acceleration))._replace(ends_at_rest=True)


def with_all_velocities(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return velocities at all rows `[N + 1, D]`, rad/s, given those at some of them, the ends included (else NaN).

    Between two rows with velocities they are those of the C2 spline that begins and ends with these velocities. If a
    joint would swing beyond its outermost row with these, they are so slow that they do not cause it.
    """
    free, whole = np.isnan(velocity).any(axis=1), velocity.copy()
    for first, last in pairwise(np.flatnonzero(~free).tolist()):
        if last - first > 1:
            part = clamped_spline(steps[first:last], rows[first : last + 1], velocity[first], velocity[last])
            whole[first + 1 : last] = part.states[1, 1:-1]
    motion = played(steps, rows, whole)
    swing = np.array([_swings(motion.of(joint), rows[:, joint : joint + 1]).any() for joint in range(rows.shape[1])])
    return np.where(free[:, None] & swing, _slower(steps, rows, whole), whole)


def _faded(spline: Motion, begin: State, fade: int) -> Motion:
    """Blend out the accelerations at both ends of a spline, so that it ends at rest."""
    knots, at_begin, at_end = spline.knots, np.zeros((3, 2, spline.dof)), np.zeros((3, 2, spline.dof))
    at_begin[2, 0] = begin.known.acceleration - spline.begin.acceleration
    started = spline.corrected(at_begin, 0.0, _fade_span(knots, fade))
    at_end[2, 1] = -started.end.acceleration
    span = _fade_span(knots[-1] - knots[::-1], fade)
    return started.corrected(at_end, knots[-1] - span)._replace(ends_at_rest=True)


def _fade_span(knots: np.ndarray, fade: int) -> float:
    """Return the duration of a blend from 0, s: some steps within a time, or else one, so that no row moves."""
    within = int(knots.searchsorted(_FADE_S * (1 + ROUNDING), side="right")) - 1
    return float(knots[min(max(within, 1), fade, len(knots) - 1)])


def _within(motion: Motion, steps: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Return coefficients of one joint that is slower at rows `[N + 1, 1]` beside which it swings beyond them."""
    slowed, coefficients = np.zeros(len(rows), bool), motion.coefficients
    states = motion.states
    while True:
        if slowed.any():
            chosen = slowed[:, None]
            velocity = np.where(chosen, _slower(steps, rows, states[1]), states[1])
            acceleration = np.where(chosen, 0.0, states[2])
            coefficients = between(steps, np.stack([rows, velocity, acceleration]))
        swinging = _swings(motion._replace(coefficients=coefficients), rows)
        beside = (np.append(swinging, False) | np.append(False, swinging)) & ~slowed
        if not beside[1:-1].any():
            return coefficients
        slowed[1:-1] |= beside[1:-1]


def _slower(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return velocities at rows, `[N + 1, D]`, at which joints do not turn between them: 0 where they turn at one."""
    mean = np.diff(rows, axis=0) / steps[:, None]
    before, after = np.vstack([mean[:1], mean]), np.vstack([mean, mean[-1:]])
    low = _OF_MEAN * np.minimum(np.maximum(before, after), 0.0)
    high = _OF_MEAN * np.maximum(np.minimum(before, after), 0.0)
    return np.clip(velocity, low, high)


def _swings(motion: Motion, rows: np.ndarray) -> np.ndarray:
    """Return which segments of one joint lead beyond its outermost rows, `[N + 1, 1]`: bool `[N]`."""
    low, high = rows.min() - _turn(rows, np.argmin(rows)), rows.max() + _turn(rows, np.argmax(rows))
    least, most = extremes_of_pieces(motion)[:, :, 0, 0]
    return (least < low) | (most > high)


def _turn(rows: np.ndarray, place: int) -> float:
    """Return how far a joint may swing beyond a row, rad: as the parabola through three rows, if that is little."""
    if not 0 < place < len(rows) - 1:
        return POSITION_ROUNDING
    bend = _TURNS * abs(rows[place - 1, 0] - 2 * rows[place, 0] + rows[place + 1, 0]) / 8
    return bend if bend <= _BETWEEN_ROWS_RAD else POSITION_ROUNDING
