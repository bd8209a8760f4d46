"""Polynomials in numpy: functions that are needed too rarely to be compiled."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Imported here, since numpy would load it at its first use.
from numpy.polynomial.polynomial import polyder, polyroots, polyval

from . import native

SIZE = 6
"""Number of coefficients of a segment: a controller reproduces a quintic from the states at its ends."""
_NO_COEFFICIENT = 1e-12
"""Share of the largest coefficient below which a coefficient counts as 0."""


def shifted(coefficients: np.ndarray, by: np.ndarray) -> np.ndarray:
    """Return coefficients `[n, K, D]` of powers of the time since times `[n]`, s, after the beginnings."""
    moved = np.empty(coefficients.shape)
    native.shift(np.ascontiguousarray(coefficients), by, moved)
    return moved


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
    """Return contiguous coefficients `[N, SIZE, D]` from those of the lowest powers, `[N, D]`, in any layout."""
    coefficients = np.zeros((len(parts[0]), SIZE, parts[0].shape[1]))
    coefficients[:, : len(parts)] = np.stack(parts, axis=1)
    return coefficients


def between(steps: np.ndarray, states: np.ndarray) -> np.ndarray:
    """Return coefficients `[N, SIZE, D]` of a controller's polynomials between states, at steps `[N]`, s.

    States are positions, velocities and accelerations, or the first k of them, `[k, N + 1, D]`.
    """
    coefficients = np.zeros((len(steps), SIZE, states.shape[2]))
    native.between(np.ascontiguousarray(steps), np.ascontiguousarray(states), coefficients)
    return coefficients
