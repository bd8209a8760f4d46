"""The motion that a controller makes of points, at rest at the last one; splines give the rates that points lack."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from . import native
from .limits import POSITION_ROUNDING, extremes_of_pieces
from .motion import Motion
from .polynomials import between
from .rows import Points, knots_of, motion_of_points
from .tolerances import SECOND_NS

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


def played(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray | None = None) -> Motion:
    """Return what a controller interpolates between points, at rest after the last one: cubics, or else quintics.

    Between two rows with velocities, the others have those of the C2 spline that begins and ends with these. A joint
    whose last rows are equal rests from the first of these on. No joint swings beyond its outermost row because of such
    velocities, except as far as the motion that was sampled may turn between two rows: where it would, it is slower.

    Args:
        steps: time between the rows, s, positive: `[N]`.
        rows: `[N + 1, D]`, rad.
        velocity: rad/s, in the same form; NaN where there is none, except at both ends.
        acceleration: rad/s^2; NaN where it is that of the cubics: the smaller one of both sides, or 0 if signs differ.

    """
    time_ns = np.concatenate([[0], np.rint(steps.cumsum() * SECOND_NS).astype(np.int64)])
    whole = np.stack([_velocities(steps, *one) for one in zip(rows.T, velocity.T, strict=True)], axis=1)
    motion = motion_of_points(Points(time_ns, rows, whole, None))._replace(ends_at_rest=True)
    if acceleration is None:
        return motion
    after, jerk = 2 * motion.coefficients[:, 2], 6 * motion.coefficients[:, 3]
    left, right = (after + jerk * motion.steps[:, None])[:-1], after[1:]
    smaller = np.where(left * right > 0, np.where(np.abs(left) < np.abs(right), left, right), 0.0)
    inner = np.where(np.isnan(acceleration[1:-1]), smaller, acceleration[1:-1])
    acceleration = np.concatenate([acceleration[:1], inner, acceleration[-1:]])
    return motion_of_points(Points(time_ns, rows, whole, acceleration))._replace(ends_at_rest=True)


def _velocities(steps: np.ndarray, row: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return velocities of one joint at all its rows, `[N + 1]`, given those at some of them (else NaN)."""
    free, rows = np.isnan(velocity), np.ascontiguousarray(row[:, None])
    if not free.any():
        return velocity
    moving = np.flatnonzero(row != row[-1]).max(initial=-1) + 1
    whole = np.where(free & (np.arange(len(row)) >= moving), 0.0, velocity)
    for first, last in pairwise(np.flatnonzero(~np.isnan(whole)).tolist()):
        if last - first > 1:
            ends, found = (whole[[first]], whole[[last]]), np.empty((last - first + 1, 1))
            native.spline(knots_of(steps[first:last]), rows[first : last + 1], *ends, found)
            whole[first + 1 : last] = found[1:-1, 0]
    slowed = np.zeros(len(row), bool)
    while True:
        swinging = _swings(Motion(knots_of(steps), between(steps, np.stack([rows, whole[:, None]]))), row)
        beside = (np.append(swinging, False) | np.append(False, swinging)) & free & ~slowed
        if not beside.any():
            return whole
        slowed |= beside
        whole[slowed] = _slower(steps, row, whole)[slowed]


def _slower(steps: np.ndarray, row: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return velocities at rows, `[N + 1]`, at which a joint does not turn between them: 0 where it turns at one."""
    mean = np.diff(row) / steps
    before, after = np.append(mean[0], mean), np.append(mean, mean[-1])
    low = _OF_MEAN * np.minimum(np.maximum(before, after), 0.0)
    high = _OF_MEAN * np.maximum(np.minimum(before, after), 0.0)
    return np.clip(velocity, low, high)


def _swings(motion: Motion, row: np.ndarray) -> np.ndarray:
    """Return which segments of one joint lead beyond its outermost rows, `[N + 1]`: bool `[N]`."""
    low, high = row.min() - _turn(row, row.argmin()), row.max() + _turn(row, row.argmax())
    least, most = extremes_of_pieces(motion)[:, :, 0, 0]
    return (least < low) | (most > high)


def _turn(row: np.ndarray, place: int) -> float:
    """Return how far a joint may swing beyond a row, rad: as the parabola through three rows, if that is little."""
    inner = 0 < place < len(row) - 1
    bend = _TURNS * abs(row[place - 1] - 2 * row[place] + row[place + 1]) / 8 if inner else np.inf
    return bend if bend <= _BETWEEN_ROWS_RAD else POSITION_ROUNDING
