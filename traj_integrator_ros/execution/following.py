"""The blend from the present command to a plan: the smoothest one within limits, each joint by itself.

The difference e between command and plan has the least integral of e^2 + 3 tau^2 e'^2 + 3 tau^4 e''^2 + tau^6 e'''^2.
Without limits it decays as three critically damped poles at the bandwidth 1 / (2 pi tau). Its jerk is piecewise
constant.
Position, velocity, acceleration and jerk of the sum stay within bounds, also between knots. A joint on its plan stays
on it to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from . import native
from .bounds import Bounds
from .limits import extremes, extremes_of_pieces, keeping, keeps
from .motion import Motion, State, resting
from .polynomials import SIZE, spaced, taylor_shift, to_nothing
from .stopping import fastest_stop
from .tolerances import MOMENT_S, NANOSECOND_S, ROUNDING, SAME, SECOND_NS
from .tracking import Way, track

_INTERVAL_S = 0.02
"""Longest interval of constant jerk, s: halving it changes rms accelerations by less than 0.1 %."""
_FIRST_S = 2e-4
"""Smallest time, s, at which a knot of the plan begins an interval."""
_INTERVALS = 200
"""Largest number of intervals; in a long blend, they are longer instead."""
_HORIZON = 18.0
"""Duration of a blend without limits, in units of tau: three poles leave 3e-6 of the difference."""
_LONGEST_S = 40.0
"""Longest blend, s."""
_OF_VELOCITY = 0.5
"""Share of the largest velocity with which the time for closing a gap is estimated."""
_AT_END = 1e6
"""Weight of the difference at the end of the horizon, relative to its weight over a time of tau."""
_LEFT = 1e-3
"""Share of the largest difference (or of 1 mrad) that may be left at the end of the horizon; a quintic removes it."""
_ROUNDS = 7
"""Largest number of solutions: after each, bounds at knots are tightened where the motion exceeds them in between."""
_BEYOND = np.array([5e-8, 2e-4, 2e-4, 2e-4])
"""Excess of bounds between knots that is accepted: rad, then shares of velocity, acceleration and jerk."""
_TIGHTER = 2.0
"""Ratio by which a bound is tightened more than it was exceeded, since the neighbouring knots give way."""
_SPARE = 1e-4
"""Share by which bounds are widened, so that a plan that uses a limit completely counts as within it."""
_TURNS_RAD = 1e-3
"""Distance, rad or m, beyond which a plan that goes back counts as one that turns; less is its ringing."""
_TURNS_SHARE = 0.01
"""The same as a share of the distance that the plan covers."""
_REST_RAD = 1e-6
"""Distance, rad or m, beyond the rest of a plan that counts as rounding."""
_BACK_RAD = 2e-5
"""Distance, rad or m, of going back that counts as none."""
_TURNED = ((-1.0) ** np.arange(SIZE))[:, None]
"""Signs of the derivatives of a motion that is played backwards."""


class Followed(NamedTuple):
    """A blend from the command to a plan, and the motion along it."""

    motion: Motion
    shift: np.ndarray
    """Shift of the plan's end, rad, `[D]`: not 0 for joints that follow velocities, or whose plan ends beyond a limit.
    """
    apart: np.ndarray
    """Largest distance from a plan beyond bounds that the bounds add, rad, `[D]`; 0 for plans within them."""


def follow(
    start: State, plan: Motion, bounds: Bounds, bandwidth: float, floating: np.ndarray | None = None
) -> Followed | None:
    """Return the motion that begins in a state and blends into a plan; None if a joint cannot reach the plan.

    Args:
        start: the commanded state when the plan begins, with an acceleration.
        plan: from its beginning on; its part before `plan_from` is not followed.
        bounds: of the motion. Where they cannot be kept, it exceeds them by as little as possible.
        bandwidth: of the decay of differences, Hz.
        floating: joints that follow velocities only, bool `[D]`, so that their position is where these lead; None: no
            joint does.

    """
    difference = start.beyond(plan.begin)
    if not plan.with_accelerations:  # it jumps in any case
        difference[2] = 0.0
    off = (np.abs(difference) > SAME).any(axis=0)
    floats = np.zeros(plan.dof, bool) if floating is None else floating & (np.abs(difference) > SAME)[1:].any(axis=0)
    if floating is not None:
        floats = floats | (floating & (plan.plan_from > 0))
    inside = _inside(plan, bounds)
    joints = off | ~inside | (plan.plan_from > 0)
    if not np.count_nonzero(joints):  # a quarter of the time of any(), for every sequence
        return Followed(plan, np.zeros(plan.dof), np.zeros(plan.dof))
    if floating is not None and (alone := floating & ~floats).any():
        plan = plan.moved(np.where(alone, difference[0], 0.0))  # its velocity is reached already
    tau = 1 / (2 * np.pi * bandwidth)
    closing = np.abs(difference[0]) / (_OF_VELOCITY * bounds.velocity)
    until = plan.plan_from + _HORIZON * tau + float(closing.max(where=joints & ~floats, initial=0.0))
    if not inside.all():
        until = max(until, _last_beyond(plan, bounds) + _HORIZON * tau)
    while until < _LONGEST_S:
        until = _end(plan, until)
        problem = _Problem(start, difference, plan, bounds, tau, floats, joints, inside, until)
        for forward in (True, False):
            if (found := problem.solved(forward=forward)) is not None:
                return found
        if not plan.ends_at_rest and until >= plan.duration:
            break
        until *= 2
    return None


def _inside(plan: Motion, bounds: Bounds) -> np.ndarray:
    """Return which joints keep bounds in the plan, bool `[D]`."""
    valid = plan.valid
    kept = keeping(valid, bounds.sides + _slack(bounds))
    if bounds.deceleration is not None and kept.any():
        kept = kept & (bounds.steers(valid) <= 1 + _SPARE)
    return kept


def _slack(bounds: Bounds) -> np.ndarray:
    """Return by how much plans may exceed bounds, `[2, 4, D]`."""
    slack = _SPARE * np.abs(bounds.sides)
    slack[:, 0] = 0.0
    slack[0] *= -1
    return slack


def _last_beyond(plan: Motion, bounds: Bounds) -> float:
    """Return when the last segment of a plan that exceeds bounds ends, s."""
    least, most = extremes_of_pieces(plan)
    sides = bounds.sides + _slack(bounds)
    beyond = ((least < sides[0]) | (most > sides[1])).any(axis=(1, 2))
    return float(plan.knots[1:][beyond].max(initial=0.0)) or plan.duration


def _end(plan: Motion, until: float) -> float:
    """Return the end of a horizon, s, moved where it would be within a millisecond of the end of the plan."""
    until = round(until * SECOND_NS) * NANOSECOND_S
    if not plan.ends_at_rest:
        return min(until, plan.duration) if until < plan.duration - MOMENT_S else plan.duration
    if abs(until - plan.duration) < MOMENT_S:
        return plan.duration + MOMENT_S
    return until


def _grid(plan: Motion, until: float) -> np.ndarray:
    """Return the knots of the difference, s: the plan's, without close ones, and more of them in long intervals."""
    longest = max(_INTERVAL_S, until / _INTERVALS)
    inner = plan.knots[: int(plan.knots.searchsorted(until - MOMENT_S))]
    kept = spaced(np.append(inner, until), longest / 4)
    if len(inner) > 1 and _FIRST_S < inner[1] < kept[1]:  # before it the command cannot yet turn for what comes after
        kept = np.insert(kept, 1, inner[1])
    gaps = np.diff(kept)
    counts = np.ceil(gaps / longest - 1e-6).astype(int)
    within = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    grid = np.repeat(kept[:-1], counts) + within * np.repeat(gaps / counts, counts)
    return np.append(np.rint(grid * SECOND_NS) * NANOSECOND_S, until)


