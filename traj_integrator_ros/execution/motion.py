"""A motion of all joints as piecewise polynomials, which a controller reproduces from its points."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np

_SLIVER = 1e-6
"""Length, s, below which the rest of a piece does not get a point of its own: messages count nanoseconds."""


class State(NamedTuple):
    """State of all joints at one time, float64 `[D]` each: rad, rad/s, rad/s^2 (m for prismatic joints)."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
    """None: not known."""


@dataclass(frozen=True)
class Motion:
    """N polynomial pieces of D joints, continuous in position and velocity; the arrays must not be changed.

    Before its first knot it is extrapolated from its first piece; from its last knot on it rests at its last position.
    """

    knots: np.ndarray
    """Times, s from the motion's start, increasing from 0: float64 `[N + 1]`."""
    coefficients: np.ndarray
    """Coefficients of the powers of the time since the piece began, s: float64 `[N, K + 1, D]`, K >= 1."""
    with_accelerations: bool = True
    """Whether its points have accelerations: False if acceleration jumps at the knots (a hold)."""
    ends_at_rest: bool = False
    """Whether its last velocity is 0; then it counts as exactly 0, in spite of rounding."""

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
    def steps(self) -> np.ndarray:
        """Length of each piece, s, `[N]`."""
        return self.knots[1:] - self.knots[:-1]

    @property
    def begin(self) -> State:
        """State in which the first piece begins."""
        c = self.coefficients[0]
        return State(c[0], c[1], 2 * c[2] if len(c) > 2 else np.zeros(self.dof))

    @cached_property
    def end(self) -> State:
        """State in which the last piece ends: at rest only if `ends_at_rest`."""
        span = float(self.knots[-1] - self.knots[-2])
        p, v, a = _derivatives(span, self.degree) @ self.coefficients[-1]
        return State(p, np.zeros_like(v) if self.ends_at_rest else v, a)

    def state_at(self, time: float) -> State:
        """State at a time, s; at a knot, that of the piece that begins there."""
        if time >= self.knots[-1]:
            return State(self.end.position, np.zeros(self.dof), np.zeros(self.dof))
        piece = max(bisect_right(self.knots, time) - 1, 0)
        return State(*(_derivatives(time - float(self.knots[piece]), self.degree) @ self.coefficients[piece]))

    def states_at(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity, acceleration and jerk at times `[T]`, s: `[4, T, D]`."""
        times = np.asarray(times, np.float64)
        pieces = np.clip(np.searchsorted(self.knots, times, side="right") - 1, 0, len(self.coefficients) - 1)
        t = (times - self.knots[pieces])[:, None]
        p = v = a = j = np.zeros((len(times), self.dof))
        for power in range(self.degree, -1, -1):  # Horner's rule for the value and three derivatives at once
            p, v, a, j = p * t + self.coefficients[pieces, power], v * t + p, a * t + v, j * t + a
        states = np.stack([p, v, 2 * a, 6 * j])
        over = times >= self.knots[-1]
        if over.any():
            states[0, over] = self.end.position
            states[1:, over] = 0.0
        return states

    def from_time(self, time: float) -> Motion:
        """The rest of the motion from `time` on, s, as a motion of its own.

        If less than 1 us is left of a piece, the next one begins earlier by that time.

        Raises:
            ValueError: the motion is over at that time, or has not begun.

        """
        if not 0 <= time < self.knots[-1]:
            raise ValueError(f"time: expected at least 0 and less than the duration, {self.duration:g} s, got {time:g}")
        piece = bisect_right(self.knots, time) - 1
        if piece + 1 < len(self.coefficients):
            piece += bool(self.knots[piece + 1] - time < _SLIVER)
        knots = self.knots[piece:] - time
        into = -float(knots[0])
        knots[0] = 0.0
        coefficients = self.coefficients[piece:]
        if into != 0:
            coefficients = coefficients.copy()
            coefficients[0] = taylor_shift(np.array([into]), self.degree)[0] @ coefficients[0]
        return Motion(knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def until(self, time: float) -> Motion:
        """The motion up to a time, s.

        If less than 1 us of a piece would be used, the previous one is extended instead: messages count nanoseconds.

        Raises:
            ValueError: the motion is over before that time, or has not begun.

        """
        if not 0 < time <= self.knots[-1]:
            raise ValueError(f"time: expected more than 0 and at most the duration, {self.duration:g} s, got {time:g}")
        if time == self.knots[-1]:
            return self
        count = int(np.searchsorted(self.knots, time, side="left"))
        count -= bool(count > 1 and time - self.knots[count - 1] < _SLIVER)
        knots = np.append(self.knots[:count], time)
        return Motion(knots, self.coefficients[:count], self.with_accelerations)

    def begun_earlier(self, by: float) -> Motion:
        """The motion with its first piece continued backwards by some time, s."""
        knots = self.knots + by
        knots[0] = 0.0
        coefficients = self.coefficients.copy()
        coefficients[0] = taylor_shift(np.array([-by]), self.degree)[0] @ coefficients[0]
        return Motion(knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def moved(self, by: np.ndarray) -> Motion:
        """The same motion shifted by `[D]`, rad."""
        coefficients = self.coefficients.copy()
        coefficients[:, 0] += by
        return Motion(self.knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def then(self, other: Motion) -> Motion:
        """One motion: this one, and `other` from its end on."""
        degree = max(self.degree, other.degree)
        knots = np.concatenate([self.knots, self.knots[-1] + other.knots[1:]])
        coefficients = np.concatenate([raised(part.coefficients, degree) for part in (self, other)])
        return Motion(knots, coefficients, self.with_accelerations, other.ends_at_rest)


def resting(position: np.ndarray, duration: float, pieces: int = 1) -> Motion:
    """Joints that stay at a position `[D]` for a time, s, in pieces of equal length."""
    coefficients = np.zeros((pieces, 2, len(position)))
    coefficients[:, 0] = position
    return Motion(np.linspace(0.0, duration, pieces + 1), coefficients, ends_at_rest=True)


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


def _tables(degree: int) -> tuple[np.ndarray, np.ndarray]:
    """Exponent m - k and binomial m over k, `[k, m]`."""
    k, m = np.mgrid[: degree + 1, : degree + 1]
    binomials = np.zeros((degree + 1, degree + 1))
    binomials[0] = 1.0
    for column in range(1, degree + 1):
        binomials[1:, column] = binomials[1:, column - 1] + binomials[:-1, column - 1]
    return np.maximum(m - k, 0), binomials


_HIGHEST_DEGREE = 15
_TABLES = tuple(_tables(degree) for degree in range(_HIGHEST_DEGREE + 1))


@lru_cache(maxsize=64)
def _derivatives(t: float, degree: int) -> np.ndarray:
    """Matrix `[3, K + 1]` from coefficients to value, first and second derivative at t; cached for equal steps."""
    powers = [1.0]
    for _ in range(degree):
        powers.append(powers[-1] * t)
    first = [0.0] + [k * powers[k - 1] for k in range(1, degree + 1)]
    second = [0.0] + [k * first[k - 1] for k in range(1, degree + 1)]
    return np.array([powers, first, second])
