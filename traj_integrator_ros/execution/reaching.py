"""The fastest way of a joint from where it is commanded to a plan, without a way back on a plan that goes forward."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from . import native
from .limits import extremes
from .motion import SHORTEST_GAP, Motion, State, Track, shifted, track_of
from .profiles import Bounds, JointBounds, JointState, Reach, stop_tracks

ROUNDING = 1e-9
RETREAT = 1.5
RETREAT_RAD = 2e-5
"""Most of its way that a joint goes back while it joins a plan that goes forward, beyond the plan's own."""
_FORWARD = 0.1
"""A plan goes forward if it goes back by at most this share of its way."""
_ALL = 1e9
_RINGS, _RESTS = 2e-3, 5e-4
"""rad; a plan that goes back by less than the first only rings, and one that stays within the second rests."""
_RULES = np.array([_FORWARD, _RINGS, _RESTS, RETREAT, RETREAT_RAD])
_OUTLOOK_S = 0.3
"""Shortest time over which it shows where a plan goes."""
_SAMPLES, _APART = 65, 17
_SEARCH = 1e-4
"""Relative precision of the time at which a joint reaches its plan."""
_LATER, _BARELY_LATER = 1.15, 1.02
"""Times the last one that is tried for joining a plan; the second, once the plan has come to where the joint waits."""
_MOST_TRIES = 40
_SHARE = 0.7
"""Of acceleration and jerk, with which a joint catches up with a plan that moves, where that is enough."""
_BARELY = 1e-4
_FLAW_DIGITS = 6
"""To which flaws are told apart, rad and rad/s."""
_SHORTEST_S = 0.01
_WINDOW = 0.05
"""s, from 1 s on relative: shortest time for which a plan can be reached that is found. One that brakes can be reached
before that, not while it brakes, and again at its end.
"""
_LONGEST_STOP_S = 30.0
_WAITS_S = 0.5
"""Longest time in which a plan that ends in motion would come to where a joint is, for that to wait there."""


@dataclass(frozen=True)
class Problem:
    """A join: what every way of joining is given."""

    plan: Motion
    own_until: float
    """s; until then the plan shows what it asks for, not how it is stopped."""
    executed: Motion | None
    """What would be executed without it; None: not known."""
    present: State
    acceleration: np.ndarray
    """Of the present state, or 0 where it is not known, rad/s^2, `[D]`."""
    lack: np.ndarray
    """Position, velocity and acceleration of the present state beyond the plan's, `[3, D]`."""
    bounds: Bounds
    caps: np.ndarray
    """Largest speed of each joint while it joins, rad/s, `[D]`."""
    floats: np.ndarray
    """Whether the plan of a joint is about velocities, and shifted to where it has reached them, bool `[D]`."""
    moves: np.ndarray
    """Whether the plan of a joint moves."""
    earliest: float
    """s; the plan holds from this time on."""
    longest: float
    """s, within which a difference fades."""
    brakes_at: float | None
    """s; from then on the plan is being stopped; None: it rests by itself."""

    @cached_property
    def ends_at(self) -> np.ndarray:
        """Velocity with which the plan ends before it is stopped; 0: it rests by itself, rad/s, `[D]`."""
        return np.zeros(self.plan.dof) if self.brakes_at is None else self.plan.state_at(self.brakes_at).velocity

    @cached_property
    def stopping(self) -> np.ndarray:
        """Least and greatest positions during the fastest stop, `[2, D]`, rad; infinite where none is found."""
        state = self.present._replace(acceleration=self.acceleration)
        try:
            tracks = stop_tracks(state, self.bounds.stopping, self.bounds.jerk)
        except ValueError:
            return np.array([[-np.inf], [np.inf]]) * np.ones(self.plan.dof)
        stops = (Motion(track.knots, track.coefficients[:, :, None]) for track in tracks)
        return np.stack([extremes(stop)[:, 0, 0] for stop in stops], axis=1)

    @cached_property
    def apart(self) -> np.ndarray:
        """How far what is in execution is from the plan at `samples`, `[T, D]`."""
        times = samples(self.longest)
        return positions(self.executed, times) - positions(self.plan, times)

    def start(self, joint: int) -> JointState:
        """The present state of one joint."""
        p, v, _ = self.present
        return JointState(float(p[joint]), float(v[joint]), float(self.acceleration[joint]))

    def bounds_of(self, joint: int) -> JointBounds:
        """Its bounds while it joins."""
        return self.bounds.of_joint(joint)._replace(velocity=float(self.caps[joint]))


@lru_cache(maxsize=16)
def samples(longest: float) -> np.ndarray:
    """Times while a difference may fade, s, `[T]`; must not be changed."""
    return np.linspace(0.0, longest, _APART)


