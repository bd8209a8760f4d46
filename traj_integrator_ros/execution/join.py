"""From the state that a controller commands now to a plan: each joint by itself, within limits, as smooth as may be.

A joint that is on its plan keeps it unchanged. Otherwise the difference fades as a quintic, over the first of several
times in which that keeps all limits; where none does, the joint takes the fastest way (ruckig) to the earliest point of
the plan that it can reach in time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .extremes import extremes, forward, surely_keeps
from .motion import Motion, State, raised, taylor_shift
from .profiles import JointBounds, JointState, Reach, fastest_stop
from .tracks import DEGREE, SHORTEST_GAP, Track, track_of, united

SAME = (1e-10, 1e-8, 1e-6)
"""rad, rad/s, rad/s^2: differences up to these are rounding, and nothing is done about them."""
_ROUNDING = 1e-9
_SEARCH = 1e-4
"""Relative precision of the time at which a joint reaches its plan."""
RETREAT = 1.5
RETREAT_RAD = 2e-5
"""Most of its way that a joint goes back while it joins a plan that goes forward, beyond the plan's own."""
_FORWARD = 0.1
"""A plan goes forward if it goes back by at most this share of its way."""
_RINGS = 5e-4
"""rad; a plan that goes back by less than this only rings, and one that stays within it rests."""
_OUTLOOK_S = 0.3
"""Shortest time over which it shows where a plan goes."""
_LATER = 1.15
_MOST_TRIES = 40
_SAMPLES = 65
_CLOSING_S = 5.0
"""A joint catches up fast enough to close a gap within this time, even if its plan is slow."""
_SHARE = 0.7
"""Of acceleration and jerk, with which a joint catches up with a plan that moves, where that is enough."""
_BARELY = 1e-4
_SLOW = 1e-6
_SLOWEST = 0.01
"""Share of the largest velocity that a joint may always use to catch up."""
_STEPS = 3
"""Steps of the plan in which a difference of acceleration alone fades: it leads away from the rows meanwhile."""
_SHORTEST_S = 0.01
_WINDOW = 0.05
"""s, from 1 s on relative: shortest time for which a plan can be reached that is found. One that brakes can be reached
before that, not while it brakes, and again at its end.
"""
_LONGEST_STOP_S = 30.0


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


@dataclass(frozen=True)
class Joining:
    """How plans are joined."""

    fade_times: Sequence[float]
    """s, tried in this order."""
    catch_up: float
    """Largest speed while joining, relative to the plan's own largest."""


def join(
    present: State,
    plan: Motion,
    bounds: Bounds,
    joining: Joining,
    *,
    earliest: float = 0.0,
    floating: np.ndarray | None = None,
    pace: np.ndarray | float = np.inf,
) -> tuple[Motion, np.ndarray] | None:
    """Return the motion that begins in a state and becomes a plan, or None if a joint cannot reach its plan.

    Args:
        present: what is commanded when the plan begins.
        plan: from then on; if it does not rest at its end, it is joined before.
        bounds: see `Bounds`; they hold for the plan.
        joining: see `Joining`.
        earliest: s; the plan holds from this time on only, and is not joined before.
        floating: joints whose plan is about velocities, bool `[D]`: it is shifted to where they have reached them.
        pace: rad/s, `[D]`, at which joints come to a plan that rests.

    Returns:
        The motion, and by how much the plan was shifted, rad, `[D]`.

    """
    begin = plan.begin
    a = np.zeros(plan.dof) if present.acceleration is None else present.acceleration
    lack = [present.position - begin.position, present.velocity - begin.velocity, a - begin.acceleration]
    if not plan.with_accelerations:
        lack[2] = np.zeros(plan.dof)  # it jumps anyway
    beyond = np.stack([np.abs(part) > same for part, same in zip(lack, SAME, strict=True)])
    shift = np.zeros(plan.dof)
    pending = beyond.any(axis=0) | (earliest > 0)
    if not pending.any():
        return plan, shift
    floats = np.zeros(plan.dof, bool) if floating is None else floating & beyond[1:].any(axis=0)
    caps, moves = _speed_caps(_from(plan, earliest), lack, present, bounds, joining.catch_up, pace)
    problem = _Problem(plan, present, a, lack, bounds, caps, floats, moves, earliest)
    joined = plan
    if plan.with_accelerations:
        longest = max(joining.fade_times, default=0.0)
        release = min(_STEPS * float(plan.steps[0]), longest)
        for times, joints in (
            ((release, *reversed(joining.fade_times)), pending & ~beyond[:2].any(axis=0)),
            (joining.fade_times, pending & beyond[:2].any(axis=0)),
        ):
            for time in times:
                if joints.any() and time > 0 and time >= earliest:
                    joined, done, moved = _faded(joined, problem, joints, time)
                    shift += moved
                    joints = joints & ~done
                    pending = pending & ~done
        if not pending.any():
            return joined, shift
    tracks: dict[int, Track] = {}
    for joint in np.flatnonzero(pending).tolist():
        found = _floating_to(problem, joint) if floats[joint] else _reaching(problem, joint)
        if found is None:
            return None
        tracks[joint], shift[joint] = found
    motion = united(tracks, joined, with_accelerations=plan.with_accelerations, ends_at_rest=plan.ends_at_rest)
    return motion, shift


