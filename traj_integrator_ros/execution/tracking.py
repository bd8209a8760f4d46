"""The blend from the command to a plan: the least squares of their difference within bounds.

Each joint is a problem of its own; `src/tracking.cpp` solves it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native


class Way(NamedTuple):
    """A difference between command and plan that decays, with a constant jerk in each step."""

    states: np.ndarray
    """Position, velocity and acceleration at the M + 1 knots: float64 `[M + 1, 3, D]`, rad, rad/s, rad/s^2."""
    jerks: np.ndarray
    """Jerk in each step: float64 `[M, D]`, rad/s^3."""
    iterations: np.ndarray
    """Number of iterations of the interior-point method, int64 `[D]`; 0 if no bound is active."""


def track(
    steps: np.ndarray,
    weights: np.ndarray,
    start: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    time_scale: float,
) -> Way:
    """Return the blend from a state with the least sum of weighted squares within bounds.

    It minimizes `sum(weights[k] * state[k]**2) + time_scale**6 * sum(steps[k] * jerk[k]**2)` over the states at the
    ends of the steps. Where bounds cannot be kept, their excess is minimized first: the sum over all knots and
    derivatives, each multiplied by its power of the time scale. In that sum an acceleration counts 100 times and a jerk
    10,000 times as much as a position or velocity, so that a joint returns to its bounds as fast as these two allow.
    A finite problem has a finite result for every start.

    Args:
        steps: durations, s, positive: `[M]`.
        weights: of the squares of position, velocity and acceleration at the end of each step, at least 0: `[M, 3, D]`.
        start: position, velocity and acceleration, `[3, D]`.
        low: lower bounds of position, velocity and acceleration at the end of each step, and of the jerk in it,
            `[4, M, D]`; infinite where there is no bound.
        high: upper bounds of the same; they may be below `low`.
        time_scale: time, s, in which differences decay if the weights of positions are the durations of the steps.

    """
    given = (steps, weights, start, low, high)
    steps, weights, start, low, high = (np.ascontiguousarray(part, np.float64) for part in given)
    count, dof = len(steps), start.shape[1]
    way = Way(np.empty((count + 1, 3, dof)), np.empty((count, dof)), np.empty(dof, np.int64))
    native.track(steps, weights, float(time_scale), start, low, high, *way)
    return way
