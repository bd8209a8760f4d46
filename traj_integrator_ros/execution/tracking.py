"""The way from what is commanded to a plan, as the least squares of their difference within bounds.

Each joint is a problem of its own; `src/tracking.cpp` solves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native


class Way(NamedTuple):
    """A difference that goes, with a constant jerk in each step."""

    states: np.ndarray
    """Position, velocity and acceleration at the M + 1 knots: float64 `[M + 1, 3, D]`, rad, rad/s, rad/s^2."""
    jerks: np.ndarray
    """Jerk in each step: float64 `[M, D]`, rad/s^3."""
    violation: np.ndarray
    """Largest excess over a bound, that of a derivative times its power of the time scale: float64 `[D]`, rad."""
    iterations: np.ndarray
    """Number of iterations of the interior point, int64 `[D]`; 0: no bound is active."""


def track(
    steps: np.ndarray,
    weights: np.ndarray,
    jerk_weight: float,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    time_scale: float | None = None,
) -> Way:
    """Return the way from a state with the least sum of weighted squares within bounds.

    It is the least `sum(weights[k] * state[k]**2) + jerk_weight * sum(steps[k] * jerk[k]**2)` of the states at the ends
    of steps. Where bounds cannot be kept, their excess is the least: the sum over all knots and kinds, that of a
    derivative times its power of the time scale. There an acceleration counts 100 times and a jerk 10,000 times as much
    as a position and a velocity, so that a joint returns to its bounds as fast as its acceleration and jerk let it.
    Each finite problem has a finite result, from whatever state.

    Args:
        steps: s, positive: `[M]`.
        weights: of the squares of position, velocity and acceleration at the end of each step, at least 0: `[M, 3, D]`,
            or `[M, 3]` for all joints.
        jerk_weight: positive.
        start: position, velocity and acceleration, `[3, D]`.
        low: least position, velocity and acceleration at the end of each step, and least jerk in it, `[4, M, D]`;
            infinite: there is no bound.
        high: the greatest of the same; it may be less than `low`.
        time_scale: s, in which differences go; it is the unit of time inside. None: the sixth root of the jerk weight,
            which it is if weights of positions are lengths of steps.

    """
    steps, start, low, high = (np.ascontiguousarray(part, np.float64) for part in (steps, start, low, high))
    weights = np.ascontiguousarray(weights if np.ndim(weights) == 3 else np.asarray(weights)[:, :, None], np.float64)
    scale = jerk_weight ** (1 / 6) if time_scale is None else time_scale
    count, dof = len(steps), start.shape[1]
    way = Way(np.empty((count + 1, 3, dof)), np.empty((count, dof)), np.empty(dof), np.empty(dof, np.int64))
    native.track(steps, weights, float(jerk_weight), float(scale), start, low, high, *way)
    return way
