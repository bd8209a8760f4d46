"""What joints may do, and the fastest motions within: to rest, and to a state at a time, by ruckig.

ruckig (MIT) solves both in microseconds and is well kept. It ignores limits of position, and misses extremes
of position, so callers check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from ruckig import ControlInterface, InputParameter, Profile, Result, Ruckig, Synchronization
from ruckig import Trajectory as RuckigTrajectory

from . import native
from .limits import extremes, forward, surely_keeps
from .motion import DEGREE, Motion, State, Track, united

_DONE = (Result.Working, Result.Finished)
_NO_LIMIT = 1e9
_RAISE = 1e-9
_LEFT = 1 - 5e-4
"""Share of the jerk that ruckig is given: the rest corrects its ends, which are exact to 1e-8 rad only."""

_SHORTEST_STOP_S = 1e-4
"""A joint that could stop within less takes this long: whole nanoseconds are too coarse for microseconds."""

INSIDE = 1e-9
"""Share, or rad, by which bounds of stops are exceeded by rounding."""


class JointState(NamedTuple):
    """State of one joint: rad, rad/s, rad/s^2."""

    position: float
    velocity: float
    acceleration: float


class JointBounds(NamedTuple):
    """What a joint may do: rad, rad/s, rad/s^2, rad/s^3; infinite where nothing is bounded."""

    position_min: float
    position_max: float
    velocity: float
    acceleration: float
    jerk: float
    deceleration: float | None = None
    """Instead of `acceleration` against the way that it has to go; None: the same. It may turn round on its way."""

    def shared(self, share: float) -> JointBounds:
        """The same with a share of accelerations and jerk."""
        least = None if self.deceleration is None else share * self.deceleration
        return self._replace(acceleration=share * self.acceleration, jerk=share * self.jerk, deceleration=least)


@dataclass(frozen=True)
class Bounds:
    """What joints may do while they join a plan, `[D]`: rad, rad/s, rad/s^2, rad/s^3; positions may be infinite."""

    position_min: np.ndarray
    position_max: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray
    most: np.ndarray | float = np.inf
    """Velocity, acceleration and jerk above which they are never raised, `[3, D]`: limits that somebody gave."""
    deceleration: np.ndarray | None = None
    """Instead of `acceleration` for joints that slow down, never raised; None or infinite: the same."""

    @property
    def stopping(self) -> np.ndarray:
        """Largest acceleration of a stop, `[D]`."""
        if self.deceleration is None:
            return self.acceleration
        return np.where(np.isfinite(self.deceleration), self.deceleration, self.acceleration)

    @property
    def either(self) -> np.ndarray:
        """Largest acceleration that is allowed whether a joint speeds up or slows down, `[D]`."""
        return self.acceleration if self.deceleration is None else np.minimum(self.acceleration, self.deceleration)

    def steers(self, motion: Motion, joints: np.ndarray | slice = slice(None)) -> np.ndarray:
        """By how much the accelerations of some joints use what is allowed as they speed up or slow down, `[M]`."""
        least, most = extremes(forward(motion, self.either[joints]))[:, 2]
        return np.maximum(most / self.acceleration[joints], -least / self.stopping[joints])

    def of_joint(self, joint: int) -> JointBounds:
        """Those of one joint."""
        return JointBounds(
            float(self.position_min[joint]),
            float(self.position_max[joint]),
            float(self.velocity[joint]),
            float(self.either[joint]),
            float(self.jerk[joint]),
        )

    def most_of(self, order: int) -> np.ndarray:
        """The largest velocity (0), acceleration (1) or jerk (2) to which they are raised, `[D]`."""
        return np.full(len(self.jerk), np.inf) if np.isscalar(self.most) else self.most[order]

    def with_positions_of(self, other: Bounds) -> Bounds:
        """The same, with the positions of others."""
        if self is other:
            return self
        return replace(self, position_min=other.position_min, position_max=other.position_max)

    @cached_property
    def sides(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest value of each derivative, whether joints speed up or slow down, `[4, D]`."""
        largest = np.stack([self.velocity, self.either, self.jerk])
        return np.vstack([self.position_min, -largest]), np.vstack([self.position_max, largest])

    @cached_property
    def of_stops(self) -> tuple[np.ndarray, np.ndarray]:
        """Least and greatest position and velocity of a stop; accelerations and jerks are infinite, `[4, D]`."""
        largest = np.full((3, len(self.jerk)), np.inf)
        largest[0] = np.maximum(self.velocity, self.most_of(0)) * (1 + INSIDE)
        return np.vstack([self.position_min - INSIDE, -largest]), np.vstack([self.position_max + INSIDE, largest])

    def demand_of(self, motion: Motion) -> float:
        """The largest velocity, acceleration or jerk of a motion, relative to these; 1 where it is surely no more."""
        return float(self.demands_of(motion).max())

    def demands_of(self, motion: Motion) -> np.ndarray:
        """The same of each joint, `[D]`."""
        if surely_keeps(motion, *self.sides):
            return np.ones(motion.dof)
        least, most = extremes(motion)
        largest = np.maximum(most[1:], -least[1:])
        demand = largest / np.stack([self.velocity, self.acceleration, self.jerk])
        if self.deceleration is not None:
            demand[1] = self.steers(motion)
        return demand.max(axis=0)

    def raised_to(self, motion: Motion, jerk_share: float = 1.0) -> Bounds:
        """Bounds that a motion keeps, up to a share of its jerk: raised where assumed ones are exceeded.

        Positions are widened.
        """
        if surely_keeps(motion, *self.sides):
            return self
        least, most = extremes(motion)
        own = np.stack([self.velocity, self.acceleration, self.jerk])
        largest = np.maximum(most[1:], -least[1:])
        largest[2] *= jerk_share
        velocity, acceleration, jerk = np.maximum(own, np.minimum(largest, self.most))
        low, high = np.minimum(self.position_min, least[0]), np.maximum(self.position_max, most[0])
        return Bounds(low, high, velocity, acceleration, jerk, self.most, self.deceleration)


