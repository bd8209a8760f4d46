"""The C2 cubic spline through positions: clamped to the start's velocity, and to rest where the plan rests."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from .motion import Motion


def cubic_spline(
    steps: np.ndarray, positions: np.ndarray, start_velocity: np.ndarray | None = None, *, ends_at_rest: bool = False
) -> Motion:
    """The C2 cubic spline through positions.

    Args:
        steps: time between the positions, s, positive: `[N]`.
        positions: `[N + 1, D]`, rad.
        start_velocity: `[D]`, rad/s, that it begins with; None: as its own first pieces say.
        ends_at_rest: the last velocity is 0; else as its own last pieces say.

    """
    steps = np.asarray(steps, np.float64)
    clamped = start_velocity is not None
    uniform = bool((steps == steps[0]).all())
    matrix = _velocity_matrix(len(steps), clamped, ends_at_rest) if uniform else _matrix(steps, clamped, ends_at_rest)
    scale = steps[0] if uniform else 1.0
    first = start_velocity * scale if clamped else np.zeros(positions.shape[1])
    velocity = matrix @ np.vstack([first, positions]) / scale
    return hermite(steps, positions, velocity, ends_at_rest=ends_at_rest)


def rests_at_end(positions: np.ndarray, last_step: float, rest_tolerance: float) -> bool:
    """Whether the last two positions differ by no more than rest_tolerance, rad/s, allows."""
    return bool(np.abs(positions[-1] - positions[-2]).max() <= rest_tolerance * last_step)


def hermite(steps: np.ndarray, positions: np.ndarray, velocities: np.ndarray, *, ends_at_rest: bool = False) -> Motion:
    """The cubic pieces through positions and velocities `[N + 1, D]`."""
    h = steps[:, None]
    secant = (positions[1:] - positions[:-1]) / h
    v0, v1 = velocities[:-1], velocities[1:]
    bend = (v0 + v1 - 2 * secant) / h
    coefficients = np.stack([positions[:-1], v0, (secant - v0) / h - bend, bend / h], axis=1)
    return Motion(np.concatenate([[0.0], np.cumsum(steps)]), coefficients, ends_at_rest=ends_at_rest)


@lru_cache(maxsize=64)
def _velocity_matrix(count: int, clamped: bool, ends_at_rest: bool) -> np.ndarray:
    """For steps of length 1."""
    return _matrix(np.ones(count), clamped, ends_at_rest)


def _matrix(steps: np.ndarray, clamped: bool, ends_at_rest: bool) -> np.ndarray:
    """`[N + 1, N + 2]`: from the start's velocity and the positions to the velocities at the knots."""
    n = len(steps)
    left, right = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 2))
    for i in range(1, n):
        h0, h1 = steps[i - 1], steps[i]
        left[i, i - 1 : i + 2] = 1 / h0, 2 / h0 + 2 / h1, 1 / h1
        right[i, i : i + 3] = -3 / h0**2, 3 / h0**2 - 3 / h1**2, 3 / h1**2
    _end_row(left, right, steps, 0, 1)
    _end_row(left, right, steps, n, -1)
    if clamped:
        left[0], right[0] = 0, 0
        left[0, 0], right[0, 0] = 1, 1
    if ends_at_rest:
        left[n], right[n] = 0, 0
        left[n, n] = 1
    return np.linalg.solve(left, right)


def _end_row(left: np.ndarray, right: np.ndarray, steps: np.ndarray, row: int, inward: int) -> None:
    """Not-a-knot at one end: the third derivative of the last two pieces is the same; one piece: no bend at its end."""
    n = len(steps)
    if n == 1:
        left[row, row], left[row, row + inward] = 2, 1
        right[row, 1], right[row, 2] = -3 / steps[0], 3 / steps[0]
        return
    h0, h1 = (steps[0], steps[1]) if row == 0 else (steps[-1], steps[-2])
    i, j, k = row, row + inward, row + 2 * inward
    left[row, [i, j, k]] = 1 / h0**2, 1 / h0**2 - 1 / h1**2, -1 / h1**2
    right[row, [i + 1, j + 1, k + 1]] = (
        -2 * inward / h0**3,
        2 * inward * (1 / h0**3 + 1 / h1**3),
        -2 * inward / h1**3,
    )
