"""A motion of one or more joints as piecewise polynomials, which a controller reproduces from its points.

Segments shorter than `SHORTEST_GAP` are avoided, because messages count nanoseconds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from . import native
from .polynomials import SIZE, between, powers_of, shifted, spaced
from .tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, whole_ns

SHORTEST_GAP = 1e-6
"""Shortest time between two knots, s: knots that are closer are merged. With a larger gap, the segment beside merged
knots would smooth a jump of the jerk over too long a time; in a smaller gap, whole nanoseconds are too coarse.
"""
_MOST_SOON = 1_000
"""Largest number of segments that a stop considers: 20,000 take 40 ms, for which the stop would wait."""
_NO_KNOTS = np.empty(0)
_ENDLESS = np.array([0.0, np.inf])
BESIDE = 6e-3
"""Distance, s, from merged knots at which another knot is added, if the segment is more than 1.5 times as long. At
merged knots the acceleration jumps, by at most 2 us times the largest jerk. The controller plays that jump as a swing
of 0.0173 times the jump times the square of the segment's duration. With 10 ms in place of 6 ms, the swing was 6 nrad
at the beginning of the next motion, which is 12 rad/s^3 over cycles of 1 ms.
"""


class State(NamedTuple):
    """State of all joints at one time, float64 `[D]` each: rad, rad/s, rad/s^2 (m for prismatic joints)."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray | None = None
    """None if the acceleration is unknown."""

    @property
    def known(self) -> State:
        """The state, with an acceleration of 0 if it is unknown."""
        return self._replace(acceleration=np.zeros_like(self.velocity)) if self.acceleration is None else self

    def beyond(self, other: State) -> np.ndarray:
        """Return this position, velocity and acceleration less those of another state, `[3, D]`."""
        return np.array(self.known) - np.array(other.known)

    def of(self, joint: int) -> State:
        """Return the state of one joint, `[1]`."""
        one = slice(joint, joint + 1)
        return State(*(None if part is None else part[one] for part in self))

    def held(self, joints: np.ndarray, position: np.ndarray) -> State:
        """Return the state with some joints, by index, standing at a position, `[k]`."""
        parts = [None if part is None else part.copy() for part in self]
        for part, value in zip(parts, (position, 0.0, 0.0), strict=True):
            if part is not None:
                part[joints] = value
        return State(*parts)