def stop_tracks(state: State, acceleration: np.ndarray, jerk: np.ndarray) -> list[Track]:
    """Return the fastest stop of each joint by itself, in accelerations and jerks `[D]` that are finite.

    A joint reverses only if its acceleration cannot be taken back before its velocity changes its sign.

    Raises:
        ValueError: there is none, for example because the state is not finite.

    """
    dof = len(state.velocity)
    a = np.zeros(dof) if state.acceleration is None else state.acceleration
    request = InputParameter(dof)
    request.control_interface = ControlInterface.Velocity
    request.synchronization = Synchronization.No
    begin = state.position.tolist(), state.velocity.tolist(), a.tolist()
    request.current_position, request.current_velocity, request.current_acceleration = begin
    request.max_velocity = [_NO_LIMIT] * dof
    request.max_acceleration = acceleration.tolist()
    slowest = np.maximum(np.abs(a) / _SHORTEST_STOP_S, np.abs(state.velocity) / _SHORTEST_STOP_S**2)
    request.max_jerk = np.minimum(np.maximum(slowest, _RAISE * jerk), jerk).tolist()
    trajectory = RuckigTrajectory(dof)
    try:
        result = Ruckig(dof).calculate(request, trajectory)
    except Exception as error:  # ruckig reports what it cannot solve in several ways
        raise ValueError(f"state: expected one from which joints can stop: {error}") from None
    if result not in _DONE:
        raise ValueError("state: expected finite values from which joints can stop")
    return _tracks(trajectory.profiles[0], list(zip(*begin, strict=True)), np.nan, JointState(0.0, 0.0, 0.0), True)


def fastest_stop(state: State, acceleration: np.ndarray, jerk: np.ndarray) -> Motion:
    """The stops of `stop_tracks` as one motion."""
    return united(dict(enumerate(stop_tracks(state, acceleration, jerk))))


