"""Rows of a plan that are noisy, and smoother ones near them. Knows no ROS."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from ..execution.rows import cubic_spline

_FEWEST_NOISY = 10
"""Rows; with fewer, noise cannot be told from a plan."""
_ALTERNATES = -0.4
"""Half of the correlation of noise, see `noisy`."""
_LEAST_NOISE_RAD = 5e-5
"""Median of fourth differences, 6 times the noise of rows, up to which it does not matter."""


def noisy(rows: np.ndarray) -> np.ndarray:
    """Joints whose rows are noisy, bool `[dof]`: fourth differences of noise change their sign from one to the next.

    Their correlation with the next is -0.8 for noise, and above 0 where the jerk of a plan changes.
    """
    if len(rows) < _FEWEST_NOISY:
        return np.zeros(rows.shape[1], bool)
    fourth = np.diff(rows, n=4, axis=0)
    typical = np.median(np.abs(fourth), axis=0)
    alternates = (fourth[1:] * fourth[:-1]).sum(axis=0) < _ALTERNATES * (fourth * fourth).sum(axis=0)
    return alternates & (typical > _LEAST_NOISE_RAD)


def fitted(
    steps: np.ndarray, rows: np.ndarray, joints: np.ndarray, rests: bool, stride: int, most: float
) -> np.ndarray | None:
    """Rows of joints on the spline with a knot at every `stride`-th row that is nearest to all.

    None: one is further away than `most`, rad.
    """
    matrix, nearest = _influence(steps.tobytes(), rests, stride)
    knots = nearest @ rows
    if np.abs(matrix @ knots - rows)[:, joints].max() > most:
        return None
    if rests:
        knots[-1] = rows[-1]
    return np.where(joints, matrix @ knots, rows)


@lru_cache(maxsize=16)
def _influence(steps: bytes, rests: bool, stride: int) -> tuple[np.ndarray, np.ndarray]:
    """Positions at all rows by those at the knots, `[N + 1, K + 1]`, and those nearest at the knots by all rows."""
    times = np.concatenate([[0.0], np.frombuffer(steps).cumsum()])
    chosen = np.arange(0, len(times), stride)
    chosen[-1] = len(times) - 1
    coarse = np.diff(times[chosen])
    unit = cubic_spline(coarse, np.eye(len(chosen)), ends_at_rest=rests)
    matrix = unit.states_at(np.minimum(times, times[-1] * (1 - 1e-12)))[0]
    matrix[-1] = np.eye(len(chosen))[-1]
    return matrix, np.linalg.solve(matrix.T @ matrix, matrix.T)  # well conditioned: it has rows of the identity
