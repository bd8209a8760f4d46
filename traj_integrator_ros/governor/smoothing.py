"""Recognizes noisy rows of complete plans, and finds smoother rows near them. Knows no ROS."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..execution.rows import cubic_spline, knots_of
from ..limits.joint_limits import JointLimits

MOST_MOVED_RAD = 5e-3
"""Largest distance, rad or m, by which removing noise moves a row: the largest noise that is assumed."""
_FEWEST_NOISY = 10
"""Smallest number of rows in which noise can be told from the plan itself."""
_ALTERNATES = -0.4
"""Correlation of neighbouring fourth differences below which rows are noisy: half of that of pure noise, -0.8."""
_OF_LIMIT = 0.05
"""Median change of jerk from row to row (or bend of acceleration), as a share of the limit, from which on the largest
ones of the same noise exceed the limit.
"""
_ROWS_PER_KNOT = tuple(2**power for power in range(1, 9))
"""Numbers of rows for each knot of a spline near noisy rows, tried in this order: recordings come at up to 1 kHz."""
_WINDOW = 64
"""Number of knots that are solved for at once."""
_MARGIN = 12
"""Number of knots on each side of a window that are solved for, too: the influence of a row falls to a quarter from
knot to knot.
"""


def _alternates(fourth: np.ndarray) -> np.ndarray:
    return (fourth[1:] * fourth[:-1]).sum(axis=0) < _ALTERNATES * (fourth * fourth).sum(axis=0)


def is_noise(steps: np.ndarray, rows: np.ndarray, limits: JointLimits) -> bool:
    """Return whether noise makes rows `[N + 1, dof]` exceed limits of acceleration or jerk.

    Fourth differences of 0 do not count, since an encoder repeats its value as long as a joint hardly moves.
    """
    if len(rows) < _FEWEST_NOISY:
        return False
    times, fourth = knots_of(steps), rows
    for order in range(1, 5):
        fourth = np.diff(fourth, axis=0) / (times[order:] - times[:-order])[:, None] * order
    size = np.where(fourth == 0, np.nan, np.abs(fourth))
    typical = np.nan_to_num(np.nanmedian(np.vstack([size, np.zeros(len(size[0]))]), axis=0))
    step, counts = np.median(steps), np.zeros(len(typical), bool)
    for limit, changes in ((limits.jerk, typical * step), (limits.acceleration, typical * step**2)):
        if limit is not None:
            counts |= changes > _OF_LIMIT * limit
    return bool((_alternates(fourth) & counts).any())


def with_fewer_rows(steps: np.ndarray, rows: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield steps and rows of splines with fewer and fewer knots that stay near all rows `[N + 1, dof]`.

    The first and the last row stay as they are.
    """
    for stride in _ROWS_PER_KNOT:
        if len(steps) < 2 * stride or (near := _with_knots(steps, rows, stride)) is None:
            return
        yield near


def _with_knots(steps: np.ndarray, rows: np.ndarray, stride: int) -> tuple[np.ndarray, np.ndarray] | None:
    """Return steps and rows of the spline with a knot at every `stride`-th row; None if it is too far from a row."""
    chosen = np.arange(0, len(rows), stride)
    last, chosen[-1] = len(chosen) - 1, len(steps)
    knots = np.empty((len(chosen), rows.shape[1]))
    for first in range(0, last, _WINDOW):
        begin, end = max(first - _MARGIN, 0), min(first + _WINDOW + _MARGIN, last)
        _, nearest = _influence_of(steps[chosen[begin] : chosen[end]], end == last, stride)
        found = (nearest @ rows[chosen[begin] : chosen[end] + 1])[first - begin :]
        count = min(len(found), _WINDOW + 1)
        knots[first : first + count] = found[:count]
    knots[[0, -1]] = rows[[0, -1]]
    times = knots_of(steps)
    spline = cubic_spline(np.diff(times[chosen]), knots, ends_at_rest=True)
    away = spline.states_at(np.minimum(times, times[-1] * (1 - 1e-12)), 1)[0] - rows
    return None if np.abs(away).max() > MOST_MOVED_RAD else (np.diff(times[chosen]), knots)


def _influence_of(steps: np.ndarray, rests: bool, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the matrix from knots to rows, `[N + 1, K + 1]`, and its least-squares inverse."""
    times = np.concatenate([[0.0], steps.cumsum()])
    chosen = np.arange(0, len(times), stride)
    chosen[-1] = len(times) - 1
    coarse = np.diff(times[chosen])
    unit = cubic_spline(coarse, np.eye(len(chosen)), ends_at_rest=rests)
    matrix = unit.states_at(np.minimum(times, times[-1] * (1 - 1e-12)))[0]
    matrix[-1] = np.eye(len(chosen))[-1]
    # Well conditioned, since the matrix contains rows of the identity.
    return matrix, np.linalg.solve(matrix.T @ matrix, matrix.T)