@dataclass(frozen=True)
class _Problem:
    """A join: what every way of joining is given."""

    plan: Motion
    present: State
    acceleration: np.ndarray
    lack: list[np.ndarray]
    """Position, velocity and acceleration of the present state beyond the plan's."""
    bounds: Bounds
    caps: np.ndarray
    floats: np.ndarray
    moves: np.ndarray
    """Whether the plan of a joint moves."""
    earliest: float
    """s; the plan holds from this time on."""

    @cached_property
    def stopping(self) -> np.ndarray:
        """Least and greatest positions during the fastest stop, `[2, D]`, rad; infinite where none is found."""
        state = self.present._replace(acceleration=self.acceleration)
        try:
            return extremes(fastest_stop(state, self.bounds.stopping, self.bounds.jerk))[:, 0]
        except ValueError:
            return np.array([[-np.inf], [np.inf]]) * np.ones(self.plan.dof)

    def start(self, joint: int) -> JointState:
        """The present state of one joint."""
        p, v, _ = self.present
        return JointState(float(p[joint]), float(v[joint]), float(self.acceleration[joint]))

    def bounds_of(self, joint: int) -> JointBounds:
        """Its bounds while it joins."""
        return self.bounds.of_joint(joint)._replace(velocity=float(self.caps[joint]))


def _speed_caps(
    plan: Motion,
    lack: list[np.ndarray],
    present: State,
    bounds: Bounds,
    catch_up: float,
    pace: np.ndarray | float,
) -> tuple[np.ndarray, np.ndarray]:
    """Largest speed of each joint while it joins, and whether its plan moves."""
    least, most = extremes(plan)
    own = np.maximum(most[1], -least[1])
    closing = np.maximum(np.abs(lack[0]) / _CLOSING_S + _SLOWEST * bounds.velocity, np.abs(present.velocity))
    moves = own > _SLOW
    caps = np.maximum(np.where(moves, catch_up * own, pace), closing)
    return np.minimum(caps, bounds.velocity), moves


def _from(motion: Motion, time: float) -> Motion:
    """The motion from a time on, s; all of it if that is not before its end."""
    return motion.from_time(time) if 0 < time < motion.duration else motion


# Fading


def _faded(joined: Motion, problem: _Problem, joints: np.ndarray, time: float) -> tuple[Motion, np.ndarray, np.ndarray]:
    """The motion with fading differences added where joints keep their limits, these joints, and shifts of plans."""
    plan = problem.plan
    nothing = np.zeros(plan.dof, bool), np.zeros(plan.dof)
    if time > plan.duration and not plan.ends_at_rest:
        return joined, *nothing
    longer = _with_knot(joined, time)
    count = int(np.searchsorted(longer.knots, time - SHORTEST_GAP))
    p, v, a = (np.where(joints, part, 0.0) for part in problem.lack)
    # Only the velocity fades, while the position goes wherever that leads.
    led = np.where(problem.floats, -(v * time / 2 + a * time**2 / 12), p)
    added = taylor_shift(longer.knots[:count], DEGREE) @ _fading_quintic(led, v, a, time)
    total = raised(longer.coefficients, DEGREE)
    candidate = total[:count] + added
    candidate[:, 0] += p - led
    columns = np.flatnonzero(joints)
    good = _keeps(candidate[:, :, columns], longer.steps[:count], columns, problem.bounds, problem.caps)
    # What is added leads back by no more than its own way there and back.
    small = 2 * (np.abs(p) + np.abs(v) * time + np.abs(a) * time**2).max() <= RETREAT_RAD
    if good.any() and not small:
        began = columns[good]
        way = Motion(longer.knots[: count + 1], candidate[:, :, began])
        good[good] = ~_retreats(way, problem, began)
    done = np.zeros(plan.dof, bool)
    done[columns[good]] = True
    if not done.any():
        return joined, *nothing
    total = total.copy()
    total[:count, :, done] = candidate[:, :, done]
    moved = np.where(done, p - led, 0.0)
    total[count:, 0] += moved
    return Motion(longer.knots, total, joined.with_accelerations, longer.ends_at_rest), done, moved


