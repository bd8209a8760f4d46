"""Exact extremes of polynomial pieces and their derivatives, and bounds that are cheap to compute."""

from __future__ import annotations

from functools import lru_cache
from math import comb

import numpy as np

from . import native
from .motion import Motion, taylor_shift

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
"""By order of derivative."""
_AT_END = 1e-9
"""Share of a piece within which a velocity that is 0 is so at its end."""
_RESTS = 1e-6
"""rad/s; up to here a velocity is rounding and has no direction."""


def extremes(motion: Motion) -> np.ndarray:
    """Least and greatest position, velocity, acceleration and jerk of each joint: `[2, 4, D]`, exact up to rounding."""
    result = np.empty((2, len(QUANTITIES), motion.dof))
    if native.extremes(motion.coefficients, motion.knots, result):
        return result
    for order in range(len(QUANTITIES)):
        control = bernstein(motion.coefficients, motion.steps, order)
        for joint in range(motion.dof):
            for side, sign in enumerate((-1.0, 1.0)):
                result[side, order, joint] = sign * _greatest(motion, sign * control[:, :, joint], order, joint, sign)
    return result


def forward(motion: Motion, either: np.ndarray) -> Motion:
    """The motion with every velocity turned to be positive: it speeds up at positive accelerations, and slows down at
    negative ones. Positions are meaningless; where a joint hardly moves it has neither.

    Args:
        motion: any.
        either: rad/s^2, `[D]`; whether joints speed up or slow down does not matter up to here, and is not looked for.

    """
    knots = [motion.knots]
    control = bernstein(motion.coefficients, motion.steps, 1)
    turns = (control.min(axis=1) < 0) & (control.max(axis=1) > 0)
    turns &= np.abs(bernstein(motion.coefficients, motion.steps, 2)).max(axis=1) > either
    for piece, joint in zip(*np.nonzero(turns), strict=True):
        span = float(motion.steps[piece])
        velocity = np.polynomial.polynomial.polyder(motion.coefficients[piece, :, joint])
        scaled = np.trim_zeros(velocity * span ** np.arange(len(velocity)), "b")
        roots = np.polynomial.polynomial.polyroots(scaled) if len(scaled) > 1 else np.zeros(0)
        inside = roots.real[(np.abs(roots.imag) < 1e-3) & (roots.real > _AT_END) & (roots.real < 1 - _AT_END)]
        knots.append(motion.knots[piece] + inside * span)
    cut = np.unique(np.concatenate(knots))
    piece = np.clip(np.searchsorted(motion.knots, cut[:-1], side="right") - 1, 0, len(motion.steps) - 1)
    shifts = taylor_shift(cut[:-1] - motion.knots[piece], motion.degree)
    coefficients = shifts @ motion.coefficients[piece]
    control = bernstein(coefficients, np.diff(cut), 1)
    sign = np.where(np.abs(control).max(axis=1) > _RESTS, np.sign(control.sum(axis=1)), 0.0)
    return Motion(cut, coefficients * sign[:, None])


