"""Motions through the rows of a plan, and the points of a message for a motion."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from . import native
from .motion import BESIDE, SHORTEST_GAP, Motion
from .polynomials import between, shifted, spaced
from .tolerances import NANOSECOND_S, SAME, SECOND_NS

_FINE_S = 2e-3
"""Duration, s, of cubics that approximate the quintics of a blend: accelerations differ by less than 1e-4 of its own.
"""
_JUMP_NS = 10_000
"""Duration of a jump of acceleration, ns, in points with accelerations: in less, rounding of positions shows."""


class Reference(NamedTuple):
    """The motion of a plan, or along a path, before anything is blended into it."""

    motion: Motion
    passes: np.ndarray
    """Times of the motion at the rows, s, `[N]`."""
    keeps_limits: bool = False
    """True if the points keep the limits, although the interpolation may exceed them (see `complete_plan`)."""
    why_slow: str = ""
    """Why the times of a path are longer than usual; empty if they are not, or were given."""


def action_steps(dt: float | np.ndarray, horizon: int) -> np.ndarray:
    """Return the duration of each action, s, `[H]`, from dt as in the maps: `dt[h]` leads to row h, by action h - 1.

    The last action's step, which leads beyond the rows of the maps, is as long as the one before it.
    """
    dt = np.asarray(dt, np.float64).ravel()
    return np.full(horizon, dt[0]) if dt.size == 1 else np.append(dt[1:], dt[-1])


def rests_at_end(positions: np.ndarray, last_step: float, rest_tolerance: float) -> bool:
    """Return whether the mean velocity between the last two positions is at most rest_tolerance, rad/s."""
    way = positions[-1] - positions[-2]
    return max(map(abs, way.tolist())) <= rest_tolerance * last_step  # It is faster than numpy for a few numbers.


def brought_to_rest(motion: Motion, within: float) -> Motion:
    """Return the motion with the velocity and acceleration of its end removed; its last position stays the same.

    A quintic is added or, if points have no accelerations, a cubic that does not change the acceleration. The
    controller reproduces both exactly.

    Args:
        motion: ends with a small velocity.
        within: time, s, before the end; the correction begins at the last knot before that, or at the start.

    """
    first = int(motion.knots.searchsorted(motion.duration - within, side="right")) - 1
    first = min(max(first, 0), len(motion.coefficients) - 1)
    moves = np.array(motion.end)[: 3 if motion.with_accelerations else 2]
    moves[0] = 0.0
    states = np.stack([np.zeros_like(moves), -moves], axis=1)
    return motion.corrected(states, float(motion.knots[first]))._replace(ends_at_rest=True)


def knots_of(steps: np.ndarray) -> np.ndarray:
    """Return the ends of steps `[N]`, s, beginning with 0, `[N + 1]`; they must not be changed."""
    each = steps.tolist()
    return _equidistant(each[0], len(each)) if len(set(each)) == 1 else np.concatenate([[0.0], np.cumsum(steps)])


@lru_cache(maxsize=32)
def _equidistant(step: float, count: int) -> np.ndarray:
    """Return the knots of `count` equal steps; they are cached and must not be changed."""
    knots = np.arange(count + 1) * step
    knots.flags.writeable = False
    return knots


# Points


class Points(NamedTuple):
    """Points of a trajectory, float64 `[N, D]` each."""

    time_ns: np.ndarray
    """Times from its start, ns, int64 `[N]`, increasing; must not be changed."""
    position: np.ndarray
    velocity: np.ndarray | None
    acceleration: np.ndarray | None


def points_of(motion: Motion) -> Points:
    """Return the points of a motion, one at each knot, with the state at the nearest whole nanosecond.

    Between them, joint_trajectory_controller reproduces the motion up to rounding if its degree is at most 5 (3 without
    accelerations). The last point has the state in which the last segment ends.
    """
    time_ns = np.rint(motion.knots * SECOND_NS).astype(np.int64)
    states = np.empty((3, len(time_ns), motion.dof))
    native.points(motion.coefficients, motion.knots, time_ns * NANOSECOND_S, motion.ends_at_rest, states)
    position, velocity, acceleration = states
    return Points(time_ns, position, velocity, acceleration if motion.with_accelerations else None)


def motion_of_points(points: Points) -> Motion:
    """Return the motion that a controller commands between points: quintic, cubic or linear, by their fields."""
    knots = points.time_ns * NANOSECOND_S
    h = np.diff(points.time_ns) * NANOSECOND_S
    given = np.stack([part for part in points[1:] if part is not None])
    return Motion(knots - knots[0], between(h, given), with_accelerations=len(given) == 3)


def continued(before: Motion, motion: Motion) -> Motion:
    """Return one motion after the other, with the same kind of points; only the second one counts as planned."""
    start_ns = before.start_ns
    if before.with_accelerations != motion.with_accelerations:
        before = _with_jumps(before) if motion.with_accelerations else _as_cubics(before)
    jump = motion.begin.acceleration - before.end.acceleration
    if motion.with_accelerations and np.count_nonzero(np.abs(jump) > SAME[2]):
        before, motion = _cut(before, before.duration - BESIDE), _cut(motion, BESIDE)
    marks = {"plan_from": before.duration, "plan_until": before.duration + motion.plan_until}
    return before.then(motion)._replace(**marks, start_ns=start_ns)


def _cut(motion: Motion, time: float) -> Motion:
    """Return the motion with a knot at a time, s, unless it lies outside of the motion, or a knot is within 1 us."""
    inside = SHORTEST_GAP < time < motion.duration - SHORTEST_GAP
    if not inside or np.abs(motion.knots - time).min() < SHORTEST_GAP:
        return motion
    return motion.until(time).then(motion.from_time(time))


def _as_cubics(motion: Motion) -> Motion:
    """Return a motion as cubics with its positions and velocities."""
    chosen = spaced(np.union1d(np.arange(0.0, motion.duration, _FINE_S), motion.knots), SHORTEST_GAP)
    times = np.rint(chosen * SECOND_NS).astype(np.int64)
    states = motion.states_at(np.minimum(times * NANOSECOND_S, motion.duration * (1 - 1e-12)), orders=2)
    states[:, -1] = motion.end[:2]
    return motion_of_points(Points(times, *states, None))._replace(ends_at_rest=motion.ends_at_rest)


def _with_jumps(motion: Motion) -> Motion:
    """Return a motion of held accelerations whose points have accelerations, each jump of which takes 10 us.

    The acceleration changes linearly from 5 us before a knot to 5 us after it.
    """
    points, after = points_of(motion._replace(with_accelerations=True)), 2 * motion.coefficients[1:, 2]
    before = 2 * shifted(motion.coefficients[:-1], motion.steps[:-1])[:, 2]
    points.acceleration[1:-1], change = after, after - before
    steps = np.diff(points.time_ns)
    # in a shorter piece, the acceleration changes over all of it
    has_room = np.minimum(steps[:-1], steps[1:]) > 2 * _JUMP_NS
    jumps = np.flatnonzero((np.abs(change) > SAME[2]).any(axis=1) & has_room)
    sides_ns = points.time_ns[1 + jumps] + np.array([[-1], [1]]) * (_JUMP_NS // 2)
    sides = motion.states_at(sides_ns.ravel() * NANOSECOND_S, orders=3)
    # additional distance of an even change
    sides[0, len(jumps) :] += change[jumps] * (_JUMP_NS * NANOSECOND_S) ** 2 / 24
    times = np.concatenate([np.delete(points.time_ns, 1 + jumps), sides_ns.ravel()])
    states = np.concatenate([np.delete(np.stack(points[1:]), 1 + jumps, axis=1), sides], axis=1)
    order = times.argsort()
    return motion_of_points(Points(times[order], *states[:, order]))._replace(ends_at_rest=motion.ends_at_rest)
