"""From the rows of a plan to the motion through them, and between motions and the points of a message."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from . import native
from .motion import BESIDE, SHORTEST_GAP, Motion, shifted
from .polynomials import powers_of, quintics, spaced
from .tolerances import NANOSECOND_S, ROUNDING, SAME, SECOND_NS

FADE_STEPS = 3
"""Number of steps in which an acceleration difference fades: with fewer, jerk is larger and a step of the first row
overshoots more; with more than 4, a motion that is replaced repeatedly drifts further and further from its plans.
"""
_ALTERNATING = ((-1.0) ** np.arange(6))[:, None]
_FINE_S = 2e-3
"""Length of cubics that stand for quintics: their accelerations differ by less than 1e-4 of a fade's."""
_JUMP_NS = 10_000
"""Time in which an acceleration jumps, ns, if points have accelerations: in less, the rounding of positions shows."""


def action_steps(dt: float | np.ndarray, horizon: int) -> np.ndarray:
    """Length of each action's step, s, `[H]`, from dt as in the maps: `dt[h]` leads to row h, by action h - 1.

    The last action's step, which leads beyond the rows of the maps, is as long as the one before it.
    """
    dt = np.asarray(dt, np.float64).ravel()
    return np.full(horizon, dt[0]) if dt.size == 1 else np.append(dt[1:], dt[-1])


def cubic_spline(
    steps: np.ndarray, positions: np.ndarray, start_velocity: np.ndarray | None = None, *, ends_at_rest: bool = False
) -> Motion:
    """The C2 cubic spline through positions.

    At an end that is not clamped, the last piece has no jerk (parabolic run-out): the spline overshoots less than one
    whose last two pieces are one cubic (not-a-knot), and is less sensitive to noise.

    Args:
        steps: time between the positions, s, positive: `[N]`.
        positions: `[N + 1, D]`, rad.
        start_velocity: `[D]`, rad/s, with which it begins; None: not clamped.
        ends_at_rest: whether the last velocity is clamped to 0; otherwise it is not clamped.

    """
    knots, rows = knots_of(steps), _contiguous(positions)
    coefficients = np.empty((len(steps), 4, rows.shape[1]))
    native.spline(knots, rows, _contiguous(start_velocity), ends_at_rest, coefficients)
    return Motion(knots, coefficients, ends_at_rest=ends_at_rest)


def rests_at_end(positions: np.ndarray, last_step: float, rest_tolerance: float) -> bool:
    """Return whether the mean velocity between the last two positions is at most rest_tolerance, rad/s."""
    way = positions[-1] - positions[-2]
    return max(map(abs, way.tolist())) <= rest_tolerance * last_step  # faster than numpy for a few numbers


def faded_in(motion: Motion, acceleration: np.ndarray, span: float) -> Motion:
    """Return the motion begun with an acceleration `[D]`, rad/s^2, which fades to its own until a knot, s."""
    knots, taken = motion.knots, motion.raised()
    count = bisect_left(knots, span - ROUNDING)
    fading = _fading(span) * (acceleration - motion.begin.acceleration)
    native.add(fading, knots[:count], taken.coefficients[:count])
    return taken


def faded_out(motion: Motion, span: float) -> Motion:
    """Return the motion with its last acceleration removed by a fade that begins at a knot, s before its end."""
    knots, settled = motion.knots, motion.raised()
    begin = knots[-1] - span
    first = bisect_left(knots, begin - ROUNDING)
    backwards = shifted(_fading(span) * -motion.end.acceleration, span) * _ALTERNATING
    native.add(backwards, knots[first:-1] - begin, settled.coefficients[first:])
    return settled


def fade_span(knots: np.ndarray, fade_time: float, steps: int = FADE_STEPS) -> float:
    """Duration of a fade from 0: some steps within a time, s, or else one step, so that no row in between moves."""
    within = int(knots.searchsorted(fade_time * (1 + ROUNDING), side="right")) - 1
    return float(knots[min(max(within, 1), steps, len(knots) - 1)])


@lru_cache(maxsize=64)
def _fading(span: float) -> np.ndarray:
    """The polynomial t^2 (1 - t/span)^3 / 2, `[6, 1]`; must not be changed."""
    rate = 1 / span
    return np.array([[0.0], [0.0], [0.5], [-1.5 * rate], [1.5 * rate**2], [-0.5 * rate**3]])


def brought_to_rest(motion: Motion, within: float) -> Motion:
    """Return the motion with the velocity and acceleration of its end removed; its last position stays the same.

    It adds a quintic or, if points have no accelerations, a cubic that leaves the acceleration unchanged: the
    controller reproduces both exactly.

    Args:
        motion: one that ends with a small velocity.
        within: s; the correction begins at the last knot that is at least this far from the end, or at the start.

    """
    first = int(motion.knots.searchsorted(motion.duration - within, side="right")) - 1
    first = min(max(first, 0), len(motion.coefficients) - 1)
    begin, end = float(motion.knots[first]), motion.end
    span, zero = motion.duration - begin, np.zeros(motion.dof)
    if motion.with_accelerations:
        states = np.array([[zero, zero], [zero, -end.velocity], [zero, -end.acceleration]])
        growing = quintics(np.array([span]), states)[0]
    else:
        growing = np.array([zero, zero, end.velocity / span, -end.velocity / span**2])
    rests = motion.raised(len(growing))
    native.add(growing, motion.knots[first:-1] - begin, rests.coefficients[first:])
    return rests._replace(ends_at_rest=True)


