"""A motion of all joints as piecewise polynomials, which a controller reproduces from its points."""

from __future__ import annotations

from bisect import bisect_right
from typing import NamedTuple

import numpy as np

from . import native

_SLIVER = 1e-6
"""Length, s, below which the rest of a piece does not get a point of its own: messages count nanoseconds."""


class State(NamedTuple):
    """State of all joints at one time, float64 `[D]` each: rad, rad/s, rad/s^2 (m for prismatic joints)."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
    """None: not known."""


class Motion(NamedTuple):
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

    @property
    def end(self) -> State:
        """State in which the last piece ends: at rest only if `ends_at_rest`."""
        state = np.zeros((3, self.dof))
        if not native.end(self.coefficients, self.knots, state):
            piece = shifted(self.coefficients[-1], self.knots[-1] - self.knots[-2])[:3]
            state[: len(piece)] = piece
            state[2] *= 2
        if self.ends_at_rest:
            state[1] = 0.0
        return State(*state)

    def state_at(self, time: float) -> State:
        """State at a time, s; at a knot, that of the piece that begins there."""
        state = np.empty((3, self.dof))
        if not native.states_at(self.coefficients, self.knots, float(time), state):
            state = self.states_at(np.array([time]), 3)[:, 0]
        return State(*state)

    def states_at(self, times: np.ndarray, orders: int = 4) -> np.ndarray:
        """Position, velocity, acceleration and jerk, or the first of these orders, at times `[T]`, s: `[4, T, D]`."""
        times = np.asarray(times, np.float64)
        states = np.empty((orders, len(times), self.dof))
        if native.states_at(self.coefficients, self.knots, times, states):
            return states
        over = times >= self.knots[-1]
        pieces = np.clip(np.searchsorted(self.knots, times, side="right") - 1, 0, len(self.coefficients) - 1)
        t = (np.minimum(times, self.knots[-1]) - self.knots[pieces])[:, None]
        p = v = a = j = np.zeros((len(times), self.dof))
        for power in range(self.degree, -1, -1):  # Horner's rule for the value and three derivatives at once
            p, v, a, j = p * t + self.coefficients[pieces, power], v * t + p, a * t + v, j * t + a
        states[:] = np.stack([p, v, 2 * a, 6 * j])[:orders]
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
        knots, coefficients = np.empty(len(self.knots)), np.empty(self.coefficients.shape)
        count = native.from_time(self.coefficients, self.knots, float(time), _SLIVER, knots, coefficients)
        if count is not None:
            return Motion(knots[: count + 1], coefficients[:count], self.with_accelerations, self.ends_at_rest)
        piece = bisect_right(self.knots, time) - 1
        if piece + 1 < len(self.coefficients):
            piece += bool(self.knots[piece + 1] - time < _SLIVER)
        knots = self.knots[piece:] - time
        into = -float(knots[0])
        knots[0] = 0.0
        coefficients = self.coefficients[piece:].copy()
        if into != 0:
            coefficients[0] = shifted(coefficients[0], into)
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
        count = int(self.knots.searchsorted(time))
        count -= bool(count > 1 and time - self.knots[count - 1] < _SLIVER)
        knots = self.knots[: count + 1].copy()
        knots[count] = time
        return Motion(knots, self.coefficients[:count], self.with_accelerations)

    def begun_earlier(self, by: float) -> Motion:
        """The motion with its first piece continued backwards by some time, s."""
        knots = self.knots + by
        knots[0] = 0.0
        coefficients = self.coefficients.copy()
        coefficients[0] = shifted(coefficients[0], -by)
        return Motion(knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def moved(self, by: np.ndarray) -> Motion:
        """The same motion shifted by `[D]`, rad."""
        coefficients = self.coefficients.copy()
        coefficients[:, 0] += by
        return Motion(self.knots, coefficients, self.with_accelerations, self.ends_at_rest)

    def then(self, other: Motion) -> Motion:
        """One motion: this one, and `other` from its end on."""
        degree, pieces = max(self.degree, other.degree), len(self.coefficients) + len(other.coefficients)
        knots, coefficients = np.empty(pieces + 1), np.empty((pieces, degree + 1, self.dof))
        if not native.then(self.coefficients, self.knots, other.coefficients, other.knots, knots, coefficients):
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


def quintics(states: np.ndarray, knots: np.ndarray) -> np.ndarray:
    """Coefficients `[N, 6, D]` of the quintics between states `[3, N + 1, D]` at knots, s."""
    coefficients = np.empty((len(knots) - 1, 6, states.shape[2]))
    if native.quintics(knots, states, coefficients):
        return coefficients
    h = np.diff(knots)[:, None]
    p, v, a = states[:, :-1]
    q, w, u = states[:, 1:]
    u, w, q = u - a, w - v - a * h, q - p - v * h - a * h**2 / 2
    q, w, u = q / h**3, w / h**2, u / (2 * h)
    higher = [10 * q - 4 * w + u, (-15 * q + 7 * w - 2 * u) / h, (6 * q - 3 * w + u) / h**2]
    return np.stack([p, v, a / 2, *higher], axis=1, out=coefficients)


def shifted(piece: np.ndarray, by: float) -> np.ndarray:
    """A copy of a piece `[K + 1, D]` as coefficients of the powers of the time that is 0 when its own is `by`, s."""
    moved = piece.copy()
    if not native.shift(moved, float(by)):
        for first in range(len(moved) - 1):  # Horner's rule, once for each coefficient
            for power in range(len(moved) - 2, first - 1, -1):
                moved[power] += by * moved[power + 1]
    return moved


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
