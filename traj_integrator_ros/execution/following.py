"""The blend from the present command to a plan: the smoothest one within limits, each joint by itself.

The difference e between command and plan has the least integral of e^2 + 3 tau^2 e'^2 + 3 tau^4 e''^2 + tau^6 e'''^2.
Without limits it decays as three critically damped poles at the bandwidth 1 / (2 pi tau). Its jerk is piecewise
constant.
Position, velocity, acceleration and jerk of the sum stay within bounds, also between knots. A joint on its plan stays
on it to the last bit.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from .bounds import Bounds
from .limits import OUTWARD, extremes, extremes_of_pieces, keeping, keeps
from .motion import Motion, State, resting
from .polynomials import FACTORIALS, spaced
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
_ROUNDS = 8
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
"""Distance, rad or m, beyond the rest of a plan, or back within tau, that counts as rounding."""
_BACK_RAD = 2e-5
"""Distance, rad or m, of going back that counts as none."""


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
    off, leads, shift = np.abs(difference) > SAME, plan.plan_from > 0, np.zeros(plan.dof)
    floats = np.zeros(plan.dof, bool) if floating is None else floating & (off[1:].any(axis=0) | leads)
    if floating is not None and (alone := floating & ~floats).any():  # its velocity is reached already
        shift = np.where(alone, difference[0], 0.0)
        plan, difference[0], off[0] = plan.moved(shift), difference[0] - shift, off[0] & ~alone
    inside = _inside(plan, bounds)
    joints = off.any(axis=0) | ~inside | leads
    if not np.count_nonzero(joints):  # a quarter of the time of any(), for every sequence
        return Followed(plan, shift, np.zeros(plan.dof))
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
                return found._replace(shift=found.shift + shift)
        if not plan.ends_at_rest and until >= plan.duration:
            break
        until *= 2
    return None


def _widened(bounds: Bounds) -> np.ndarray:
    """Return bounds, `[2, 4, D]`, with what plans may exceed them."""
    slack = _SPARE * np.abs(bounds.sides)
    slack[:, 0] = 0.0
    return bounds.sides + slack * OUTWARD


def _inside(plan: Motion, bounds: Bounds) -> np.ndarray:
    """Return which joints keep bounds in the plan, bool `[D]`."""
    kept = keeping(plan.valid, _widened(bounds))
    if bounds.deceleration is not None and kept.any():
        kept = kept & (bounds.steers(plan.valid) <= 1 + _SPARE)
    return kept


def _last_beyond(plan: Motion, bounds: Bounds) -> float:
    """Return when the last segment of a plan that exceeds bounds ends, s."""
    (least, most), (low, high) = extremes_of_pieces(plan), _widened(bounds)
    beyond = ((least < low) | (most > high)).any(axis=(1, 2))
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


@dataclass
class _Problem:
    """The blend to a plan within a horizon. A joint on its plan has no difference, and no bounds."""

    start: State
    difference: np.ndarray
    plan: Motion
    bounds: Bounds
    tau: float
    floats: np.ndarray
    joints: np.ndarray
    """Joints that are not on their plan, bool `[D]`."""
    inside: np.ndarray
    until: float

    def __post_init__(self) -> None:
        plan, until = self.plan, self.until
        end, (low, high) = plan.end.position, self.bounds.sides[:, 0]
        rests_outside = plan.ends_at_rest and until > plan.duration
        self.moved = self.floats | (rests_outside & ((end < low) | (end > high)))
        """Joints that end elsewhere than their plan: they follow velocities, or the plan ends beyond a limit."""
        self.grid = grid = _grid(plan, until)
        knots = plan.knots[(plan.knots > 0) & (plan.knots < until - ROUNDING)]
        union = np.unique(np.concatenate([grid, knots]))
        self.union = union = union[np.append(np.diff(union) > ROUNDING, True)]
        union[-1] = until
        self.first = union.searchsorted(grid[:-1] - ROUNDING)
        """First segment of each interval."""
        self.owner = np.repeat(np.arange(len(grid) - 1), np.diff(np.append(self.first, len(union) - 1)))
        """Interval of each segment."""
        whole = plan if until <= plan.duration else plan.then(resting(end, until - plan.duration))
        self.of_plan = whole.at_knots(union).raised()
        self.low, self.high = self._bounds()

    def solved(self, *, forward: bool) -> Followed | None:
        """Return the motion, with `forward` one that goes back only if the plan does; None: too short a horizon."""
        pending = np.flatnonzero(self.joints)
        low, high = self.low.copy(), self.high.copy()
        free = self._tracked(slice(None), np.full_like(low, -np.inf), np.full_like(high, np.inf))
        if forward:
            self._go_forward(free, low, high)
        way = free._replace(states=free.states.copy(), jerks=free.jerks.copy())
        for _ in range(_ROUNDS):
            if not len(pending):
                break
            found = self._tracked(pending, low, high)
            way.states[:, :, pending], way.jerks[:, pending] = found.states, found.jerks
            pending = pending[self._tighten(pending, way, low, high)]
        ends, size = np.abs(way.states[-1]), np.abs(way.states[:, 0]).max(axis=0)
        ends[0, self.moved] = 0.0
        if (ends * self.tau ** np.arange(3)[:, None] > _LEFT * np.maximum(size, _LEFT)).any():
            return None
        apart = np.where(self.inside, 0.0, np.abs(way.states[:, 0] - free.states[:, 0]).max(axis=0))
        return self._followed(way, apart)

    def _tracked(self, joints: np.ndarray | slice, low: np.ndarray, high: np.ndarray) -> Way:
        """Return the difference of the chosen joints."""
        tau, steps = self.tau, np.diff(self.grid)
        each = np.append((steps[1:] + steps[:-1]) / 2, steps[-1] / 2)
        each[self.grid[1:] < self.plan.plan_from - ROUNDING] = 0.0
        weights = each[:, None, None] * np.where(self.floats, [[0.0], [1.0], [2.0]], [[1.0], [3.0], [3.0]])
        weights[-1] += _AT_END * tau * np.where(self.moved, [[0.0], [1.0], [1.0]], 1.0)
        weights *= (tau ** np.array([0.0, 2.0, 4.0]))[:, None]
        chosen = (part[..., joints] for part in (weights, self.difference, low, high))
        weights, start, low, high = chosen
        return track(steps, weights, start, low, high, tau)

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Return bounds of the difference, of its derivatives and, in intervals, of its jerk, `[4, M, D]` each."""
        first, begins, ends = self.first, self.of_plan.begins, self.of_plan.ends
        last = np.append(first[1:], len(ends)) - 1
        self.place, self.speed, slows, _ = np.moveaxis(ends[last], 1, 0)
        turns = np.append(begins[first[1:], 2], ends[-1:, 2], axis=0)
        low, high = _widened(self.bounds)
        self.least, self.most = (np.tile(side[2], (len(last), 1)) for side in (low, high))
        """Least and greatest acceleration in each interval, `[M, D]`."""
        if self.bounds.deceleration is not None:  # a plan may slow down faster than joints speed up
            self.least = np.minimum(self.least, np.minimum.reduceat(np.minimum(begins, ends)[:, 2], first))
            self.most = np.maximum(self.most, np.maximum.reduceat(np.maximum(begins, ends)[:, 2], first))
        beside = np.append(np.arange(1, len(last)), len(last) - 1)
        of_jerk = np.minimum(begins, ends)[:, 3], np.maximum(begins, ends)[:, 3]
        low = np.stack([
            low[0] - self.place,
            low[1] - self.speed,
            np.maximum(self.least, self.least[beside]) - np.minimum(slows, turns),
            low[3] - np.minimum.reduceat(of_jerk[0], first),
        ])  # fmt: skip
        high = np.stack([
            high[0] - self.place,
            high[1] - self.speed,
            np.minimum(self.most, self.most[beside]) - np.maximum(slows, turns),
            high[3] - np.maximum.reduceat(of_jerk[1], first),
        ])  # fmt: skip
        crossed = low > high  # the plan leaves no room: as near as possible
        low[crossed] = high[crossed] = (low[crossed] + high[crossed]) / 2
        low[:, :, ~self.joints], high[:, :, ~self.joints] = -np.inf, np.inf
        return low, high

    def _go_forward(self, free: Way, low: np.ndarray, high: np.ndarray) -> None:
        """Let no joint go back to meet a plan that goes forward from there, nor pass the place where its plan rests."""
        plan, floats, (position, velocity, _) = self.plan, self.floats, self.start
        try:
            stop = extremes(fastest_stop(self.start, self.bounds))[:, 0]
        except ValueError:
            return
        first = max(plan.plan_from, float(plan.knots[1]) if len(plan.knots) > 2 else 0.0)
        ahead = self.place[min(int(self.grid[1:].searchsorted(first - ROUNDING)), len(self.place) - 1) :]
        falls = (np.maximum.accumulate(ahead) - ahead).max(axis=0)
        rises = (ahead - np.minimum.accumulate(ahead)).max(axis=0)
        ringing = np.maximum(_TURNS_RAD, _TURNS_SHARE * np.ptp(ahead, axis=0))
        up, down = falls <= ringing, rises <= ringing
        onward = np.sign(np.where(floats, velocity, ahead[-1] - position))
        way = np.where(up & down, onward, np.where(up, 1.0, np.where(down, -1.0, 0.0)))
        farthest = np.where(way > 0, ahead.max(axis=0), -ahead.min(axis=0))
        passed = np.where(way > 0, stop[1], -stop[0])
        """Earliest place where the joint can stop; if the plan rests before it, the joint has to come back."""
        led = (way != 0) & self.joints & (floats | (farthest >= position * way - _BACK_RAD))
        turned = (free.states[1:, 1] + self.speed) * way < 0
        turning = turned.any(axis=0) & (way * position + np.where(way > 0, -stop[0], stop[1]) > _BACK_RAD)
        onwards = np.maximum.accumulate(turned & turning, axis=0) & ~turned  # it turned back, whatever it does
        onwards = np.maximum.accumulate(onwards, axis=0) | ~turning
        onwards = onwards & led & (floats | (passed <= farthest + _BACK_RAD))
        rests = led & ~floats & plan.ends_at_rest
        slowest = -np.maximum(way * self.speed, 0.0) - _REST_RAD / self.tau  # what is left of a difference at rest
        most = np.maximum(farthest, passed) + _REST_RAD - way * self.place
        for side, other, sign in ((low, high, 1.0), (high, low, -1.0)):
            chosen = way == sign
            side[1] = np.where(chosen & onwards, sign * np.maximum(sign * side[1], slowest), side[1])
            other[0] = np.where(chosen & rests, sign * np.minimum(sign * other[0], most), other[0])

    def _tighten(self, joints: np.ndarray, way: Way, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """Tighten bounds at the ends of intervals in which joints exceed them; returns which of them do, bool."""
        motion = Motion(self.union, np.ascontiguousarray(self._coefficients(way)[:, :, joints]))
        sides = self.bounds.sides[:, :, joints]
        allowed = _BEYOND[:, None] * np.concatenate([np.ones((1, len(joints))), sides[1, 1:]])
        if keeps(motion, np.ascontiguousarray(_widened(self.bounds)[:, :, joints] + allowed * OUTWARD)):
            return np.zeros(len(joints), bool)
        least, most = extremes_of_pieces(motion)
        least[:, 2] += sides[0, 2] - self.least[self.owner][:, joints]
        most[:, 2] += sides[1, 2] - self.most[self.owner][:, joints]
        found, outside = np.zeros(len(joints), bool), self._outside(way)[:, joints]
        for bound, sign, excess in ((high, -1.0, most - sides[1]), (low, 1.0, sides[0] - least)):
            for order in range(4):
                over = ((excess[:, order] > allowed[order]) & ~outside[self.owner]).any(axis=0)
                if not over.any():
                    continue
                found |= over
                each = np.zeros(outside.shape)
                counts = over & (excess[:, order] > 0.2 * allowed[order])
                np.maximum.at(each, self.owner, np.where(counts, excess[:, order], 0.0))
                each[outside] = 0.0
                if order < 3:  # at a knot, of the intervals on both of its sides
                    each[:-1] = np.maximum(each[:-1], each[1:])
                bound[order][:, joints] += sign * _TIGHTER * each
        return found

    def _outside(self, way: Way) -> np.ndarray:
        """Return which intervals begin or end beyond bounds that cannot be kept, bool `[M, D]`."""
        room = _BEYOND[:2, None, None] * np.stack([np.ones(self.plan.dof), self.bounds.velocity])[:, None]
        states = np.moveaxis(way.states[1:, :2], 1, 0)
        at_knots = ((states < self.low[:2] - room) | (states > self.high[:2] + room)).any(axis=0)
        low, high = _widened(self.bounds)[:, :3]
        start = np.array(self.start.known)
        at_start = ((start < low) | (start > high)).any(axis=0)
        return at_knots | np.vstack([at_start, at_knots[:-1]])

    def _coefficients(self, way: Way) -> np.ndarray:
        """Return the plan plus the difference within the horizon, `[n, 6, D]`."""
        parts = [*np.moveaxis(way.states[:-1], 1, 0), way.jerks]
        added = Motion(self.grid, np.stack(parts, axis=1) / FACTORIALS)
        coefficients = self.of_plan.coefficients.copy()
        coefficients[:, :4] += added.at_knots(self.union).coefficients
        return coefficients

    def _followed(self, way: Way, apart: np.ndarray) -> Followed:
        """Return the plan plus the difference, and the rest of the plan after the horizon."""
        plan, ends = self.plan, way.states[-1].copy()
        shift = np.where(self.moved, ends[0], 0.0)
        ends[0] -= shift
        # What is left at the end goes over all of the time.
        motion = Motion(self.union, self._coefficients(way), plan.with_accelerations)
        motion = motion.corrected(np.stack([np.zeros_like(ends), -ends], axis=1))
        if plan.with_accelerations:
            exact = np.array(self.start.known) / FACTORIALS[:3]
            motion.coefficients[0, :3] = np.where(self.joints, exact, motion.coefficients[0, :3])  # without rounding
        if self.until < plan.duration:
            motion = motion.then(plan.from_time(self.until).moved(shift))
        marks = {"ends_at_rest": plan.ends_at_rest, "plan_from": plan.plan_from, "plan_until": plan.plan_until}
        return Followed(motion._replace(**marks), shift, apart)
