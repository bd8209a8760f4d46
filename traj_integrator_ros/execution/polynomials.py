"""Polynomials in numpy: functions that are needed too rarely to be compiled."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import comb

import numpy as np

# Imported here, since numpy would load it at its first use.
from numpy.polynomial.polynomial import polyder, polyroots, polyval

SIZE = 6
"""Largest number of coefficients of a segment: a controller reproduces a quintic from the states at its ends."""
_NO_COEFFICIENT = 1e-12
"""Share of the largest coefficient below which a coefficient counts as 0."""


def taylor_shift(by: np.ndarray, size: int) -> np.ndarray:
    """Return matrices `[n, K, K]` from coefficients of powers of t to coefficients of powers of t - by."""
    exponents, binomials = _tables(size)
    return (by[:, None] ** np.arange(size))[:, exponents] * binomials


def bernstein(coefficients: np.ndarray, steps: np.ndarray, order: int) -> np.ndarray:
    """Return control points of a derivative, `[N, n + 1, D]`: they bound it, and the outer ones are its ends."""
    degree = coefficients.shape[1] - 1
    if order > degree:
        return np.zeros((len(steps), 1, coefficients.shape[2]))
    powers = steps[:, None] ** np.arange(degree + 1 - order)
    return _to_bernstein(degree, order) @ (coefficients[:, order:] * powers[:, :, None])


def extremes_of_piece(coefficients: np.ndarray, span: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Return times within `[0, span]` where a derivative of a polynomial `[K]` may be extreme, and its values."""
    scaled = coefficients * span ** np.arange(len(coefficients))  # in units of the span: roots have similar sizes
    polynomial = polyder(scaled, order) if order else scaled
    inside = roots_within(polyder(polynomial))
    at = np.concatenate([[0.0], inside, [1.0]])
    return at * span, polyval(at, polynomial) / span**order


def roots_within(polynomial: np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Return the real roots of a polynomial `[K]` between `margin` and 1 - `margin`."""
    sizes = np.abs(polynomial)
    # A leading coefficient that is mere rounding adds a root far away, which makes the other roots inexact.
    trimmed = np.trim_zeros(np.where(sizes > _NO_COEFFICIENT * sizes.max(initial=0.0), polynomial, 0.0), "b")
    roots = polyroots(trimmed) if len(trimmed) > 1 else np.zeros(0)
    # A double root may be computed as a slightly complex pair; checking one time too many does no harm.
    return roots.real[(np.abs(roots.imag) < 1e-3) & (roots.real > margin) & (roots.real < 1 - margin)]


def spaced(knots: np.ndarray, gap: float) -> np.ndarray:
    """Drop knots that are closer than a gap to the previous one, except the first and the last."""
    gaps = np.diff(knots)
    if len(gaps) < 2 or gaps.min() >= gap:
        return knots
    kept = [float(knots[0])]
    for knot in knots[1:-1].tolist():
        if knot - kept[-1] >= gap and knots[-1] - knot >= gap:
            kept.append(knot)
    return np.array([*kept, knots[-1]])


def powers_of(parts: Sequence[np.ndarray]) -> np.ndarray:
    """Return contiguous coefficients `[N, K, D]` from those of each power, `[N, D]`, in any layout."""
    return np.stack(parts, axis=1, out=np.empty((len(parts[0]), len(parts), parts[0].shape[1])))


def quintics(steps: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return coefficients `[N, 6, D]` of the quintics between states `[3, N + 1, D]`, at steps `[N]`, s."""
    h = steps[:, None]
    (p, v, a), (q, w, u) = states[:, :-1], states[:, 1:]
    u, w, q = u - a, w - v - a * h, q - p - v * h - a * h**2 / 2
    q, w, u = q / h**3, w / h**2, u / (2 * h)
    higher = [10 * q - 4 * w + u, (-15 * q + 7 * w - 2 * u) / h, (6 * q - 3 * w + u) / h**2]
    return powers_of([p, v, a / 2, *higher])


@lru_cache(maxsize=64)
def to_nothing(time: float) -> np.ndarray:
    """Return the matrix `[6, 3]` from a state to the quintic that leads from it to rest at 0 within a time, s."""
    powers = time ** np.array([[3.0, 2.0, 1.0], [4.0, 3.0, 2.0], [5.0, 4.0, 3.0]])
    return np.vstack([np.diag([1.0, 1.0, 0.5]), [[-10, -6, -1.5], [15, 8, 1.5], [-6, -3, -0.5]] / powers])


@lru_cache(maxsize=64)
def _to_bernstein(degree: int, order: int) -> np.ndarray:
    """Return the matrix from coefficients over a unit span to control points of a derivative."""
    n = degree - order
    matrix = np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        derivative = np.prod(np.arange(k + 1, k + order + 1))
        for i in range(k, n + 1):
            matrix[i, k] = comb(i, k) / comb(n, k) * derivative
    return matrix


@lru_cache(maxsize=SIZE)
def _tables(size: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the exponents m - k and the binomials m over k, `[k, m]`."""
    k, m = np.mgrid[:size, :size]
    return np.maximum(m - k, 0), np.vectorize(comb, otypes=[float])(m, k)
