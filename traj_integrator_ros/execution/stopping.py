"""The fastest motions of joints to rest: anywhere, by a formula, or at given positions, by ruckig.

ruckig (MIT) is well kept and solves hard problems in microseconds. It ignores limits of position and misses extremes of
position, so both are checked here. Stops end every sequence: the formula takes a third of the time of ruckig's objects.
"""

from __future__ import annotations

from math import isfinite

import numpy as np
from ruckig import InputParameter, Result, Ruckig
from ruckig import Trajectory as RuckigTrajectory

from . import native
from .bounds import SPARE, Bounds
from .limits import OUTWARD, extremes, keeps
from .motion import BESIDE, SHORTEST_GAP, SIZE, Motion, State, resting, united
from .tolerances import MOMENT_S, ROUNDING, SAME

_SHORTEST_S = 0.01
"""Shortest motion, s, if one so long exists: whole nanoseconds are too coarse for shorter ones."""
_DONE = (Result.Working, Result.Finished)
_LEFT = 1 - 5e-4
"""Share of the jerk that ruckig may use. The rest corrects its ends, which are exact to 1e-8 rad only."""
_PASSED_RAD = 1e-6
"""Distance, rad or m, beyond a goal or a beginning that counts as rounding."""
_SAME = SAME[:, 0].tolist()


def fastest_stop(state: State, bounds: Bounds) -> Motion:
    """Return the fastest stop of each joint by itself, with bounded acceleration and jerk.

    A joint reverses only if its acceleration cannot be removed before its velocity changes its sign.

    Raises:
        ValueError: there is no stop, for example because the state is not finite.

    """
    states = np.array(state.known)
    most = 15 * states.shape[1]  # Each joint has 5 knots, and `united` may add as many.
    knots, coefficients = np.empty(most), np.empty((most - 1, SIZE, states.shape[1]))
    count = native.stop(states, bounds.stopping, bounds.jerk, SHORTEST_GAP, BESIDE, knots, coefficients)
    if not count:
        raise ValueError("state: expected finite values from which joints can stop")
    return Motion(knots[: count + 1], coefficients[:count], ends_at_rest=True)


def fastest_to(place: np.ndarray, state: State, bounds: Bounds, arrival: float = 0.0) -> Motion:
    """Return the fastest motion from a state to rest at a position, rad, `[D]`, or one that arrives at a time, s.

    No joint passes its position unless it cannot stop before it. A joint that could arrive at that time only by
    swinging beyond its position arrives earlier.

    Raises:
        ValueError: a position cannot be reached.

    """
    state, within = state.known, _between(extremes(fastest_stop(state, bounds))[:, 0], place)
    joints = range(len(place))
    return united({k: _fastest(float(place[k]), state.of(k), bounds.of(k), within[k], arrival) for k in joints})


def _fastest(place: float, state: State, bounds: Bounds, within: np.ndarray, arrival: float) -> Motion:
    """Return the fastest motion of one joint from a state to a place, within a range."""
    start = [float(part[0]) for part in state]
    if all(abs(one - end) <= same for one, end, same in zip(start, (place, 0.0, 0.0), _SAME, strict=True)):
        return resting(np.array([place]), max(arrival, MOMENT_S))
    either, speeding, slowing = (float(part[0]) for part in (bounds.either, bounds.acceleration, bounds.stopping))
    for up, down in [(either, either)] if speeding == slowing else [(speeding, slowing), (either, either)]:
        for least in (max(arrival, _SHORTEST_S), _SHORTEST_S, 0.0):
            way = _solved(place, start, bounds, (up, down), least)
            if way is None:
                continue
            if keeps(way, within) and (up == down or bounds.steers(way)[0] <= 1 + SPARE):
                return way
    if not any(start[1:]):
        raise ValueError(f"place: expected one that can be reached, got {place:g}")
    stop = fastest_stop(state, bounds)
    rests = stop.end._replace(acceleration=np.zeros(1))
    within = _between(np.stack([rests.position] * 2), np.array([place]))[0]
    return stop.then(_fastest(place, rests, bounds, within, max(arrival - stop.duration, 0.0)))


def _between(turns: np.ndarray, place: np.ndarray) -> np.ndarray:
    """Return ranges of joints between where they may turn, `[2, D]`, and a place, `[D]`: `[D, 2, 4, 1]`."""
    ranges = np.full((len(place), 2, 4, 1), np.inf) * OUTWARD
    ranges[:, 0, 0, 0] = np.minimum(turns[0], place) - _PASSED_RAD
    ranges[:, 1, 0, 0] = np.maximum(turns[1], place) + _PASSED_RAD
    return ranges


def _solved(
    place: float, start: list[float], bounds: Bounds, accelerations: tuple[float, float], at_least: float
) -> Motion | None:
    """Return ruckig's motion of one joint to rest at a place, which takes `at_least` some s; None if there is none.

    A joint beyond its limits comes back as fast as it may. Accelerations are those towards the place and against that.
    """
    request, trajectory = InputParameter(1), RuckigTrajectory(1)
    up, down = accelerations if place >= start[0] else accelerations[::-1]
    (p, v, a), jerk = start, float(bounds.jerk[0])
    request.current_position, request.current_velocity, request.current_acceleration = [p], [v], [a]
    request.target_position = [place]
    # Removing the acceleration as fast as possible may take more velocity than there is now.
    fastest = max(float(bounds.velocity[0]), abs(v), abs(v + a * abs(a) / (2 * jerk)), ROUNDING)
    request.max_velocity, request.max_jerk = [fastest], [jerk * _LEFT]
    request.max_acceleration, request.min_acceleration = [up], [-down]
    request.minimum_duration = at_least if at_least > 0 else None
    try:
        done = Ruckig(1).calculate(request, trajectory) in _DONE
        if not (done and isfinite(trajectory.duration)):
            return None
    except Exception:  # It reports failures in several ways.
        return None
    (profile,) = trajectory.profiles[0]
    brake = profile.brake
    before = (brake.t, brake.j) if brake.duration > 0 else ((), ())
    spans, jerks = (np.array([*first, *then]) for first, then in zip(before, (profile.t, profile.j), strict=True))
    knots, coefficients = np.empty(len(spans) + 1), np.empty((len(spans), SIZE, 1))
    count = native.profile(np.array(start), spans, jerks, place, knots, coefficients)
    return Motion(knots[: count + 1], coefficients[:count], ends_at_rest=True) if count else None
