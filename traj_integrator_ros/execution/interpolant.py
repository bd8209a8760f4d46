"""The interpolant of rows: the smoothest motion through them or, if they are noisy, near them.

`src/interpolant.cpp` computes it, in a time that is proportional to the number of rows.
"""

from __future__ import annotations

import numpy as np

from . import native
from .motion import SHORTEST_GAP, Motion
from .polynomials import SIZE, spaced
from .rows import knots_of

MOST_MOVED = 5e-3
"""Distance, rad or m, by which the interpolant may pass a row, however small the noise is."""
_CLOSE = 5e-3
"""Share of the mean step; of rows that are closer in time, one counts: their slope would be noise alone."""


def fit(
    steps: np.ndarray,
    rows: np.ndarray,
    rests: bool = False,
    *,
    start: np.ndarray | None = None,
    most_moved: float | np.ndarray = MOST_MOVED,
) -> tuple[Motion, np.ndarray]:
    """Return the C2 cubic spline that minimizes squared distances from rows and squared jerk, and the rows' noise.

    For each joint, the variances of noise and jerk, which weigh the two, are those of maximum restricted likelihood
    (Patterson and Thompson 1971). Unless noise is far more likely than none, the spline passes the rows exactly, up to
    rounding. Otherwise it passes them within 4.5 times their noise, or `most_moved`.

    Args:
        steps: of positions, the time between rows, s, at least 0, `[N - 1]`; of velocities, the duration of each,
            `[N]`. Of rows less than 1 us, or 0.5 % of the mean step, apart, the first one counts, and at the end the
            last one.
        rows: positions at two or more times, `[N, D]`; with a start, mean velocities of the steps.
        rests: whether the motion ends at rest, with an acceleration of 0, exactly at the last position. The last two
            steps then have two segments each.
        start: position before the first velocity, `[D]`.
        most_moved: distance by which the spline may pass a row, whatever the noise is: a number, or `[D]`.

    Returns:
        The motion, and the noise of the rows: its estimated standard deviation, `[D]`; 0 where it passes them exactly.

    Raises:
        ValueError: the rows have fewer than two times.

    """
    rows = np.ascontiguousarray(rows, np.float64)
    steps = np.asarray(steps, np.float64)
    dof = rows.shape[1]
    times = knots_of(steps)
    if start is not None:
        rows = np.concatenate([start[None], start + np.cumsum(rows * steps[:, None], axis=0)])
    elif np.count_nonzero(steps < (gap := max(SHORTEST_GAP, _CLOSE * times[-1] / max(len(steps), 1)))):
        kept = spaced(times, gap)
        chosen = np.append(times.searchsorted(kept[:-1]), len(rows) - 1)
        times, rows = kept, rows[chosen]
    if not times[-1] >= SHORTEST_GAP:
        raise ValueError("steps: expected rows of at least two times, got 1")
    knots, unit = times, times[-1] / (len(times) - 1)
    if rests:  # two segments for each of the last two steps
        last = times[-3:]
        knots = np.sort(np.concatenate([times, (last[:-1] + last[1:]) / 2]))
    coefficients, noise = np.zeros((len(knots) - 1, SIZE, dof)), np.empty(dof)
    of_row = unit if start is not None else 1.0
    most = np.full(dof, most_moved) * of_row
    given = times / unit, knots / unit, rows, start is not None, bool(rests), most
    native.interpolate(*given, coefficients, noise)
    coefficients /= unit ** np.arange(SIZE)[:, None]
    return Motion(knots, coefficients, ends_at_rest=bool(rests)), noise / of_row
