"""The smoothest path within a tolerance of its rows, which rounding to an encoder's step, or noise, has hidden."""

from __future__ import annotations

import numpy as np

_ROUNDS = 2
"""Number of rounds. Distances along noisy rows are too long; the second round measures along the smooth rows."""
_ROOM = 0.9
"""Smallest overlap of the bands of rows, as a share of the tolerance, with which they are one. Rows of a slow begin or
end are nearer to each other than their rounding, and have no direction that a path could follow.
"""
_LEAST_STEP = 0.05, 0.1
"""Smallest distance of different rows, as a share of the mean distance and of the tolerance (the smaller one), so that
the measure along the path increases.
"""
_BARRIERS = tuple(10.0**-k for k in range(6))
"""Weights of the barrier, in units of the squared tolerance, used in this order."""
_STEPS_EACH = 2
"""Number of Newton steps for each weight of the barrier."""
_BOUNDARY = 0.995
"""Largest step, as a share of the distance to a bound."""
_FEWEST = 5
"""Smallest number of rows that can be smoothed."""


def smoothed(rows: np.ndarray, tolerance: np.ndarray, times: np.ndarray | None = None) -> np.ndarray:
    """Return rows, within a tolerance of the given ones, with the least integral of squared third derivatives.

    The derivatives are by the distance along the path, or by the `times` of a plan. Each joint is a quadratic program
    with a band of width 3, which an interior-point method solves; both ends are kept. Rows that become equal within the
    tolerance repeat the one before. Each row takes a few ms.

    Args:
        rows: `[W, D]`, rad.
        tolerance: `[D]`, rad, at least 0; joints with 0 are kept as they are.
        times: `[W]`, s, of a plan.

    Returns:
        `[W, D]`, rad.

    """
    moves, found = tolerance > 0, rows.copy()
    if len(rows) < _FEWEST or not moves.any():
        return found
    low, high = rows - tolerance, rows + tolerance
    low[[0, -1]] = high[[0, -1]] = rows[[0, -1]]
    if times is not None:
        found[:, moves] = _smoothest(low[:, moves], high[:, moves], tolerance[moves], times)
        return found
    for _ in range(_ROUNDS):
        kept, bands = _different(low, high, tolerance)
        if len(kept) < _FEWEST:
            break
        steps = np.linalg.norm(np.diff(found[kept], axis=0), axis=1)
        least = min(_LEAST_STEP[0] * steps.mean(), _LEAST_STEP[1] * tolerance.max())
        along = np.append(0.0, np.cumsum(np.maximum(steps, least)))
        path = _smoothest(*(band[:, moves] for band in bands), tolerance[moves], along)
        found[:, moves] = path[np.searchsorted(kept, np.arange(len(rows)), side="right") - 1]
    return found


def _different(
    low: np.ndarray, high: np.ndarray, tolerance: np.ndarray
) -> tuple[np.ndarray, tuple[np.ndarray, np.ndarray]]:
    """Return the rows that do not repeat the one before, `[K]`, with the bounds of all that repeat them, `[K, D]`."""
    apart = ((low > low[-1]) | (high < high[-1])).any(axis=1)
    end = 1 + int(np.flatnonzero(apart).max(initial=0))  # From there on, rows repeat the last one.
    kept, lows, highs = [0], [low[0]], [high[0]]
    for k in range(1, end):
        most, least = np.maximum(lows[-1], low[k]), np.minimum(highs[-1], high[k])
        fixed = len(kept) == 1  # The first row is kept.
        if (least - most >= (0.0 if fixed else _ROOM) * tolerance).all():
            lows[-1], highs[-1] = most, least
            continue
        kept.append(k)
        lows.append(low[k])
        highs.append(high[k])
    return np.array([*kept, end]), (np.array([*lows, low[-1]]), np.array([*highs, high[-1]]))


def _smoothest(low: np.ndarray, high: np.ndarray, tolerance: np.ndarray, along: np.ndarray) -> np.ndarray:
    """Return the smoothest rows between bounds `[W, D]` at places `[W]`; both bounds agree at the ends."""
    bands, inner = _roughness(along), slice(1, -1)
    origin = low[0]
    least, most = ((bound - origin) / tolerance for bound in (low, high))
    x = (least + most) / 2
    for barrier in _BARRIERS:
        for _ in range(_STEPS_EACH):
            above, below = (most - x)[inner], (x - least)[inner]
            gradient = _times(bands, x)[inner] + barrier * (1 / above - 1 / below)
            step = -_solved(bands, barrier * (1 / above**2 + 1 / below**2), gradient)
            share = np.maximum(step / above, -step / below).max(axis=0)
            x[inner] += np.minimum(1.0, _BOUNDARY / np.maximum(share, _BOUNDARY)) * step
    return origin + tolerance * x


def _roughness(along: np.ndarray) -> np.ndarray:
    """Return the matrix of the integral of squared third derivatives, as diagonals `[4, W]`.

    A third derivative is 6 times the divided difference of 4 rows, and its weight is a third of their span.
    """
    t = along / np.diff(along).mean()
    bands = np.zeros((4, len(t)))
    places = [t[k : len(t) - 3 + k] for k in range(4)]
    weights = [6 / np.prod([places[k] - places[i] for i in range(4) if i != k], axis=0) for k in range(4)]
    span = (places[3] - places[0]) / 3
    for k in range(4):
        for other in range(k, 4):
            bands[other - k, k : len(t) - 3 + k] += span * weights[k] * weights[other]
    return bands


def _times(bands: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Return the product with a symmetric banded matrix."""
    product = bands[0][:, None] * x
    for k in range(1, 4):
        beside = bands[k, : len(x) - k, None]
        product[:-k] += beside * x[k:]
        product[k:] += beside * x[:-k]
    return product


def _solved(bands: np.ndarray, diagonal: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Solve the banded system of the inner rows, with a diagonal added for each joint, by Cholesky; `[W - 2, D]`."""
    count, dof = right.shape
    factor, solution = np.zeros((count + 3, 4, dof)), np.zeros((count + 3, dof))
    inner = bands[:, 1 : count + 1]
    for i in range(count):  # Row i of the factor, from the diagonal to the left.
        for k in (3, 2, 1):
            if i >= k:
                entry = inner[k, i - k] - sum(factor[i, k + m] * factor[i - k, m] for m in range(1, 4 - k))
                factor[i, k] = entry / factor[i - k, 0]
        factor[i, 0] = np.sqrt(inner[0, i] + diagonal[i] - (factor[i, 1:] ** 2).sum(axis=0))
        known = sum(factor[i, k] * solution[i - k] for k in range(1, 4) if i >= k)
        solution[i] = (right[i] - known) / factor[i, 0]
    for i in reversed(range(count)):
        later = sum(factor[i + k, k] * solution[i + k] for k in range(1, 4) if i + k < count)
        solution[i] = (solution[i] - later) / factor[i, 0]
    return solution[:count]
