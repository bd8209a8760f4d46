"""Exact extremes of polynomial pieces and their derivatives, and bounds that cost little."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from .motion import Motion

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
"""By order of derivative."""


def extremes(motion: Motion) -> np.ndarray:
    """Least and greatest position, velocity, acceleration and jerk of each joint: `[2, 4, D]`, exact up to rounding."""
    spans = np.diff(motion.knots)
    result = np.empty((2, len(QUANTITIES), motion.dof))
    for order in range(len(QUANTITIES)):
        control = bernstein(motion.coefficients, spans, order)
        least, most = control.min(axis=1), control.max(axis=1)  # [N, D]
        for joint in range(motion.dof):
            # What is reached at knots is reached; only pieces whose bounds exceed it need a closer look.
            low, high = control[:, [0, -1], joint].min(), control[:, [0, -1], joint].max()
            for piece in np.flatnonzero((least[:, joint] < low) | (most[:, joint] > high)):
                _, values = extremes_of_piece(motion.coefficients[piece, :, joint], float(spans[piece]), order)
                low, high = min(low, values.min()), max(high, values.max())
            result[:, order, joint] = low, high
    return result


def extremes_of_piece(coefficients: np.ndarray, span: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Times within `[0, span]` where a derivative of the polynomial `[K + 1]` may be extreme, and its values there."""
    scaled = coefficients * span ** np.arange(len(coefficients))  # in units of the span: roots of like size
    polynomial = np.polynomial.polynomial.polyder(scaled, order) if order else scaled
    slope = np.trim_zeros(np.polynomial.polynomial.polyder(polynomial), "b")
    roots = np.polynomial.polynomial.polyroots(slope) if len(slope) > 1 else np.zeros(0)
    inside = roots.real[(np.abs(roots.imag) < 1e-6) & (roots.real > 0) & (roots.real < 1)]
    at = np.concatenate([[0.0], inside, [1.0]])
    return at * span, np.polynomial.polynomial.polyval(at, polynomial) / span**order


def bernstein(coefficients: np.ndarray, spans: np.ndarray, order: int) -> np.ndarray:
    """Control points of a derivative of each piece, `[N, n + 1, D]`: they bound it, the outer are its ends."""
    degree = coefficients.shape[1] - 1
    if order > degree:
        return np.zeros((len(spans), 1, coefficients.shape[2]))
    powers = spans[:, None] ** np.arange(degree + 1 - order)
    return _to_bernstein(degree, order) @ (coefficients[:, order:] * powers[:, :, None])


@lru_cache(maxsize=64)
def _to_bernstein(degree: int, order: int) -> np.ndarray:
    """From coefficients of powers from `order` on, over a unit span, to control points of the derivative."""
    n = degree - order
    matrix = np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        derivative = np.prod(np.arange(k + 1, k + order + 1))
        for i in range(k, n + 1):
            matrix[i, k] = comb(i, k) / comb(n, k) * derivative
    return matrix
