"""The fastest motions of joints to a plan, by ruckig, without a way back on a plan that goes forward.

ruckig (MIT) is well kept, and solves hard problems in microseconds. It ignores limits of position, and misses extremes
of position, so these are checked. Every sequence ends in a stop: that is a formula (`stopping.py`), in a third of the
time of ruckig's objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from ruckig import ControlInterface, InputParameter, Result, Ruckig
from ruckig import Trajectory as RuckigTrajectory

from . import native
from .limits import LONGEST_BRAKE_S, extremes
from .motion import SHORTEST_GAP, SIZE, Motion
from .problem import Problem
from .stopping import Rates
from .tolerances import NANOSECOND_S, ROUNDING, SECOND_NS

RETREAT = 1.5
RETREAT_RAD = 2e-5
"""Most of its way that a joint goes back while it joins a plan that goes forward, beyond the plan's own."""
_OUTLOOK_S = 0.3
"""Shortest time over which it shows where a plan goes."""
_SAMPLES = 65
_SEARCH = 1e-4
"""Relative precision of the time at which a joint reaches its plan."""
_LATER = 1.15
"""Factor from one tried time of joining to the next."""
_BARELY = 1e-4
_SHORTEST_S = 0.01
_WINDOW = 0.05
"""s, from 1 s on relative: shortest time for which a plan can be reached that is found. One that brakes can be reached
before that, not while it brakes, and again at its end.
"""
_DONE = (Result.Working, Result.Finished)
_LEFT = 1 - 5e-4
"""Share of the jerk that ruckig is given: the rest corrects its ends, which are exact to 1e-8 rad only."""


def _solves(solver: Ruckig, request: InputParameter, trajectory: RuckigTrajectory) -> bool:
    """Return whether ruckig finds a trajectory; it reports failures in several ways."""
    try:
        return solver.calculate(request, trajectory) in _DONE
    except Exception:
        return False


class Reach:
    """Motions of one joint from a state to others.

    Args:
        start: where they begin, `[3]`.
        rates: that they keep; a joint beyond them comes back as fast as it may.
        velocity_only: whether only velocity and acceleration are to be reached, wherever that leads.

    """

    def __init__(self, start: np.ndarray, rates: Rates, *, velocity_only: bool = False) -> None:
        self._start, self._rates, self._velocity_only = start, rates, velocity_only
        self._solver, self._trajectory = Ruckig(1), RuckigTrajectory(1)
        request = self._request = InputParameter(1)
        position, velocity, acceleration = start.tolist()
        request.current_position, request.current_velocity = [position], [velocity]
        request.current_acceleration = [acceleration]
        request.max_jerk = [rates.jerk * _LEFT]
        if velocity_only:
            request.control_interface = ControlInterface.Velocity

    def reach(self, target: np.ndarray, duration: float) -> bool:
        """Return whether the joint can be in a state `[3]` after exactly `duration`, s; then `motion` is how."""
        found = self.least_duration(target, duration)
        return found is not None and found <= duration + ROUNDING

    def least_duration(self, target: np.ndarray, at_least: float = 0.0) -> float | None:
        """The shortest time, s, not less than another, in which the joint reaches a state; None: it does not."""
        request, rates = self._request, self._rates
        position, velocity, acceleration = target.tolist()
        up, down = rates.acceleration, rates.deceleration
        if position < self._start[0]:
            up, down = down, up
        # A target at the limit exceeds it by its rounding; its acceleration comes from, or leads to, a higher speed.
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
        """The last one, which ends at `duration`, s, in `target` (only its velocities, if only they count).

        Its pieces are cubics, without those of no length, with knots at whole nanoseconds, as messages have them. The
        rounding of its end is removed by a quintic that grows over all of them.
        """
        (profile,) = self._trajectory.profiles[0]
        brake = profile.brake
        spans, jerks = (brake.t, brake.j) if brake.duration > 0 else ((), ())
        numbers = [*spans, *profile.t, *jerks, *profile.j]
        most = len(numbers) // 2
        knots, coefficients = np.empty(most + 1), np.empty((most, SIZE, 1))
        given = numbers, self._start, float(duration), target, self._velocity_only
        count = native.pieces_of_profile(*given, knots, coefficients)
        return Motion(knots[: count + 1], coefficients[:count], ends_at_rest=not target[1:].any())


def reaching(problem: Problem, joint: int) -> tuple[Motion, float] | None:
    """The fastest way to the earliest point of a plan that a joint can reach in time, and the plan from there on.

    Where that goes back or is too fast, and more work is not left, it is the best way that was found.
    """
    rates, bounds = problem.rates_of(joint), problem.bounds
    allowed = [rates]
    speeding, slowing = float(bounds.acceleration[joint]), float(bounds.stopping[joint])
    if speeding != slowing:
        rates = rates._replace(acceleration=speeding, deceleration=slowing)
        allowed.insert(0, rates)
    best, least = None, np.inf
    for way, flaw in (found for these in allowed for found in _ways_within(problem, joint, these)):
        if flaw < least:
            best, least = way, flaw
        if flaw == 0:
            break
    return None if best is None else (best, 0.0)