def _fading_quintic(p: np.ndarray, v: np.ndarray, a: np.ndarray, span: float) -> np.ndarray:
    """Coefficients `[6, D]` of the quintic from a state to 0 in position, velocity and acceleration."""
    q, w, u = p / span**3, v / span**2, a / (2 * span)
    return np.array(
        [p, v, a / 2, -10 * q - 6 * w - 3 * u, (15 * q + 8 * w + 3 * u) / span, (-6 * q - 3 * w - u) / span**2]
    )


def _with_knot(motion: Motion, time: float) -> Motion:
    """The same motion with a knot at a time, s; prolonged by rest if it is shorter."""
    knots, degree = motion.knots, motion.degree
    at = int(np.searchsorted(knots, time))
    if (at < len(knots) and knots[at] - time < SHORTEST_GAP) or (at > 0 and time - knots[at - 1] < SHORTEST_GAP):
        return motion
    if at == len(knots):
        piece = np.zeros((1, degree + 1, motion.dof))
        piece[0, 0] = motion.end.position
        return Motion(
            np.append(knots, time), np.concatenate([motion.coefficients, piece]), motion.with_accelerations, True
        )
    piece = taylor_shift(np.array([time - knots[at - 1]]), degree)[0] @ motion.coefficients[at - 1]
    return Motion(
        np.insert(knots, at, time),
        np.insert(motion.coefficients, at, piece, axis=0),
        motion.with_accelerations,
        motion.ends_at_rest,
    )


def _keeps(
    coefficients: np.ndarray, steps: np.ndarray, columns: np.ndarray, bounds: Bounds, caps: np.ndarray
) -> np.ndarray:
    """Which joints `[M]` of pieces `[N, 6, M]` keep their bounds everywhere."""
    knots = np.concatenate([[0.0], steps.cumsum()])
    motion = Motion(knots, np.ascontiguousarray(coefficients))
    least, most = extremes(motion)
    good = (least[0] >= bounds.position_min[columns] - _ROUNDING) & (
        most[0] <= bounds.position_max[columns] + _ROUNDING
    )
    for order, high in enumerate((caps, np.maximum(bounds.acceleration, bounds.stopping), bounds.jerk), 1):
        good &= np.maximum(most[order], -least[order]) <= high[columns] * (1 + _ROUNDING)
    if bounds.deceleration is not None and good.any():
        good &= bounds.steers(motion, columns) <= 1 + _ROUNDING
    return good


# Reaching


def _reaching(problem: _Problem, joint: int) -> tuple[Track, float] | None:
    """The fastest way to the earliest point of a plan that a joint can reach in time, and the plan from there on.

    To a plan that moves, a share of the bounds is kept for the next plan, which may slow down earlier than this one.
    """
    bounds = problem.bounds_of(joint)
    allowed = [bounds]
    both = problem.bounds.acceleration[joint], problem.bounds.stopping[joint]
    if both[0] != both[1]:
        bounds = bounds._replace(acceleration=float(both[0]), deceleration=float(both[1]))
        allowed.insert(0, bounds)
    if problem.moves[joint]:
        allowed.insert(0, bounds.shared(_SHARE))
    good: list[tuple[float, Track]] = []
    flawed = None
    for these in allowed:
        for number, (time, way, is_flawed) in enumerate(_ways_within(problem, joint, these)):
            if not is_flawed:
                good.append((time, way))
                break
            flawed = way if number == 0 else flawed
        if good and number == 0:
            break  # with as little as this, and at the earliest
    best = min(good, key=lambda it: it[0])[1] if good else flawed
    return None if best is None else (best, 0.0)