def extremes_of_piece(coefficients: np.ndarray, span: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    """Times within `[0, span]` where a derivative of the polynomial `[K + 1]` may be extreme, and its values there."""
    scaled = coefficients * span ** np.arange(len(coefficients))  # in units of the span: roots of similar size
    polynomial = np.polynomial.polynomial.polyder(scaled, order) if order else scaled
    slope = np.trim_zeros(np.polynomial.polynomial.polyder(polynomial), "b")
    roots = np.polynomial.polynomial.polyroots(slope) if len(slope) > 1 else np.zeros(0)
    # A double root may be computed as a slightly complex pair; checking one time too many does no harm.
    inside = roots.real[(np.abs(roots.imag) < 1e-3) & (roots.real > 0) & (roots.real < 1)]
    at = np.concatenate([[0.0], inside, [1.0]])
    return at * span, np.polynomial.polynomial.polyval(at, polynomial) / span**order


def surely_keeps(motion: Motion, lows: np.ndarray, highs: np.ndarray) -> bool:
    """Whether a motion stays within bounds `[4, D]` of its derivatives, in few operations; in close cases False."""
    kept = native.surely_keeps(motion.coefficients, motion.knots, lows, highs)
    if kept is not None:
        return kept
    if surely_within(motion.coefficients, float(motion.steps.max()), lows, highs):
        return True
    return control_points_within(motion, lows, highs)  # as a brake at its limits does


def surely_within(coefficients: np.ndarray, longest: float, lows: np.ndarray, highs: np.ndarray) -> bool:
    """Whether all pieces stay within bounds, in few operations; in close cases the answer is False.

    Args:
        coefficients: `[N, K + 1, D]`.
        longest: length of the longest piece, s.
        lows: least value of each derivative, `[4, D]`.
        highs: greatest.

    """
    first, rest = coefficients[:, 0], np.abs(coefficients).max(axis=0)
    rest[0] = 0.0
    reach = _reach(longest, coefficients.shape[1]) @ rest  # [4, D]: largest distance from 0 (position: from a knot)
    if (reach[1:] > highs[1:]).any():  # these have the same bounds on both sides
        return False
    return not ((first.max(axis=0) + reach[0] > highs[0]).any() or (first.min(axis=0) - reach[0] < lows[0]).any())


def control_points_within(motion: Motion, lows: np.ndarray, highs: np.ndarray) -> bool:
    """Whether the control points of all derivatives are within bounds `[4, D]`; then so is the motion."""
    count, size, dof = motion.coefficients.shape
    matrix, orders = _all_to_bernstein(size - 1)
    powers = motion.steps ** np.arange(size)[:, None]
    scaled = np.empty((size, count, dof))
    np.multiply(motion.coefficients.transpose(1, 0, 2), powers[:, :, None], out=scaled)
    control = (matrix @ scaled.reshape(size, -1)).reshape(-1, count, dof)
    control /= powers[orders][:, :, None]
    return not ((control > highs[orders][:, None]).any() or (control < lows[orders][:, None]).any())


def bernstein(coefficients: np.ndarray, steps: np.ndarray, order: int) -> np.ndarray:
    """Control points of a derivative of each piece, `[N, n + 1, D]`: they bound it, and the outer ones are its ends."""
    degree = coefficients.shape[1] - 1
    if order > degree:
        return np.zeros((len(steps), 1, coefficients.shape[2]))
    powers = steps[:, None] ** np.arange(degree + 1 - order)
    return _to_bernstein(degree, order) @ (coefficients[:, order:] * powers[:, :, None])


def _greatest(motion: Motion, control: np.ndarray, order: int, joint: int, sign: float) -> float:
    """The greatest value of sign x derivative; only pieces whose bound exceeds the value found so far are solved."""
    reached = float(control[:, [0, -1]].max())
    bounds = control.max(axis=1)
    for piece in np.argsort(-bounds):
        if bounds[piece] <= reached:
            break
        _, values = extremes_of_piece(motion.coefficients[piece, :, joint], float(motion.steps[piece]), order)
        reached = max(reached, float((sign * values).max()))
    return reached


@lru_cache(maxsize=64)
def _reach(longest: float, count: int) -> np.ndarray:
    """Matrix `[4, count]` from the sizes of coefficients to bounds of the derivatives over a piece."""
    k = np.arange(count)
    rows, factor = [], np.ones(count)
    for order in range(len(QUANTITIES)):
        rows.append(factor * longest ** np.maximum(k - order, 0))
        factor = factor * np.maximum(k - order, 0)
    return np.array(rows)


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


@lru_cache(maxsize=16)
def _all_to_bernstein(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Matrix from all coefficients to control points of all derivatives but those that are 0, and their orders."""
    orders = range(min(degree + 1, len(QUANTITIES)))
    parts = [np.pad(_to_bernstein(degree, order), ((0, 0), (order, 0))) for order in orders]
    return np.concatenate(parts), np.repeat(orders, [len(part) for part in parts])