def reaching(problem: Problem, joint: int) -> tuple[Track, float] | None:
    """The fastest way to the earliest point of a plan that a joint can reach in time, and the plan from there on.

    To a plan that moves, a share of the bounds is kept for the next plan, which may slow down earlier than this one.
    """
    bounds = problem.bounds_of(joint)
    allowed = [bounds]
    both = problem.bounds.acceleration[joint], problem.bounds.stopping[joint]
    if both[0] != both[1]:
        bounds = bounds._replace(acceleration=float(both[0]), deceleration=float(both[1]))
        allowed.insert(0, bounds)
    shared = bounds.shared(_SHARE)
    _, v, a = problem.start(joint)
    if problem.moves[joint] and peak_speed(v, a, shared.jerk) <= max(bounds.velocity, abs(v)) * (1 + _BARELY):
        allowed.insert(0, shared)
    good: list[tuple[float, Track, bool]] = []
    flawed: list[tuple[float, Track, bool]] = []
    for these in allowed:
        tried = 0
        for time, way, ends, flaw in _ways_within(problem, joint, these):
            tried += 1
            if flaw == 0:
                good.append((time, way, ends))
                break
            flawed.append((round(flaw, _FLAW_DIGITS), way, ends))  # of those alike the earliest
        if good and tried == 1:
            break  # with as little as this, and at the earliest
    if not good and (waiting := _waiting(problem, joint)) is not None:
        return waiting, 0.0
    best = min(good or flawed, key=lambda it: it[0], default=None)
    if best is None:
        return None
    _, way, ends = best
    return way if ends else _then(way, track_of(problem.plan, joint)), 0.0


def peak_speed(v: np.ndarray | float, a: np.ndarray | float, jerk: np.ndarray | float) -> np.ndarray | float:
    """Largest speed on the fastest way from a velocity and an acceleration to none, rad/s."""
    return np.maximum(np.abs(v), np.abs(v + a * np.abs(a) / (2 * jerk)))


def _waiting(problem: Problem, joint: int) -> Track | None:
    """The stop of a joint that is ahead of where its plan is stopped; None: that would not come there soon."""
    velocity = problem.ends_at[joint]
    if velocity == 0:
        return None
    one = slice(joint, joint + 1)
    state = State(problem.present.position[one], problem.present.velocity[one], problem.acceleration[one])
    (track,) = stop_tracks(state, problem.bounds.stopping[one], problem.bounds.jerk[one])
    ahead = (_Evaluated(track)(track.knots[-1]).position - problem.plan.end.position[joint]) / velocity
    return track if 0 < ahead <= _WAITS_S else None


def _ways_within(problem: Problem, joint: int, bounds: JointBounds) -> Iterator[tuple[float, Track, bool, float]]:
    """Yield when, s, and how a joint comes to later and later points of a plan, and whether that is where it rests.

    And the flaw: by how much it goes back, rad, and is too fast, rad/s, as from a state that cannot slow down in time.
    """
    plan, start = track_of(problem.plan, joint), problem.start(joint)
    reach = Reach(start, bounds)
    one = np.array([joint])
    at = _Evaluated(plan)
    latest = float(plan.knots[-1])
    needed = reach.least_duration(at(latest)) if problem.plan.ends_at_rest else None
    rests = needed is not None  # it may be too far away for that, and still be reached before
    fastest = max(bounds.velocity, abs(start.velocity)) * (1 + _BARELY)
    if rests:
        latest = max(latest, needed)

    def reaches(target: JointState, time: float) -> bool:
        return reach.reach(target, time) or (rests and time >= latest)

    time = _earliest(reaches, at, max(problem.earliest, _SHORTEST_S), latest)
    if time is None:
        return
    comes = _comes(problem, joint, time, latest)
    for _ in range(_MOST_TRIES):
        at_last = rests and time >= latest
        if at_last:  # at rest it may be there before: not every longer time is possible
            end = at(latest)  # where it all but is, the way would be too short for what rounding leaves
            time = reach.least_duration(end, _SHORTEST_S) or reach.least_duration(end)
        time = np.ceil(time * 1e9) * 1e-9
        if at_last or reach.reach(at(time), time):
            way = reach.track(at(latest if at_last else time), time)
            motion = Motion(way.knots, way.coefficients[:, :, None])
            least, most = extremes(motion)[:, :3, 0]
            inside = least[0] >= bounds.position_min - ROUNDING and most[0] <= bounds.position_max + ROUNDING
            steered = bounds.deceleration is None or max(most[2], -least[2]) <= problem.bounds.either[joint]
            if inside and (steered or problem.bounds.steers(motion, one)[0] <= 1 + _BARELY):
                too_fast = max(float(max(most[1], -least[1])) - fastest, 0.0)
                yield time, way, at_last, too_fast + float(retreats(motion, problem, one)[0])
        if at_last or time >= latest:
            break
        later = max(time * (_LATER if time < comes else _BARELY_LATER), time + 0.01)
        time = min(comes if time < comes < later else later, latest)


