"""What rows mean: the smooth motion through them or, where they have noise, near them.

`src/interpolant.cpp` finds it, in a time that is proportional to the number of rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native
from .motion import SHORTEST_GAP, Motion
from .rows import knots_of

MOST_MOVED = 5e-3
"""rad, or m: distance by which a row may move, however small its noise is."""


_CLOSE = 5e-3
"""Share of the mean step: rows closer than it are rows of one time, for their slope would be all noise."""


class Fit(NamedTuple):
    """A motion near rows."""

    motion: Motion
    noise: np.ndarray
    """Standard deviation of the rows' noise, as it was found: float64 `[D]`; 0: the motion goes through them."""


def interpolant(
    steps: np.ndarray,
    rows: np.ndarray,
    rests: bool = False,
    *,
    start: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    most_moved: float | np.ndarray = MOST_MOVED,
) -> Motion:
    """Return the motion that rows mean; see `fit`."""
    return fit(steps, rows, rests, start=start, weights=weights, most_moved=most_moved).motion


def fit(
    steps: np.ndarray,
    rows: np.ndarray,
    rests: bool = False,
    *,
    start: np.ndarray | None = None,
    weights: np.ndarray | None = None,
    most_moved: float | np.ndarray = MOST_MOVED,
) -> Fit:
    """Return the C2 cubic spline with the least sum of squares of distances from rows and of jerk, and their noise.

    For each joint, the sizes of noise and jerk are those of maximum restricted likelihood (Patterson and Thompson
    1971). Unless noise is far more likely than none, the spline goes through the rows, to rounding. Otherwise rows move
    by at most 4.5 times their noise, or `most_moved`.

    Args:
        steps: time between rows, s, at least 0: `[N - 1]`; of velocities, the time that each lasts: `[N]`. Rows less
            than 1 us, or 0.5 % of the mean step, apart are rows of one time.
        rows: positions, `[N, D]`, at least 2 times of them; with a start, velocities: the mean of each step.
        rests: whether the motion ends at rest, with an acceleration of 0, exactly at the last position. The last two
            steps have two pieces each then.
        start: position before velocities, `[D]`.
        weights: of the rows, the reciprocal of their variances, relative, `[N]`; None: all the same.
        most_moved: distance by which a row may move, whatever its noise is: of all joints, or `[D]`.

    Raises:
        ValueError: there are fewer than two times.

    """
    rows = np.ascontiguousarray(rows, np.float64)
    steps = np.asarray(steps, np.float64)
    dof = rows.shape[1]
    variances = np.ones(len(rows)) if weights is None else 1 / np.asarray(weights, np.float64)
    repeated, repeats = 0, np.zeros(dof)
    times = knots_of(steps)
    if start is not None:
        rows = np.concatenate([start[None], start + np.cumsum(rows * steps[:, None], axis=0)])
    elif (steps < (gap := max(SHORTEST_GAP, _CLOSE * times[-1] / max(len(steps), 1)))).any():
        times, rows, variances, repeated, repeats = _merged(times, rows, variances, gap, rests)
    if len(times) < 2:
        raise ValueError(f"steps: expected rows of at least two times, got {len(times)}")
    pieces = len(times) - 1 + min(len(times) - 1, 2) * bool(rests)
    knots, coefficients, noise = np.empty(pieces + 1), np.empty((pieces, 4, dof)), np.empty(dof)
    most = np.array(np.broadcast_to(np.asarray(most_moved, np.float64), dof))
    native.interpolate(
        times, rows, variances, start is not None, bool(rests), repeated, repeats, most, knots, coefficients, noise
    )
    return Fit(Motion(knots, coefficients, ends_at_rest=bool(rests)), noise)


def _merged(
    times: np.ndarray, rows: np.ndarray, variances: np.ndarray, gap: float, rests: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, int, np.ndarray]:
    """Rows of one time as their weighted mean, how many became part of another, and the squares of their differences.

    The first and the last time stay, and so does the last row of a motion that rests.
    """
    first = np.flatnonzero(np.concatenate([[True], np.diff(times) >= gap]))
    sizes = np.diff(np.append(first, len(times)))
    weights = 1 / variances
    total = np.add.reduceat(weights, first)
    means = np.add.reduceat(rows * weights[:, None], first) / total[:, None]
    at = np.add.reduceat(times * weights, first) / total
    alone = sizes == 1
    means[alone], at[alone] = rows[first[alone]], times[first[alone]]
    at[0], at[-1] = times[0], times[-1]
    repeats = (weights[:, None] * (rows - np.repeat(means, sizes, axis=0)) ** 2).sum(axis=0)
    if rests:
        means[-1] = rows[-1]
    return at, means, 1 / total, len(times) - len(first), repeats
