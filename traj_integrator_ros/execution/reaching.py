"""The fastest motions of joints to rest at given positions, by ruckig.

ruckig (MIT) is well kept and solves hard problems in microseconds. It ignores limits of position and misses extremes of
position, so both are checked here. The stops that end every sequence have a formula of their own (`stopping.py`), which
takes a third of the time of ruckig's objects.
"""

from __future__ import annotations

import numpy as np
from ruckig import InputParameter, Result, Ruckig
from ruckig import Trajectory as RuckigTrajectory

from . import native
from .bounds import Bounds
from .limits import extremes
from .motion import SIZE, Motion, State, resting, united
from .stopping import Rates, fastest_stop, peak_speed
from .tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, SAME, SECOND_NS

_BARELY = 1e-4
_SHORTEST_S = 0.01
_DONE = (Result.Working, Result.Finished)
_LEFT = 1 - 5e-4
"""Share of the jerk that ruckig may use. The rest corrects its ends, which are exact to 1e-8 rad only."""
_PASSED_RAD = 1e-6
"""Distance, rad or m, beyond a goal or a beginning that counts as rounding."""


def fastest_to(place: np.ndarray, state: State, bounds: Bounds, arrival: float = 0.0) -> Motion:
    """Return the fastest motion from a state to rest at a position, rad, `[D]`, or one that arrives at a time, s.

    No joint passes its position unless it cannot stop before it. A joint that could arrive at that time only by
    swinging beyond its position arrives earlier.

    Raises:
        ValueError: a position cannot be reached.

    """
    state, tracks = state.known, {}
    for joint in range(len(place)):
        tracks[joint] = _fastest(float(place[joint]), state.of(joint), bounds.of(joint), arrival)
    return united(tracks)


def _fastest(place: float, state: State, bounds: Bounds, arrival: float) -> Motion:
    """Return the fastest motion of one joint; see `fastest_to`."""
    start, target = np.concatenate(state), np.array([place, 0.0, 0.0])
    if (np.abs(start - target) <= SAME[:, 0]).all():
        return resting(target[:1], max(arrival, MOMENT_S))
    stop = fastest_stop(state, bounds)
    outermost = np.vstack([extremes(stop)[:, 0, 0], np.full(2, place)])
    low, high = outermost.min() - _PASSED_RAD, outermost.max() + _PASSED_RAD
    speed = max(float(bounds.velocity[0]), float(peak_speed(start[1], start[2], bounds.jerk)[0]))
    either, speeding, slowing = (float(part[0]) for part in (bounds.either, bounds.acceleration, bounds.stopping))
    pairs = [(either, either)] if speeding == slowing else [(speeding, slowing), (either, either)]
    for up, down in pairs:
        reach = Reach(start, Rates(speed, up, float(bounds.jerk[0]), down))
        for least in (arrival, 0.0) if arrival > 0 else (0.0,):
            time = reach.least_duration(target, max(least, _SHORTEST_S)) or reach.least_duration(target)
            if time is None:
                continue
            time = np.ceil(time * SECOND_NS) * NANOSECOND_S
            way = reach.motion(target, time)
            least_place, most_place = extremes(way)[:, 0, 0]
            steered = up == down or bounds.steers(way)[0] <= 1 + _BARELY
            if low <= least_place and most_place <= high and steered:
                return way
    if not start[1:].any():
        raise ValueError(f"place: expected one that can be reached, got {place:g}")
    rest = State(stop.end.position, np.zeros(1), np.zeros(1))
    return stop.then(_fastest(place, rest, bounds, max(arrival - stop.duration, 0.0)).raised())


class Reach:
    """Motions of one joint from a state to others.

    Args:
        start: state in which they begin, `[3]`.
        rates: bounds of the motions; a joint beyond them comes back as fast as it may.
    """

    def __init__(self, start: np.ndarray, rates: Rates) -> None:
        self._start, self._rates = start, rates
        self._solver, self._trajectory = Ruckig(1), RuckigTrajectory(1)
        request = self._request = InputParameter(1)
        position, velocity, acceleration = start.tolist()
        request.current_position, request.current_velocity = [position], [velocity]
        request.current_acceleration = [acceleration]
        request.max_jerk = [rates.jerk * _LEFT]

    def least_duration(self, target: np.ndarray, at_least: float = 0.0) -> float | None:
        """Return the shortest time, s, but at least `at_least`, to reach a state; None if there is none."""
        request, rates = self._request, self._rates
        position, velocity, acceleration = target.tolist()
        up, down = rates.acceleration, rates.deceleration
        if position < self._start[0]:
            up, down = down, up
        # A target at the limit exceeds it by rounding, and its acceleration comes from, or leads to, a higher speed.
        needed = (abs(velocity) + acceleration * acceleration / (2 * rates.jerk)) * (1 + ROUNDING)
        if needed > rates.velocity * (1 + _BARELY) or not -down <= acceleration / (1 + _BARELY) <= up:
            return None
        request.max_velocity = [max(rates.velocity, needed, ROUNDING)]
        own = abs(acceleration) * (1 + ROUNDING)
        request.max_acceleration, request.min_acceleration = [max(up, own)], [-max(down, own)]
        request.target_position, request.target_velocity = [position], [velocity]
        request.target_acceleration = [acceleration]
        request.minimum_duration = at_least if at_least > 0 else None
        return self._trajectory.duration if _solves(self._solver, request, self._trajectory) else None

    def motion(self, target: np.ndarray, duration: float) -> Motion:
        """Return the motion that was found last, which ends at `duration`, s, in `target`.

        Its segments are cubics with knots at whole nanoseconds, as in messages. A quintic over the whole duration
        removes the rounding error at its end.
        """
        (profile,) = self._trajectory.profiles[0]
        brake = profile.brake
        spans, jerks = (brake.t, brake.j) if brake.duration > 0 else ((), ())
        numbers = [*spans, *profile.t, *jerks, *profile.j]
        most = len(numbers) // 2
        knots, coefficients = np.empty(most + 1), np.empty((most, SIZE, 1))
        given = numbers, self._start, float(duration), target, False
        count = native.pieces_of_profile(*given, knots, coefficients)
        return Motion(knots[: count + 1], coefficients[:count], ends_at_rest=not target[1:].any())


def _solves(solver: Ruckig, request: InputParameter, trajectory: RuckigTrajectory) -> bool:
    """Return whether ruckig finds a trajectory; it reports failures in several ways."""
    try:
        return solver.calculate(request, trajectory) in _DONE
    except Exception:
        return False