class Reach:
    """Motions of one joint from a state to others.

    Args:
        start: where they begin.
        bounds: velocity, acceleration and jerk that they keep; a joint beyond them comes back as fast as it may.
        velocity_only: whether only velocity and acceleration are to be reached, wherever that leads.

    """

    def __init__(self, start: JointState, bounds: JointBounds, *, velocity_only: bool = False) -> None:
        self._start, self._bounds = start, bounds
        self._solver, self._trajectory = Ruckig(1), RuckigTrajectory(1)
        request = self._request = InputParameter(1)
        request.current_position = [start.position]
        request.current_velocity = [start.velocity]
        request.current_acceleration = [start.acceleration]
        request.max_jerk = [bounds.jerk * _LEFT]
        self._velocity_only = velocity_only
        if velocity_only:
            request.control_interface = ControlInterface.Velocity

    def reach(self, target: JointState, duration: float) -> bool:
        """Whether the joint can be in a state after exactly `duration`, s; then `track` is how."""
        found = self.least_duration(target, duration)
        return found is not None and found <= duration + 1e-9

    def least_duration(self, target: JointState, at_least: float = 0.0) -> float | None:
        """The shortest time, s, not less than another, in which the joint reaches a state; None: it does not."""
        request, bounds = self._request, self._bounds
        _, velocity, acceleration = target
        up = bounds.acceleration
        down = up if bounds.deceleration is None else bounds.deceleration
        if target.position < self._start.position:
            up, down = down, up
        # A target at the limit exceeds it by its rounding; its acceleration comes from, or leads to, a higher speed.
        needed = (abs(velocity) + acceleration * acceleration / (2 * bounds.jerk)) * (1 + _RAISE)
        if needed > bounds.velocity * (1 + 1e-3) or not -down <= acceleration / (1 + 1e-3) <= up:
            return None
        request.max_velocity = [max(bounds.velocity, needed, 1e-9)]
        own = abs(acceleration) * (1 + _RAISE)
        request.max_acceleration, request.min_acceleration = [max(up, own)], [-max(down, own)]
        request.target_position, request.target_velocity = [target.position], [velocity]
        request.target_acceleration = [acceleration]
        request.minimum_duration = at_least if at_least > 0 else None
        try:
            result = self._solver.calculate(request, self._trajectory)
        except Exception:  # ruckig reports targets that it cannot reach in several ways
            return None
        return self._trajectory.duration if result in _DONE else None

    def track(self, target: JointState, duration: float) -> Track:
        """The last motion, which ends at `duration`, s, in `target` (only its velocities, if only they count)."""
        (track,) = _tracks(self._trajectory.profiles[0], [self._start], float(duration), target, self._velocity_only)
        return track


def _tracks(
    profiles: Sequence[Profile],
    begins: Sequence[tuple[float, float, float]],
    duration: float,
    end: JointState,
    velocity_only: bool,
) -> list[Track]:
    """Cubic pieces of profiles, without those of no length, with knots at whole nanoseconds, as messages have them.

    The rounding of their ends is removed by quintics that grow over all of them. A duration of NaN is their own.
    """
    parts = []
    for profile, begin in zip(profiles, begins, strict=True):
        brake, spans, jerks = profile.brake, profile.t, profile.j
        if brake.duration > 0:
            spans, jerks = [*brake.t, *spans], [*brake.j, *jerks]
        parts.append((spans, jerks, begin))
    most = max(len(spans) for spans, _, _ in parts)
    knots, coefficients = np.empty((len(parts), most + 1)), np.empty((len(parts), most, DEGREE + 1))
    counts = native.pieces_of_profiles(parts, duration, end, velocity_only, knots, coefficients)
    each = zip(knots, coefficients, counts, strict=True)
    return [Track(of_one[: count + 1], pieces[:count]) for of_one, pieces, count in each]