def _ways_within(problem: Problem, joint: int, rates: Rates) -> Iterator[tuple[Motion, float]]:
    """Yield how a joint comes to later and later points of a plan, and goes on with it.

    And the flaw: by how much it goes back, rad, and is too fast, rad/s, as from a state that cannot slow down in time.
    """
    plan, bounds, one = problem.plan.of(joint), problem.bounds, np.array([joint])
    start = problem.start(joint)
    reach, at = Reach(start, rates), _evaluated(plan)
    latest = plan.duration
    needed = reach.least_duration(at(latest)) if problem.plan.ends_at_rest else None
    rests = needed is not None  # the plan's end may be too far away for that, and the plan still be reached earlier
    fastest = max(rates.velocity, abs(start[1])) * (1 + _BARELY)
    if rests:
        latest = max(latest, needed)

    def reaches(target: np.ndarray, time: float) -> bool:
        return reach.reach(target, time) or (rests and time >= latest)

    time = _earliest(reaches, at, max(problem.plan.plan_from, _SHORTEST_S), latest)
    if time is None:
        return
    is_found = False
    while True:
        at_last = rests and time >= latest
        if at_last:  # at rest it may be there before: not every longer time is possible
            end = at(latest)  # where it all but is, the way would be too short for what rounding leaves
            time = reach.least_duration(end, _SHORTEST_S) or reach.least_duration(end)
        time = np.ceil(time * SECOND_NS) * NANOSECOND_S
        if at_last or reach.reach(at(time), time):
            way = reach.motion(at(latest if at_last else time), time)
            least, most = extremes(way)[:, :3, 0]
            inside = least[0] >= bounds.position_min[joint] - ROUNDING
            inside &= most[0] <= bounds.position_max[joint] + ROUNDING
            steered = rates.acceleration == rates.deceleration or max(most[2], -least[2]) <= bounds.either[joint]
            if inside and (steered or bounds.steers(way, one)[0] <= 1 + _BARELY):
                too_fast = max(float(max(most[1], -least[1])) - fastest, 0.0)
                flaw = too_fast + float(retreats(way, problem, one)[0])
                yield way if at_last else _and_on(way, plan), flaw
                is_found = True
        if at_last or time >= latest or (is_found and not problem.work.spend()):
            break
        time = min(max(time * _LATER, time + 0.01), latest)


def _and_on(way: Motion, plan: Motion) -> Motion:
    """A way to a point of a plan, and the plan from there on."""
    if way.duration + SHORTEST_GAP >= plan.duration:
        return way
    rest = plan.from_time(way.duration)
    joined = way.then(rest)
    joined.knots[len(way.knots) :] = plan.knots[-len(rest.coefficients) :]  # to the last bit
    return joined


def floating_to(problem: Problem, joint: int) -> tuple[Motion, float] | None:
    """The fastest way to the velocity of a plan, and the plan from there on, shifted to where that leads."""
    plan = problem.plan.of(joint)
    reach, at = Reach(problem.start(joint), problem.rates_of(joint), velocity_only=True), _evaluated(plan)
    time = _earliest(reach.reach, at, max(problem.plan.plan_from, _SHORTEST_S), plan.duration + LONGEST_BRAKE_S)
    time = None if time is None else np.ceil(time * SECOND_NS) * NANOSECOND_S
    if time is None or not reach.reach(at(time), time):
        return None
    way = reach.motion(at(time), time)
    shift = way.end.position - at(time)[0]
    return _and_on(way, plan.moved(shift)), float(shift[0])


def _earliest(
    reaches: Callable[[np.ndarray, float], bool], at: Callable[[float], np.ndarray], first: float, latest: float
) -> float | None:
    """The earliest time, s, at which a joint can be on its plan."""
    first = min(first, latest)
    if reaches(at(first), first):
        return first
    low, high = first, first
    step = max(first, 0.02)
    while True:
        high = min(high + step, latest)
        if reaches(at(high), high):
            break
        if high >= latest:
            return None
        low, step = high, min(step * 1.5, _WINDOW * max(high, 1.0))
    while high - low > _SEARCH * max(high, 0.01):
        middle = (low + high) / 2
        if reaches(at(middle), middle):
            high = middle
        else:
            low = middle
    return high


def _evaluated(motion: Motion) -> Callable[[float], np.ndarray]:
    """The state `[3]` of one joint by the time, s."""
    return lambda time: np.concatenate(motion.state_at(time))


# No way back


def retreats(way: Motion, problem: Problem, joints: np.ndarray) -> np.ndarray:
    """Distance that joints `[M]` go back on their way to plans that go forward, or beyond plans that rest, rad, `[M]`.

    Forward is where the plan goes; if it hardly moves, where it is. Unavoidable ways back from the present state are
    allowed. A plan that is shifted to where its velocities are reached gives no reason to go back, whatever it does
    itself.
    """
    begin, floats = way.begin, problem.floats[joints]
    valid_from = problem.plan.plan_from
    ahead = np.linspace(valid_from, max(way.duration, valid_from + _OUTLOOK_S), _SAMPLES)
    planned = problem.plan.states_at(ahead, 1)[0][:, joints]
    moved = way.states_at(np.linspace(0.0, way.duration, _SAMPLES), 1)[0]
    planned += np.where(floats, begin.position - planned[0], 0.0)
    stopping, back = np.ascontiguousarray(problem.stopping[:, joints]), np.empty(len(joints))
    planned = np.ascontiguousarray(planned)
    native.retreats(planned, moved, begin.position, stopping, floats, RETREAT, RETREAT_RAD, back)
    return back
