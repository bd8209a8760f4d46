"""Pieces of a motion as polynomials `[N, K + 1, D]`: of another degree or time, their bounds, fades added to them."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from math import comb

import numpy as np

FADE_STEPS = 3
"""Number of steps in which an acceleration difference fades: with fewer, jerk is larger and a step of the first row
overshoots more; with more than 4, a motion that is replaced repeatedly drifts further and further from its plans.
"""
_SHORT = 0.8
"""Share of the fade's time below which the next knot is the better end."""
_SAME_TIME = 1e-9
"""Rounding of times, s."""
_ROUNDING = 1e-12
"""Of coefficients, as a share of the largest one."""
_HIGHEST_DEGREE = 15


def raised(coefficients: np.ndarray, degree: int) -> np.ndarray:
    """The same polynomials `[N, K + 1, D]`, padded with zeros up to `degree`; copied only if padded."""
    pieces, count, dof = coefficients.shape
    if count > degree:
        return coefficients
    more = np.zeros((pieces, degree + 1, dof))
    more[:, :count] = coefficients
    return more


def taylor_shift(by: np.ndarray, degree: int) -> np.ndarray:
    """Matrices `[n, K + 1, K + 1]` from coefficients of the powers of t to those of the powers of t - by."""
    exponents, binomials = _TABLES[degree]
    return (by[:, None] ** np.arange(degree + 1))[:, exponents] * binomials


def bernstein(coefficients: np.ndarray, steps: np.ndarray, order: int) -> np.ndarray:
    """Control points of a derivative of each piece, `[N, n + 1, D]`: they bound it, and the outer ones are its ends."""
    degree = coefficients.shape[1] - 1
    if order > degree:
        return np.zeros((len(steps), 1, coefficients.shape[2]))
    powers = steps[:, None] ** np.arange(degree + 1 - order)
    return _to_bernstein(degree, order) @ (coefficients[:, order:] * powers[:, :, None])


def extremes_of_piece(coefficients: np.ndarray, span: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Times within `[0, span]` where a derivative of the polynomial `[K + 1]` may be extreme, and its values there."""
    scaled = coefficients * span ** np.arange(len(coefficients))  # in units of the span: roots of similar size
    polynomial = np.polynomial.polynomial.polyder(scaled, order) if order else scaled
    inside = roots_within(np.polynomial.polynomial.polyder(polynomial))
    at = np.concatenate([[0.0], inside, [1.0]])
    return at * span, np.polynomial.polynomial.polyval(at, polynomial) / span**order


def roots_within(polynomial: np.ndarray, margin: float = 0.0) -> np.ndarray:
    """Real roots of a polynomial `[K + 1]` between `margin` and 1 - `margin`."""
    sizes = np.abs(polynomial)
    # A leading coefficient that is rounding adds a root far away, beside which the others are computed inexactly.
    trimmed = np.trim_zeros(np.where(sizes > _ROUNDING * sizes.max(initial=0.0), polynomial, 0.0), "b")
    roots = np.polynomial.polynomial.polyroots(trimmed) if len(trimmed) > 1 else np.zeros(0)
    # A double root may be computed as a slightly complex pair; checking one time too many does no harm.
    return roots.real[(np.abs(roots.imag) < 1e-3) & (roots.real > margin) & (roots.real < 1 - margin)]


def spaced(knots: np.ndarray, gap: float) -> np.ndarray:
    """Knots without those that are less than a gap after another one; the first and the last are kept."""
    gaps = np.diff(knots)
    if len(gaps) < 2 or gaps.min() >= gap:
        return knots
    kept = [float(knots[0])]
    for knot in knots[1:-1].tolist():
        if knot - kept[-1] >= gap and knots[-1] - knot >= gap:
            kept.append(knot)
    return np.array([*kept, knots[-1]])


def begun_with(coefficients: np.ndarray, knots: np.ndarray, acceleration: np.ndarray, fade_time: float) -> np.ndarray:
    """Pieces begun with another acceleration, by `[D]`, rad/s^2: the difference fades to 0, as a quintic.

    It ends within `fade_time`, s, at a knot, after three steps at most, and at the earliest one step from the start.
    """
    ends = _possible_ends(knots, fade_time)
    span = ends[min(FADE_STEPS, len(ends)) - 1]
    touched = slice(0, bisect_left(knots, span - _SAME_TIME))
    return _with_fade(coefficients, touched, taylor_shift(knots[touched], 5), acceleration, span)


def ended_with(
    coefficients: np.ndarray, knots: np.ndarray, acceleration: np.ndarray, fade_time: float, steps: int = FADE_STEPS
) -> np.ndarray:
    """Pieces ended with another acceleration, by `[D]`, rad/s^2: as by `begun_with` in reverse."""
    to_end = knots[-1] - knots
    ends = _possible_ends(to_end[::-1], fade_time)
    span = ends[min(steps, len(ends)) - 1]
    touched = slice(bisect_left(knots, knots[-1] - span - _SAME_TIME), len(coefficients))
    return _with_fade(coefficients, touched, taylor_shift(to_end[touched], 5) * _ALTERNATING, acceleration, span)


def _possible_ends(knots: np.ndarray, fade_time: float) -> np.ndarray:
    """Knots at which a fade may end, s from where it begins: within `fade_time`, and not before a full step.

    If the last of them is much shorter than `fade_time`, the next one, which is longer, is possible, too.
    """
    last = max(int(np.searchsorted(knots, fade_time * (1 + 1e-9), side="right")), 2)
    if last < len(knots) and knots[last - 1] < _SHORT * fade_time:
        last += 1
    first = 2 if len(knots) > 2 and knots[1] < 0.9 * (knots[2] - knots[1]) else 1
    return knots[first : max(last, first + 1)]


def _with_fade(coefficients: np.ndarray, touched: slice, shift: np.ndarray, a: np.ndarray, span: float) -> np.ndarray:
    """Some of the pieces with a t^2 (1 - t/span)^3 / 2 added, shifted to the times at which they begin."""
    half, rate, zero = a / 2, 1 / span, np.zeros_like(a)
    total = raised(coefficients, 5)
    total = total.copy() if total is coefficients else total
    total[touched] += shift @ np.array([zero, zero, half, -3 * half * rate, 3 * half * rate**2, -half * rate**3])
    return total


@lru_cache(maxsize=64)
def _to_bernstein(degree: int, order: int) -> np.ndarray:
    """Matrix from coefficients of powers from `order` on, over a unit span, to control points of the derivative."""
    n = degree - order
    matrix = np.zeros((n + 1, n + 1))
    for k in range(n + 1):
        derivative = np.prod(np.arange(k + 1, k + order + 1))
        for i in range(k, n + 1):
            matrix[i, k] = comb(i, k) / comb(n, k) * derivative
    return matrix


def _tables(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponent m - k and binomial m over k, `[k, m]`."""
    k, m = np.mgrid[: degree + 1, : degree + 1]
    return np.maximum(m - k, 0), np.vectorize(comb, otypes=[float])(m, k)


_TABLES = tuple(_tables(degree) for degree in range(_HIGHEST_DEGREE + 1))
_ALTERNATING = ((-1.0) ** np.arange(6))[:, None]