def _on(motion: Motion, knots: np.ndarray) -> np.ndarray:
    """Return the coefficients `[n, SIZE, D]` of a motion between finer knots, which include its own."""
    middle = (knots[:-1] + knots[1:]) / 2
    piece = np.clip(motion.knots.searchsorted(middle, side="right") - 1, 0, len(motion.coefficients) - 1)
    by, of_pieces = knots[:-1] - motion.knots[piece], motion.coefficients[piece]
    if np.count_nonzero(by):
        of_pieces = taylor_shift(by, motion.size) @ of_pieces
    if motion.size == SIZE:
        return of_pieces
    raised = np.zeros((len(piece), SIZE, motion.dof))
    raised[:, : motion.size] = of_pieces
    return raised


class _Problem:
    """The blend to a plan within a horizon."""

    def __init__(
        self,
        start: State,
        difference: np.ndarray,
        plan: Motion,
        bounds: Bounds,
        tau: float,
        floats: np.ndarray,
        joints: np.ndarray,
        inside: np.ndarray,
        until: float,
    ) -> None:
        self.start, self.difference, self.plan, self.bounds = start, difference, plan, bounds
        self.tau, self.floats, self.joints, self.inside, self.until = tau, floats, joints, inside, until
        end, sides = plan.end.position, bounds.sides[:, 0]
        rests_outside = plan.ends_at_rest and until > plan.duration
        self.moved = floats | (rests_outside & ((end < sides[0]) | (end > sides[1])))
        """Joints that end elsewhere than their plan: they follow velocities, or the plan ends beyond a limit."""
        whole = (
            plan if until <= plan.duration else plan.raised().then(resting(plan.end.position, until - plan.duration))
        )
        self.grid = grid = _grid(plan, until)
        knots = plan.knots[(plan.knots > 0) & (plan.knots < until - ROUNDING)]
        union = np.unique(np.concatenate([grid, knots]))
        self.union = union = union[np.append(np.diff(union) > ROUNDING, True)]
        union[-1] = until
        self.first = union.searchsorted(grid[:-1] - ROUNDING)
        """First segment of each interval."""
        self.owner = np.repeat(np.arange(len(grid) - 1), np.diff(np.append(self.first, len(union) - 1)))
        """Interval of each segment."""
        self.of_plan = _on(whole, union)
        self.low, self.high = self._bounds()

    def solved(self, *, forward: bool) -> Followed | None:
        """Return the motion, with `forward` one that goes back only if the plan does; None: too short a horizon."""
        joints = np.flatnonzero(self.joints)
        weights = self._weights(joints)
        endless = np.full((4, len(self.grid) - 1, len(joints)), np.inf)
        free = self._tracked(joints, weights, -endless, endless)
        low, high = self.low[:, :, joints].copy(), self.high[:, :, joints].copy()
        if forward:
            self._go_forward(joints, free, low, high)
        way, apart = free, np.zeros(self.plan.dof)
        pending = self._beyond(joints, free, low, high)
        for _ in range(_ROUNDS):
            if not len(pending):
                break
            among = joints[pending]
            found = self._tracked(among, weights[:, :, pending], low[:, :, pending], high[:, :, pending])
            way = _with(way, pending, found)
            pending = pending[self._tighten(among, found, low, high, pending)]
        ends, size = np.abs(way.states[-1]), np.abs(way.states[:, 0]).max(axis=0)
        ends[0, self.moved[joints]] = 0.0
        if (ends * self.tau ** np.arange(3)[:, None] > _LEFT * np.maximum(size, _LEFT)).any():
            return None
        apart[joints] = np.abs(way.states[:, 0] - free.states[:, 0]).max(axis=0)
        apart[self.inside] = 0.0
        return self._sum(joints, way, apart)

    def _tracked(self, joints: np.ndarray, weights: np.ndarray, low: np.ndarray, high: np.ndarray) -> Way:
        start = np.ascontiguousarray(self.difference[:, joints])
        return track(np.diff(self.grid), weights, self.tau**6, start, low, high, self.tau)

    def _weights(self, joints: np.ndarray) -> np.ndarray:
        """Return the weights of the difference and its derivatives at knots, `[M, 3, joints]`."""
        steps, tau = np.diff(self.grid), self.tau
        each = np.append((steps[1:] + steps[:-1]) / 2, steps[-1] / 2)
        each[self.grid[1:] < self.plan.plan_from - ROUNDING] = 0.0
        of_all = np.where(self.floats[joints], [[0.0], [1.0], [2.0]], [[1.0], [3.0], [3.0]])
        weights = each[:, None, None] * of_all
        weights[-1] += _AT_END * tau * np.where(self.moved[joints], [[0.0], [1.0], [1.0]], 1.0)
        return weights * (tau ** np.array([0.0, 2.0, 4.0]))[:, None]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the difference, of its derivatives and, in intervals, of its jerk, `[4, M, D]` each."""
        c, s, bounds = self.of_plan, np.diff(self.union)[:, None], self.bounds
        position = c[:, 0] + s * (c[:, 1] + s * (c[:, 2] + s * (c[:, 3] + s * (c[:, 4] + s * c[:, 5]))))
        velocity = c[:, 1] + s * (2 * c[:, 2] + s * (3 * c[:, 3] + s * (4 * c[:, 4] + s * 5 * c[:, 5])))
        acceleration = 2 * c[:, 2] + s * (6 * c[:, 3] + s * (12 * c[:, 4] + s * 20 * c[:, 5]))
        last = np.append(self.first[1:], len(s)) - 1
        self.place, self.speed = position[last], velocity[last]
        of_begin = 2 * np.append(c[self.first[1:], 2], c[-1:, 2] * 0, axis=0)
        of_begin[-1] = acceleration[-1]
        jerks = np.stack([6 * c[:, 3], 6 * c[:, 3] + 24 * c[:, 4] * s + 60 * c[:, 5] * s * s])
        least, most = np.minimum.reduceat(jerks.min(0), self.first), np.maximum.reduceat(jerks.max(0), self.first)
        sides = bounds.sides + _slack(bounds)
        low, high = np.empty((2, 4, *self.place.shape))
        low[0], high[0] = sides[0, 0] - self.place, sides[1, 0] - self.place
        low[1], high[1] = sides[0, 1] - self.speed, sides[1, 1] - self.speed
        self.least, self.most = np.tile(sides[:, 2][:, None], (1, len(last), 1))
        """Least and greatest acceleration in each interval, `[M, D]`."""
        if bounds.deceleration is not None:  # a plan may slow down faster than joints speed up
            ends = np.stack([2 * c[:, 2], acceleration])
            self.least = np.minimum(self.least, np.minimum.reduceat(ends.min(0), self.first))
            self.most = np.maximum(self.most, np.maximum.reduceat(ends.max(0), self.first))
        beside = np.append(np.arange(1, len(last)), len(last) - 1)
        low[2] = np.maximum(self.least, self.least[beside]) - np.minimum(acceleration[last], of_begin)
        high[2] = np.minimum(self.most, self.most[beside]) - np.maximum(acceleration[last], of_begin)
        low[3], high[3] = sides[0, 3] - least, sides[1, 3] - most
        crossed = low > high  # the plan leaves no room: as near as possible
        low[crossed] = high[crossed] = (low[crossed] + high[crossed]) / 2
        return low, high

    def _go_forward(self, joints: np.ndarray, free: Way, low: np.ndarray, high: np.ndarray) -> None:
        """Let no joint go back to meet a plan that goes forward from there, nor pass the place where its plan rests."""
        try:
            stop = extremes(fastest_stop(self.start, self.bounds))[:, 0]
        except ValueError:
            return
        first = max(self.plan.plan_from, float(self.plan.knots[1]) if len(self.plan.knots) > 2 else 0.0)
        begin = min(int(self.grid[1:].searchsorted(first - ROUNDING)), len(self.place) - 1)
        ahead, start, floats = self.place[begin:], self.start, self.floats
        falls = (np.maximum.accumulate(ahead) - ahead).max(axis=0)
        rises = (ahead - np.minimum.accumulate(ahead)).max(axis=0)
        ringing = np.maximum(_TURNS_RAD, _TURNS_SHARE * (ahead.max(axis=0) - ahead.min(axis=0)))
        up, down = falls <= ringing, rises <= ringing
        onward = np.sign(np.where(floats, start.velocity, ahead[-1] - start.position))
        way = np.where(up & down, onward, np.where(up, 1.0, np.where(down, -1.0, 0.0)))
        farthest = np.where(way > 0, ahead.max(axis=0), -ahead.min(axis=0))
        passed = np.where(way > 0, stop[1], -stop[0])
        """Earliest place where the joint can stop; if the plan rests before it, the joint has to come back."""
        behind = ~floats & (farthest < start.position * way - _BACK_RAD)
        for index, joint in enumerate(joints.tolist()):
            sign, since, speed = way[joint], 0, self.speed[:, joint]
            if not sign or behind[joint]:
                continue
            back = start.position[joint] - stop[0, joint] if sign > 0 else stop[1, joint] - start.position[joint]
            velocity = (free.states[1:, 1, index] + speed) * sign
            if back > _BACK_RAD and (turned := velocity < 0).any():  # it is turning already, whatever it does
                at = int(turned.argmax())
                since = len(velocity) if turned[at:].all() else at + int(turned[at:].argmin())
            side, rest = (low, high) if sign > 0 else (high, low)
            if floats[joint] or passed[joint] <= farthest[joint] + _BACK_RAD:
                bound = -sign * np.maximum(sign * speed[since:], 0.0)
                side[1, since:, index] = sign * np.maximum(sign * side[1, since:, index], sign * bound)
            if self.plan.ends_at_rest and not floats[joint]:
                most = max(farthest[joint], passed[joint]) + _REST_RAD - sign * self.place[:, joint]
                rest[0, :, index] = sign * np.minimum(sign * rest[0, :, index], most)

    def _beyond(self, joints: np.ndarray, free: Way, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Return the indices of joints that exceed bounds in the free blend; tightens their bounds between knots."""
        at_knots = free.states[1:].transpose(1, 0, 2)
        found = ((at_knots < low[:3]) | (at_knots > high[:3])).any(axis=(0, 1))
        found |= ((free.jerks < low[3]) | (free.jerks > high[3])).any(axis=0)
        others = np.flatnonzero(~found)
        part = free._replace(states=free.states[:, :, others], jerks=free.jerks[:, others])
        found[others] = self._tighten(joints[others], part, low, high, others)
        return np.flatnonzero(found)

    def _tighten(
        self, joints: np.ndarray, way: Way, low: np.ndarray, high: np.ndarray, columns: np.ndarray
    ) -> np.ndarray:
        """Tighten bounds at the ends of intervals in which joints exceed them; returns which joints do, bool."""
        if not len(joints):
            return np.zeros(0, bool)
        motion = self._motion(joints, way)
        sides = self.bounds.sides[:, :, joints]
        allowed = _BEYOND[:, None] * np.concatenate([np.ones((1, len(joints))), sides[1, 1:]])
        ranges = sides + np.stack([-allowed, allowed]) + _slack(self.bounds)[:, :, joints]
        if keeps(motion, np.ascontiguousarray(ranges)):
            return np.zeros(len(joints), bool)
        least, most = extremes_of_pieces(motion)
        least[:, 2] += sides[0, 2] - self.least[self.owner][:, joints]
        most[:, 2] += sides[1, 2] - self.most[self.owner][:, joints]
        count, found = len(self.grid) - 1, np.zeros(len(joints), bool)
        outside = self._outside(joints, way)
        for order in range(4):
            for bound, sign, excess in (
                (high, -1.0, most[:, order] - sides[1, order]), (low, 1.0, sides[0, order] - least[:, order])
            ):  # fmt: skip
                if not (over := ((excess > allowed[order]) & ~outside[self.owner]).any(axis=0)).any():
                    continue
                found |= over
                each = np.zeros((count, len(joints)))
                np.maximum.at(each, self.owner, np.where(over & (excess > 0.2 * allowed[order]), excess, 0.0))
                each[outside] = 0.0
                if order < 3:  # at a knot, of the intervals on both of its sides
                    each = np.maximum(each, np.append(each[1:], np.zeros((1, len(joints))), axis=0))
                bound[order][:, columns] += sign * _TIGHTER * each
        return found

    def _outside(self, joints: np.ndarray, way: Way) -> np.ndarray:
        """Return which intervals begin or end beyond bounds that cannot be kept, bool `[M, joints]`."""
        states = way.states[1:].transpose(1, 0, 2)
        low, high = self.low[:2][:, :, joints], self.high[:2][:, :, joints]
        room = _BEYOND[:2, None, None] * np.stack([np.ones(len(joints)), self.bounds.velocity[joints]])[:, None]
        at_knots = ((states[:2] < low - room) | (states[:2] > high + room)).any(axis=0)
        start = np.array(self.start.known)[:, joints]
        sides = self.bounds.sides[:, :3, joints] + _slack(self.bounds)[:, :3, joints]
        at_start = ((start < sides[0]) | (start > sides[1])).any(axis=0)
        return at_knots | np.vstack([at_start, at_knots[:-1]])

    def _motion(self, joints: np.ndarray, way: Way) -> Motion:
        """Return the chosen joints of the plan plus their difference, within the horizon."""
        steps = len(self.grid) - 1
        added = np.zeros((steps, SIZE, len(joints)))
        added[:, 0], added[:, 1] = way.states[:-1, 0], way.states[:-1, 1]
        added[:, 2], added[:, 3] = way.states[:-1, 2] / 2, way.jerks / 6
        if len(self.union) > len(self.grid):
            added = _on(Motion(self.grid, added), self.union)
        return Motion(self.union, np.ascontiguousarray(self.of_plan[:, :, joints] + added))

    def _sum(self, joints: np.ndarray, way: Way, apart: np.ndarray) -> Followed:
        """Return the plan plus the difference, and the rest of the plan after the horizon."""
        plan, ends, shift = self.plan, way.states[-1].copy(), np.zeros(self.plan.dof)
        moved_joints = self.moved[joints]
        shift[joints[moved_joints]] = ends[0, moved_joints]
        ends[0, moved_joints] = 0.0
        moved = self._motion(joints, way).coefficients
        # What is left at the end goes over all of the time: the quintic to nothing, backwards.
        turned = (to_nothing(self.until) @ (ends * _TURNED[:3])) * _TURNED
        left = np.ascontiguousarray(taylor_shift(np.array([-self.until]), SIZE)[0] @ turned)
        native.add(-left, np.ascontiguousarray(self.union[:-1]), moved)
        coefficients = self.of_plan.copy()
        coefficients[:, :, joints] = moved
        begin = np.array(self.start.known) * np.array([[1.0], [1.0], [0.5]])
        exact = joints if plan.with_accelerations else joints[:0]
        coefficients[0, :3, exact] = begin[:, exact].T  # without rounding
        motion = Motion(self.union, coefficients, plan.with_accelerations, plan.ends_at_rest)
        if self.until < plan.duration:
            motion = motion.then(plan.from_time(self.until).moved(shift).raised())
        motion = motion._replace(ends_at_rest=plan.ends_at_rest, plan_from=plan.plan_from, plan_until=plan.plan_until)
        return Followed(motion, shift, apart)


def _with(way: Way, columns: np.ndarray, found: Way) -> Way:
    """Return a blend in which some joints are replaced."""
    states, jerks = way.states.copy(), way.jerks.copy()
    states[:, :, columns], jerks[:, columns] = found.states, found.jerks
    return way._replace(states=states, jerks=jerks)