class Motion(NamedTuple):
    """N polynomial segments of D joints, continuous in position and velocity; the arrays must not be changed.

    Before its first knot, the first segment is extrapolated. From its last knot on, it rests at its last position.
    """

    knots: np.ndarray
    """Times, s from the motion's start, increasing from 0: float64 `[N + 1]`."""
    coefficients: np.ndarray
    """Coefficients of the powers of the time since the segment began, s: float64 `[N, SIZE, D]`."""
    with_accelerations: bool = True
    """True if its points have accelerations; False if the acceleration jumps at knots, because it is held."""
    ends_at_rest: bool = False
    """True if its last velocity is 0, which then counts as exact in spite of rounding."""
    plan_from: float = 0.0
    """Time, s, before which the motion only leads to its plan."""
    plan_until: float = np.inf
    """Time, s, after which the motion is a brake and no part of its plan; infinite without a brake."""
    start_ns: int = 0
    """When it begins, ns, by the clock of motions; parts of it carry their own start."""

    @property
    def valid_from_ns(self) -> int:
        """Time, ns, from which on the motion is its plan's."""
        return self.start_ns + whole_ns(self.plan_from)

    @property
    def duration(self) -> float:
        """Duration, s."""
        return float(self.knots[-1])

    @property
    def dof(self) -> int:
        """Number of joints D."""
        return self.coefficients.shape[2]

    @property
    def steps(self) -> np.ndarray:
        """Duration of each segment, s, `[N]`."""
        return self.knots[1:] - self.knots[:-1]

    @property
    def moves(self) -> bool:
        """True if any joint moves."""
        return bool(np.count_nonzero(self.coefficients[:, 1:]))

    @property
    def begin(self) -> State:
        """State in which the first segment begins."""
        first = self.coefficients[0]
        return State(first[0], first[1], 2 * first[2])

    @property
    def end(self) -> State:
        """State in which the last segment ends: at rest only if `ends_at_rest`."""
        states = np.empty((3, 1, self.dof))
        native.states_at(self.coefficients[-1:], _ENDLESS, self.knots[-1:] - self.knots[-2:-1], states)
        position, velocity, acceleration = states[:, 0]
        return State(position, np.zeros(self.dof) if self.ends_at_rest else velocity, acceleration)

    def state_at(self, time: float) -> State:
        """Return the state at a time, s; at a knot, that of the segment that begins there."""
        states = np.empty((3, 1, self.dof))
        native.states_at(self.coefficients, self.knots, np.array([time]), states)
        return State(*states[:, 0])

    def at(self, time_ns: int) -> State:
        """Return the state at a time, ns; before the start, the first state."""
        return self.state_at(max(time_ns - self.start_ns, 0) * NANOSECOND_S)

    def states_at(self, times: np.ndarray, orders: int = 4) -> np.ndarray:
        """Return position, velocity, acceleration, jerk (the first `orders` of them) at times `[T]`, s: `[4, T, D]`."""
        times = np.asarray(times, np.float64)
        states = np.empty((orders, len(times), self.dof))
        native.states_at(self.coefficients, self.knots, times, states)
        return states

    @property
    def states(self) -> np.ndarray:
        """Position, velocity and acceleration at knots, `[3, N + 1, D]`: after a jump of the acceleration."""
        return np.concatenate([self.states_at(self.knots[:-1], 3), np.stack(self.end)[:, None]], axis=1)

    def from_time(self, time: float) -> Motion:
        """Return what remains of the motion from `time` on, s, as a motion of its own.

        If less than 1 us is left of a segment, the next one begins earlier by that time. If the time is negative, the
        first segment is extended backwards, which is no part of the plan.

        Raises:
            ValueError: the motion is over at that time.

        """
        if not time < self.knots[-1]:
            raise ValueError(f"time: expected less than the duration, {self.duration:g} s, got {time:g}")
        piece = max(bisect_right(self.knots, time) - 1, 0)  # half the time of searchsorted
        knots = self.knots[piece:] - time
        if len(knots) > 2 and knots[1] < SHORTEST_GAP:
            piece, knots = piece + 1, knots[1:]
        coefficients = self.coefficients[piece:].copy()
        coefficients[:1] = shifted(coefficients[:1], -knots[:1])
        knots[0] = 0.0
        return self._replace(
            knots=knots,
            coefficients=coefficients,
            plan_from=max(self.plan_from - time, 0.0),
            plan_until=self.plan_until - time,
            start_ns=self.start_ns + whole_ns(time),
        )

    def until(self, time: float) -> Motion:
        """Return the motion up to a time, s.

        If less than 1 us of a segment would remain, the previous one is extended instead.

        Raises:
            ValueError: the motion is over before that time, or has not begun.

        """
        if not 0 < time <= self.knots[-1]:
            raise ValueError(f"time: expected more than 0 and at most the duration, {self.duration:g} s, got {time:g}")
        if time == self.knots[-1]:
            return self
        count = int(self.knots.searchsorted(time))
        count -= bool(count > 1 and time - self.knots[count - 1] < SHORTEST_GAP)
        knots = self.knots[: count + 1].copy()
        knots[count] = time
        plan_until = self.plan_until if self.plan_until < time else np.inf
        parts = {"knots": knots, "coefficients": self.coefficients[:count]}
        return self._replace(**parts, ends_at_rest=False, plan_until=plan_until)

    def rest_from(self, time_ns: int) -> Motion:
        """Return at least a moment of the motion from a time, ns, on; its first segment is extended backwards."""
        into = (time_ns - self.start_ns) * NANOSECOND_S
        if into >= self.duration - ROUNDING:
            return resting(self.end.position, MOMENT_S, time_ns)
        return self.from_time(into) if into else self

    def ending(self, time_ns: int) -> Motion:
        """Return what is planned until a time, ns, or its first millisecond if that is later; a part is a copy."""
        lasts = max((time_ns - self.start_ns) * NANOSECOND_S, MOMENT_S)
        if lasts >= self.duration:
            return self
        part = self.until(lasts)
        return part._replace(coefficients=part.coefficients.copy())

    def between(self, begin_ns: int, end_ns: int) -> Motion:
        """Return the motion between two times, ns, with rest after its end."""
        span, until = (end_ns - begin_ns) * NANOSECOND_S, (end_ns - self.start_ns) * NANOSECOND_S
        motion = self.until(min(until, self.duration)).rest_from(begin_ns)  # Only this part is copied.
        if (missing := span - motion.duration) > ROUNDING:
            return motion.then(resting(motion.end.position, missing))
        knots = motion.knots.copy()
        knots[-1] = span  # The end is reached without rounding.
        return motion._replace(knots=knots)

    @property
    def valid(self) -> Motion:
        """The motion from `plan_from` on, or its last millisecond if that is later."""
        last = max(self.duration - MOMENT_S / 10, 0.9 * self.duration)
        return self if self.plan_from <= 0 else self.from_time(min(self.plan_from, last))

    @property
    def planned(self) -> Motion:
        """The motion without its brake, unless it consists of little else."""
        return self.until(self.plan_until) if MOMENT_S < self.plan_until < self.duration else self

    @property
    def soon(self) -> Motion:
        """The motion without its brake; of a motion of thousands of segments, only the first ones."""
        motion = self.planned
        return motion if len(motion.knots) <= _MOST_SOON else motion.until(float(motion.knots[_MOST_SOON]))

    def moved(self, by: np.ndarray) -> Motion:
        """Return the motion shifted by `[D]`, rad."""
        coefficients = self.coefficients.copy()
        coefficients[:, 0] += by
        return self._replace(coefficients=coefficients)

    def then(self, other: Motion) -> Motion:
        """Return this motion followed by `other`. If both have a brake, it begins where this one's does."""
        knots = np.concatenate([self.knots, self.knots[-1] + other.knots[1:]])
        until = min(self.plan_until, self.duration + other.plan_until)
        parts = {"knots": knots, "coefficients": np.concatenate([self.coefficients, other.coefficients])}
        return self._replace(**parts, ends_at_rest=other.ends_at_rest, plan_until=until)

    def of(self, joint: int) -> Motion:
        """Return the motion of one joint."""
        return self._replace(coefficients=np.ascontiguousarray(self.coefficients[:, :, joint : joint + 1]))

    def without_slivers(self) -> Motion:
        """Return the motion without segments shorter than `SHORTEST_GAP`; the segments after them begin earlier."""
        if self.steps.min() >= SHORTEST_GAP:
            return self
        return self.at_knots(spaced(self.knots, SHORTEST_GAP))

    def at_knots(self, knots: np.ndarray) -> Motion:
        """Return the motion with other knots, s; a new segment is part of the one in its middle."""
        piece = self.knots.searchsorted((knots[:-1] + knots[1:]) / 2, side="right") - 1
        piece = np.clip(piece, 0, len(self.coefficients) - 1)
        return self._replace(
            knots=knots, coefficients=shifted(self.coefficients[piece], knots[:-1] - self.knots[piece])
        )

    def corrected(self, states: np.ndarray, begin: float = 0.0, end: float = np.inf) -> Motion:
        """Return the motion plus the polynomial between two states, `[k, 2, D]`, at two of its knots, s.

        The controller reproduces the sum exactly: the states are positions, velocities and, unless accelerations are
        held, accelerations.
        """
        end = min(end, self.duration)
        first, last = self.knots.searchsorted([begin - ROUNDING, end - ROUNDING])
        chosen, added = slice(first, last), between(np.array([end - begin]), states)[0]
        coefficients, since = self.coefficients.copy(), self.knots[chosen] - begin
        coefficients[chosen] += shifted(np.tile(added, (len(since), 1, 1)), since)
        return self._replace(coefficients=coefficients)