def _ways_within(problem: _Problem, joint: int, bounds: JointBounds) -> Iterator[tuple[float, Track, bool]]:
    """Yield when, s, and how a joint comes to later and later points of a plan, followed by what is left of it.

    And whether that is flawed: it goes back, or is too fast, as from a state that cannot slow down in time.
    """
    plan = track_of(problem.plan, joint)
    reach = Reach(problem.start(joint), bounds)
    one = np.array([joint])
    at = _Evaluated(plan)
    latest = float(plan.knots[-1])
    needed = reach.least_duration(at(latest)) if problem.plan.ends_at_rest else None
    rests = needed is not None  # it may be too far away for that, and still be reached before
    fastest = max(bounds.velocity, abs(problem.start(joint).velocity)) * (1 + _BARELY)
    if rests:
        latest = max(latest, needed)

    def reaches(target: JointState, time: float) -> bool:
        return reach.reach(target, time) or (rests and time >= latest)

    time = _earliest(reaches, at, max(problem.earliest, _SHORTEST_S), latest)
    if time is None:
        return
    for _ in range(_MOST_TRIES):
        at_last = rests and time >= latest
        if at_last:  # at rest it may be there before: not every longer time is possible
            time = reach.least_duration(at(latest))
        time = np.ceil(time * 1e9) * 1e-9
        if at_last or reach.reach(at(time), time):
            way = reach.track(at(latest if at_last else time), time)
            motion = Motion(way.knots, way.coefficients[:, :, None])
            least, most = extremes(motion)[:, :3, 0]
            inside = least[0] >= bounds.position_min - _ROUNDING and most[0] <= bounds.position_max + _ROUNDING
            steered = bounds.deceleration is None or max(most[2], -least[2]) <= problem.bounds.either[joint]
            if inside and (steered or problem.bounds.steers(motion, one)[0] <= 1 + _BARELY):
                too_fast = max(most[1], -least[1]) > fastest
                whole = way if at_last else _then(way, plan)
                yield time, whole, too_fast or bool(_retreats(motion, problem, one)[0])
        if at_last or time >= latest:
            break
        time = min(max(time * _LATER, time + 0.01), latest)


def _floating_to(problem: _Problem, joint: int) -> tuple[Track, float] | None:
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
        piece = min(int(np.searchsorted(track.knots, time, side="right")) - 1, len(knots) - 2)
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
    rest[0] = taylor_shift(np.array([time - plan.knots[first]]), DEGREE)[0] @ rest[0]
    return Track(np.concatenate([way.knots, plan.knots[first + 1 :]]), np.concatenate([way.coefficients, rest]))


# No way back


def _retreats(way: Motion, problem: _Problem, joints: np.ndarray) -> np.ndarray:
    """Whether joints `[M]` go back on their way to plans that go forward, or beyond plans that rest: bool `[M]`.

    Forward is where the plan goes; if it hardly moves, where it is. What a joint cannot help in its state is allowed.
    """
    plan, begin = _columns(problem.plan, joints), way.begin
    ahead = np.linspace(problem.earliest, max(way.duration, problem.earliest + _OUTLOOK_S), _SAMPLES)
    planned, moved = _positions(plan, ahead), _positions(way, np.linspace(0.0, way.duration, _SAMPLES))
    total, gap = planned[-1] - planned[0], planned[-1] - begin.position
    total = np.where(np.abs(total) > _FORWARD * np.abs(gap), total, gap)
    sign = np.where(total < 0, -1.0, 1.0)
    own, back = retreat(sign * planned), retreat(sign * moved)
    low, high = problem.stopping[:, joints]
    forward = own <= np.maximum(_FORWARD * np.abs(total), np.minimum(_RINGS, np.abs(total) / 2))
    rolls = np.where(sign > 0, begin.position - low, high - begin.position)
    goes_back = forward & (back > RETREAT * (own + rolls) + RETREAT_RAD)
    swings = np.abs(planned - planned[-1]).max(axis=0)
    least = np.minimum(planned.min(axis=0), low), moved.min(axis=0)
    most = np.maximum(planned.max(axis=0), high), moved.max(axis=0)
    beyond = np.maximum(most[1] - most[0], least[0] - least[1]) > (RETREAT - 1) * swings + RETREAT_RAD
    return goes_back | (beyond & (swings <= _RINGS))


def _columns(motion: Motion, joints: np.ndarray) -> Motion:
    """Some joints of a motion."""
    return Motion(motion.knots, motion.coefficients[:, :, joints])


def _positions(motion: Motion, times: np.ndarray) -> np.ndarray:
    """Positions at times, s, that ascend, `[T, M]`; at rest from the end on."""
    piece = np.clip(np.searchsorted(motion.knots, times, side="right") - 1, 0, len(motion.coefficients) - 1)
    t = (np.minimum(times, motion.knots[-1]) - motion.knots[piece])[:, None]
    position = np.zeros((len(times), motion.dof))
    for power in range(motion.degree, -1, -1):
        position = position * t + motion.coefficients[piece, power]
    return position


def retreat(positions: np.ndarray) -> np.ndarray:
    """The longest way back of each joint in positions `[T, M]`, rad, `[M]`."""
    return (np.maximum.accumulate(positions, axis=0) - positions).max(axis=0)
