"""A motion of all joints as polynomials, piece by piece: what a controller makes of its points, and what was meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np


class State(NamedTuple):
    """State of all joints at one time, float64 `[D]` each: rad, rad/s, rad/s^2 (m for prismatic joints)."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
    """None: not known."""


@dataclass(frozen=True)
class Motion:
    """N polynomial pieces of D joints, continuous in position and velocity; nobody may change the arrays.

    Before its first knot it is continued by its first piece; from its last knot on it rests at its last position.
    """

    knots: np.ndarray
    """s from the motion's start, increasing from 0: float64 `[N + 1]`."""
    coefficients: np.ndarray
    """Of the powers of the time since the piece began, s: float64 `[N, K + 1, D]`, K >= 1."""
    with_accelerations: bool = True
    """Whether its points carry accelerations: no where acceleration jumps at the knots (a hold)."""
    ends_at_rest: bool = False
    """Whether its last velocity is 0: then exactly, whatever rounding leaves of it."""

    @property
    def duration(self) -> float:
        """Length, s."""
        return float(self.knots[-1])

    @property
    def dof(self) -> int:
        """D."""
        return self.coefficients.shape[2]

    @property
    def degree(self) -> int:
        """K."""
        return self.coefficients.shape[1] - 1

    @property
    def end(self) -> State:
        """Where the last piece arrives: it need not be at rest."""
        span = self.knots[-1] - self.knots[-2]
        p, v, a, _ = _horner(self.coefficients[-1], np.float64(span))
        return State(p, np.zeros_like(v) if self.ends_at_rest else v, a)

    def state_at(self, time: float) -> State:
        """State at a time, s; at a knot that of the piece that begins there."""
        if time >= self.knots[-1]:
            rest = np.zeros(self.dof)
            return State(self.end.position, rest, rest.copy())
        piece = max(int(np.searchsorted(self.knots, time, side="right")) - 1, 0)
        p, v, a, _ = _horner(self.coefficients[piece], time - self.knots[piece])
        return State(p, v, a)

    def states_at(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity, acceleration and jerk at times `[T]`, s: `[4, T, D]`."""
        times = np.asarray(times, np.float64)
        pieces = np.clip(np.searchsorted(self.knots, times, side="right") - 1, 0, len(self.coefficients) - 1)
        states = np.stack(_horner(self.coefficients[pieces].transpose(1, 0, 2), (times - self.knots[pieces])[:, None]))
        over = times >= self.knots[-1]
        if over.any():
            states[0, over] = self.end.position
            states[1:, over] = 0.0
        return states

    def from_time(self, time: float) -> Motion:
        """The rest of the motion from `time` on, s, as a motion of its own.

        Raises:
            ValueError: the motion is over at that time, or has not begun.

        """
        if not 0 <= time < self.knots[-1]:
            raise ValueError(f"time: expected at least 0 and less than the duration, {self.duration:g} s, got {time:g}")
        piece = int(np.searchsorted(self.knots, time, side="right")) - 1
        into = time - self.knots[piece]
        knots = self.knots[piece:] - time
        knots[0] = 0.0
        coefficients = self.coefficients[piece:]
        if into > 0:
            coefficients = coefficients.copy()
            coefficients[0] = shifted(coefficients[0], into)
        return Motion(knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def then(self, other: Motion) -> Motion:
        """One motion: this one, and `other` from its end on."""
        degree = max(self.degree, other.degree)
        knots = np.concatenate([self.knots, self.knots[-1] + other.knots[1:]])
        coefficients = np.concatenate([raised(part.coefficients, degree) for part in (self, other)])
        return Motion(knots, coefficients, self.with_accelerations, other.ends_at_rest)


def raised(coefficients: np.ndarray, degree: int) -> np.ndarray:
    """The same polynomials `[N, K + 1, D]` with zeros up to `degree`."""
    missing = degree + 1 - coefficients.shape[1]
    return coefficients if missing <= 0 else np.pad(coefficients, ((0, 0), (0, missing), (0, 0)))


def shifted(coefficients: np.ndarray, by: float) -> np.ndarray:
    """Coefficients `[K + 1, D]` of the same polynomial in the time since `by`."""
    binomials = _binomials(len(coefficients))
    powers = by ** np.maximum(np.subtract.outer(np.arange(len(coefficients)), np.arange(len(coefficients))), 0)
    return (binomials * powers).T @ coefficients


@lru_cache(maxsize=8)
def _binomials(count: int) -> np.ndarray:
    """`[k, m]`: k over m, for k and m below `count`."""
    table = np.zeros((count, count))
    table[:, 0] = 1.0
    for k in range(1, count):
        table[k, 1:] = table[k - 1, 1:] + table[k - 1, :-1]
    return table


def _horner(coefficients: Sequence[np.ndarray], t: float | np.ndarray) -> list[np.ndarray]:
    """Value and three derivatives of polynomials whose coefficients lie along the first axis."""
    value = np.zeros(np.broadcast_shapes(coefficients[0].shape, np.shape(t)))
    results = [value, value, value, value]
    for c in reversed(coefficients):
        p, v, a, j = results
        results = [p * t + c, v * t + p, a * t + v, j * t + a]
    return [results[0], results[1], 2.0 * results[2], 6.0 * results[3]]
