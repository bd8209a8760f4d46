"""Time-optimal motions of joints by ruckig: to rest as fast as possible, and to a state at a time.

ruckig (MIT) solves both in microseconds and is well kept. It ignores limits of position, and misses extremes
of position, so callers check them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from ruckig import ControlInterface, InputParameter, Profile, Result, Ruckig, Synchronization
from ruckig import Trajectory as RuckigTrajectory

from . import native
from .motion import Motion, State, taylor_shift
from .tracks import DEGREE, Track, united

_DONE = (Result.Working, Result.Finished)
_NO_LIMIT = 1e9
_RAISE = 1e-9
_LEFT = 1 - 5e-4
"""Share of the jerk that ruckig is given: the rest corrects its ends, which are exact to 1e-8 rad only."""

_SHORTEST_STOP_S = 1e-4
"""A joint that could stop within less takes this long: whole nanoseconds are too coarse for microseconds."""


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
    if counts is not None:
        each = zip(knots, coefficients, counts, strict=True)
        return [Track(of_one[: count + 1], pieces[:count]) for of_one, pieces, count in each]
    least = None if np.isnan(duration) else duration
    return [_ended_in(_pieces(*part, least), end, velocity_only) for part in parts]


def _pieces(
    spans: Sequence[float], jerks: Sequence[float], begin: tuple[float, float, float], duration: float | None
) -> Track:
    p, v, a = begin
    knots, rows, time = [0.0], [], 0.0
    for place, (span, jerk) in enumerate(zip(spans, jerks, strict=True)):
        time += span
        knot = round(time * 1e9) * 1e-9
        if duration is not None and (knot > duration or place == len(spans) - 1):
            knot = duration
        h = knot - knots[-1]
        if h <= 0:
            continue
        rows.append((p, v, a / 2, jerk / 6, 0.0, 0.0))
        knots.append(knot)
        p, v, a = p + (v + (a / 2 + jerk / 6 * h) * h) * h, v + (a + jerk / 2 * h) * h, a + jerk * h
    if not rows:
        rows, knots = [(p, 0.0, 0.0, 0.0, 0.0, 0.0)], [0.0, max(time if duration is None else duration, 1e-9)]
    return Track(np.array(knots), np.array(rows))


def _ended_in(track: Track, target: JointState, velocity_only: bool) -> Track:
    """The track with the rounding of its end removed, by a quintic that grows over all of it."""
    span = float(track.knots[-1])
    t = span - float(track.knots[-2])
    p = v = a = 0.0
    for c in reversed(track.coefficients[-1].tolist()):
        p, v, a = p * t + c, v * t + p, a * t + v  # all of the values before
    v, a = target.velocity - v, target.acceleration - 2 * a
    p = v * span / 2 - a * span**2 / 12 if velocity_only else target.position - p
    growing = np.array(
        [
            0.0,
            0.0,
            0.0,
            10 * p - 4 * v * span + a * span**2 / 2,
            -15 * p + 7 * v * span - a * span**2,
            6 * p - 3 * v * span + a * span**2 / 2,
        ]
    )
    growing[3:] /= span ** np.arange(3, 6)
    return Track(track.knots, track.coefficients + taylor_shift(track.knots[:-1], DEGREE) @ growing)