def _contiguous(values: np.ndarray | None) -> np.ndarray | None:
    return None if values is None else np.ascontiguousarray(values, np.float64)


def knots_of(steps: np.ndarray) -> np.ndarray:
    """Times of the ends of steps `[N]`, s, from 0, `[N + 1]`; must not be changed."""
    each = steps.tolist()
    return _equidistant(each[0], len(each)) if len(set(each)) == 1 else np.concatenate([[0.0], np.cumsum(steps)])


@lru_cache(maxsize=32)
def _equidistant(step: float, count: int) -> np.ndarray:
    """Knots of a motion of `count` equal steps; cached, so they must not be changed."""
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
    """The points of a motion, one at each knot, with the state at the nearest whole nanosecond.

    Between them joint_trajectory_controller reproduces the motion, up to rounding, if its degree is at most 5 (3
    without accelerations). The last point has the state in which the last piece ends.
    """
    time_ns, state = np.empty(len(motion.knots), np.int64), np.empty((3, len(motion.knots), motion.dof))
    ends_pieces, rests = motion.with_accelerations and motion.size > 2, motion.ends_at_rest
    native.points(motion.coefficients, motion.knots, ends_pieces, rests, time_ns, state)
    position, velocity, acceleration = state
    return Points(time_ns, position, velocity, acceleration if motion.with_accelerations else None)


def motion_of_points(points: Points) -> Motion:
    """The motion that a controller commands between points: quintic, cubic or linear, depending on their fields."""
    knots = points.time_ns * NANOSECOND_S
    h = np.diff(points.time_ns)[:, None] * NANOSECOND_S
    p0, p1 = points.position[:-1], points.position[1:]
    if points.velocity is None:
        return Motion(knots - knots[0], powers_of([p0, (p1 - p0) / h]), with_accelerations=False)
    v0, v1 = points.velocity[:-1], points.velocity[1:]
    if points.acceleration is None:
        p, v = (p1 - p0 - v0 * h) / h**2, (v1 - v0) / h
        return Motion(knots - knots[0], powers_of([p0, v0, 3 * p - v, (v - 2 * p) / h]), with_accelerations=False)
    return Motion(knots - knots[0], quintics(h[:, 0], np.stack(points[1:])))


def continued(before: Motion, motion: Motion) -> Motion:
    """One motion after the other, of which only the second one is planned; both have the same kind of points then."""
    before = before._replace(plan_from=before.duration, plan_until=np.inf)
    if before.with_accelerations != motion.with_accelerations:
        before = _with_jumps(before) if motion.with_accelerations else _as_cubics(before)
    if motion.with_accelerations and (np.abs(motion.begin.beyond(before.end)[2]) > SAME[2]).any():
        before, motion = _cut(before, before.duration - BESIDE), _cut(motion, BESIDE)
    return before.then(motion)


def _cut(motion: Motion, time: float) -> Motion:
    """The motion with a knot at a time, s, if there is that time, and no knot within 1 us."""
    inside = SHORTEST_GAP < time < motion.duration - SHORTEST_GAP
    if not inside or np.abs(motion.knots - time).min() < SHORTEST_GAP:
        return motion
    return motion.until(time).then(motion.from_time(time))


def _as_cubics(motion: Motion) -> Motion:
    """A motion as cubics through positions and velocities."""
    parts = [
        np.linspace(begin, end, max(int(np.ceil((end - begin) / _FINE_S)), 1), endpoint=False)
        for begin, end in pairwise(motion.knots.tolist())
    ]
    chosen = spaced(np.append(np.concatenate(parts), motion.duration), SHORTEST_GAP)
    times = np.rint(chosen * SECOND_NS).astype(np.int64)
    states = motion.states_at(np.minimum(times * NANOSECOND_S, motion.duration * (1 - 1e-12)), orders=2)
    states[:, -1] = motion.end[:2]
    return motion_of_points(Points(times, *states, None))._replace(ends_at_rest=motion.ends_at_rest)


def _with_jumps(motion: Motion) -> Motion:
    """A motion of held accelerations with accelerations in its points: where one jumps, it does so in 10 us.

    It changes evenly from half of that before the knot to half after it, and is never beyond both values.
    """
    points, inner = points_of(motion._replace(with_accelerations=True)), motion.knots[1:-1]
    points.acceleration[1:-1] = motion.states_at(inner)[2]  # whole nanoseconds may lie before a jump
    change = points.acceleration[1:-1] - motion.states_at(np.nextafter(inner, 0.0))[2]
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