def _comes(problem: Problem, joint: int, first: float, latest: float) -> float:
    """When a plan comes to where a joint that is ahead of it can wait, s; infinite: it is not ahead, or never."""
    times = np.linspace(first, latest, _SAMPLES)
    planned = positions(problem.plan, times)[:, joint]
    low, high = problem.stopping[:, joint]
    past = planned >= high if planned[-1] >= planned[0] else planned <= low
    return float(times[past.argmax()]) if past.any() and not past[0] else np.inf


def floating_to(problem: Problem, joint: int) -> tuple[Track, float] | None:
    """The fastest way to the velocity of a plan, and the plan from there on, shifted to where that leads."""
    plan, bounds = track_of(problem.plan, joint), problem.bounds_of(joint)
    reach = Reach(problem.start(joint), bounds, velocity_only=True)
    at = _Evaluated(plan)
    time = _earliest(reach.reach, at, max(problem.earliest, _SHORTEST_S), float(plan.knots[-1]) + _LONGEST_STOP_S)
    time = None if time is None else np.ceil(time * 1e9) * 1e-9
    if time is None or not reach.reach(at(time), time):
        return None
    way = reach.track(at(time), time)
    shift = _Evaluated(way)(time * (1 - 1e-12)).position - at(time).position
    moved = plan.coefficients.copy()
    moved[:, 0] += shift
    return _then(way, Track(plan.knots, moved)), shift


def _earliest(
    reaches: Callable[[JointState, float], bool], at: _Evaluated, first: float, latest: float
) -> float | None:
    """The earliest time, s, at which a joint can be on its plan."""
    if first >= latest:
        return latest if reaches(at(latest), latest) else None
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


class _Evaluated:
    """States of one joint's motion, in plain Python, which is fastest for one time after the other."""

    def __init__(self, track: Track) -> None:
        self._knots = track.knots.tolist()
        self._track = track

    def __call__(self, time: float) -> JointState:
        knots, track = self._knots, self._track
        piece = min(bisect_right(knots, time) - 1, len(knots) - 2)
        over = time >= knots[-1]
        t = (knots[-1] if over else time) - knots[piece]
        p = v = a = 0.0
        for c in reversed(track.coefficients[piece].tolist()):
            a = a * t + v
            v = v * t + p
            p = p * t + c
        return JointState(p, 0.0, 0.0) if over else JointState(p, v, 2 * a)


def _then(way: Track, plan: Track) -> Track:
    """A way to a point of a plan, and the plan from there on."""
    time = float(way.knots[-1])
    first = int(np.searchsorted(plan.knots, time + SHORTEST_GAP, side="right")) - 1
    if first >= len(plan.coefficients):
        return way
    rest = plan.coefficients[first:].copy()
    rest[0] = shifted(rest[0][:, None], time - plan.knots[first])[:, 0]
    return Track(np.concatenate([way.knots, plan.knots[first + 1 :]]), np.concatenate([way.coefficients, rest]))


# No way back


def retreats(way: Motion, problem: Problem, joints: np.ndarray) -> np.ndarray:
    """How far joints `[M]` go back on their way to plans that go forward, or beyond plans that rest, rad, `[M]`.

    Forward is where the plan goes; if it hardly moves, where it is. What a joint cannot help in its state is allowed.
    A plan that is shifted to where its velocities are reached gives no reason to go back, whatever it does itself.
    """
    begin = way.begin
    ahead = np.linspace(problem.earliest, max(way.duration, problem.earliest + _OUTLOOK_S), _SAMPLES)
    planned = positions(problem.plan, ahead)[:, joints]
    moved = positions(way, np.linspace(0.0, way.duration, _SAMPLES))
    planned += np.where(problem.floats[joints], begin.position - planned[0], 0.0)
    stopping, back = np.ascontiguousarray(problem.stopping[:, joints]), np.empty(len(joints))
    shares = np.where(problem.floats[joints], _ALL, _FORWARD)
    native.retreats(np.ascontiguousarray(planned), moved, begin.position, stopping, shares, _RULES, back)
    return back


def positions(motion: Motion, times: np.ndarray) -> np.ndarray:
    """Positions at times, s, `[T, D]`; at rest from the end on."""
    return motion.states_at(times, 1)[0]


def retreat(positions: np.ndarray) -> np.ndarray:
    """The longest way back of each joint in positions `[T, M]`, rad, `[M]`."""
    return (np.maximum.accumulate(positions, axis=0) - positions).max(axis=0)
