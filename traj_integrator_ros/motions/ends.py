"""Derivatives in the first or last sample of a motion that was recorded without them."""

from __future__ import annotations

from math import factorial

import numpy as np

_SAMPLES = 4
"""A cubic through the nearest samples: the slope between the first two is that of half a step later, and a spline that
starts with it begins with a jerk that the motion does not have."""


def derivative_at_end(time: np.ndarray, values: np.ndarray, end: int, order: int = 1) -> np.ndarray:
    """A derivative `[D]` of `values` `[N, D]` in the first sample (`end` 0) or the last (-1).

    It is that of the cubic through the nearest four samples, or of what fewer samples give; 0 beyond its degree.
    """
    near = slice(0, _SAMPLES) if end == 0 else slice(-_SAMPLES, None)
    away = time[near] - time[end]
    scale = np.abs(away).max() or 1.0  # the powers of it would differ by many orders of magnitude
    coefficients = np.linalg.solve(np.vander(away / scale, increasing=True), values[near])
    if order >= len(coefficients):
        return np.zeros(values.shape[1])
    return factorial(order) * coefficients[order] / scale**order
