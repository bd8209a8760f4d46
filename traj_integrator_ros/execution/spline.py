"""The C2 cubic spline through positions: clamped to the start's velocity, and to rest if the plan ends at rest."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from . import native
from .motion import Motion

_LONGEST_DENSE = 128
"""Largest number of equal steps for which a matrix is cached; it has 4 N (N + 2) values."""


def cubic_spline(
    steps: np.ndarray, positions: np.ndarray, start_velocity: np.ndarray | None = None, *, ends_at_rest: bool = False
) -> Motion:
    """The C2 cubic spline through positions.

    At an end that is not clamped, the last piece has no jerk (parabolic run-out): the spline overshoots less than one
    whose last two pieces are one cubic (not-a-knot), and is less sensitive to noise.

    Args:
        steps: time between the positions, s, positive: `[N]`.
        positions: `[N + 1, D]`, rad.
        start_velocity: `[D]`, rad/s, with which it begins; None: not clamped.
        ends_at_rest: whether the last velocity is clamped to 0; otherwise it is not clamped.

    """
    steps = np.asarray(steps, np.float64)
    count, clamped = len(steps), start_velocity is not None
    step = equal_step(steps)
    knots = knots_of(steps, step)
    coefficients = np.empty((count, 4, positions.shape[1]))
    if native.motion_through(knots, positions, start_velocity, None, ends_at_rest, 0.0, coefficients):
        return Motion(knots, coefficients, ends_at_rest=ends_at_rest)
    if step is None:
        velocities = _velocities(steps, positions, start_velocity, ends_at_rest)
        return hermite(steps, positions, velocities, ends_at_rest=ends_at_rest)
    data = np.empty((count + 2, positions.shape[1]))
    data[0] = start_velocity * step if clamped else 0.0
    data[1:] = positions
    coefficients = (_unit_matrix(count, clamped, ends_at_rest) @ data).reshape(count, 4, -1)
    coefficients *= _powers(1 / step)
    return Motion(knots, coefficients, ends_at_rest=ends_at_rest)


def rests_at_end(positions: np.ndarray, last_step: float, rest_tolerance: float) -> bool:
    """Whether the mean velocity between the last two positions is at most rest_tolerance, rad/s."""
    return largest(positions[-1] - positions[-2]) <= rest_tolerance * last_step


def largest(values: np.ndarray) -> float:
    """Largest magnitude of a few numbers, `[D]`; in plain Python, which is fastest for them."""
    return max(map(abs, values.tolist()))


def hermite(steps: np.ndarray, positions: np.ndarray, velocities: np.ndarray, *, ends_at_rest: bool = False) -> Motion:
    """The cubic pieces through positions and velocities `[N + 1, D]`."""
    h = steps[:, None]
    secant = (positions[1:] - positions[:-1]) / h
    v0, v1 = velocities[:-1], velocities[1:]
    bend = (v0 + v1 - 2 * secant) / h
    coefficients = np.stack([positions[:-1], v0, (secant - v0) / h - bend, bend / h], axis=1)
    return Motion(knots_of(steps, None), coefficients, ends_at_rest=ends_at_rest)


def equal_step(steps: np.ndarray) -> float | None:
    """The common length of all steps, s; None if they differ, or are too many to cache a matrix for."""
    if len(steps) > _LONGEST_DENSE or len(set(steps.tolist())) > 1:
        return None
    return float(steps[0])


def knots_of(steps: np.ndarray, step: float | None) -> np.ndarray:
    """Knots of a motion of these steps, whose common length is `step`, s, if they have one."""
    return np.concatenate([[0.0], np.cumsum(steps)]) if step is None else _equidistant(step, len(steps))


@lru_cache(maxsize=32)
def _equidistant(step: float, count: int) -> np.ndarray:
    """Knots of a motion of `count` equal steps; cached, so they must not be changed."""
    knots = np.arange(count + 1) * step
    knots.flags.writeable = False
    return knots


@lru_cache(maxsize=32)
def _powers(rate: float) -> np.ndarray:
    return (rate ** np.arange(4))[:, None]


@lru_cache(maxsize=32)
def _unit_matrix(count: int, clamped: bool, ends_at_rest: bool) -> np.ndarray:
    """Matrix `[4 N, N + 2]` for steps of length 1, from start velocity and positions to all coefficients."""
    unit = np.eye(count + 2)
    ones, first = np.ones(count), unit[0] if clamped else None
    velocities = _velocities(ones, unit[1:], first, ends_at_rest)
    return np.ascontiguousarray(hermite(ones, unit[1:], velocities).coefficients.reshape(4 * count, count + 2))


def _velocities(steps: np.ndarray, positions: np.ndarray, first: np.ndarray | None, ends_at_rest: bool) -> np.ndarray:
    """Velocities at the knots, by elimination in the tridiagonal system of the spline, for all joints at once."""
    count = len(steps)
    rate = 1 / steps
    secant = np.diff(positions, axis=0) * rate[:, None]
    pull = 3 * rate[:, None] * secant
    right = np.empty_like(positions, dtype=np.float64)
    right[1:-1] = pull[:-1] + pull[1:]
    # At an open end without jerk, the secant of the piece is the mean of the velocities at its ends.
    right[0] = 2 * secant[0] if first is None else first
    right[-1] = 0.0 if ends_at_rest else 2 * secant[-1]
    rates = rate.tolist()
    above = 1.0 if first is None else 0.0  # of the previous row, already divided by its diagonal
    factors = [above]
    for row in range(1, count):
        before, after = rates[row - 1], rates[row]
        pivot = 1 / (2 * (before + after) - before * above)
        right[row] = (right[row] - before * right[row - 1]) * pivot
        above = after * pivot
        factors.append(above)
    if not ends_at_rest:
        # With one piece and both ends open, any velocities with that mean are possible: take the secant itself.
        right[-1] = secant[-1] if above == 1.0 else (right[-1] - right[-2]) / (1 - above)
    for row in range(count - 1, -1, -1):
        right[row] -= factors[row] * right[row + 1]
    return right