def resting(position: np.ndarray, duration: float, start_ns: int = 0) -> Motion:
    """Return joints that stay at a position `[D]` for a time, s."""
    return Motion(np.array([0.0, duration]), powers_of([position[None]]), ends_at_rest=True, start_ns=start_ns)


def united(tracks: Mapping[int, Motion], others: Motion | None = None) -> Motion:
    """Unite motions of single joints into one motion, with knots at whole nanoseconds.

    Knots within `SHORTEST_GAP` are merged, and long segments beside those are cut (see `BESIDE`).

    Args:
        tracks: motions of some joints, by the joint's index.
        others: motion of all joints, which gives the other joints and all properties; None: every joint has a track,
            and comes to rest.

    """
    dof = len(tracks) if others is None else others.dof
    each = [tracks[joint] if joint in tracks else others.of(joint) for joint in range(dof)]
    more = _NO_KNOTS if others is None else others.knots
    most = 3 * (len(more) + sum(len(track.knots) for track in each))
    knots, coefficients = np.empty(most), np.empty((most - 1, SIZE, dof))
    pieces = np.array([len(track.coefficients) for track in each])
    given = (np.concatenate([track[part] for track in each]) for part in (0, 1))
    count = native.united(pieces, *given, more, SHORTEST_GAP, BESIDE, knots, coefficients)
    parts = {"knots": knots[: count + 1], "coefficients": coefficients[:count]}
    return Motion(**parts, ends_at_rest=True) if others is None else others._replace(**parts)
