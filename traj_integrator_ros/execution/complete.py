"""The motion through positions that begins in a state and comes to rest at the last position without passing it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise

import numpy as np

from .limits import extremes
from .motion import Motion, State
from .polynomials import bernstein, quintics
from .rows import (
    FADE_STEPS,
    Points,
    cubic_spline,
    fade_span,
    faded_in,
    faded_out,
    knots_of,
    motion_of_points,
)
from .tolerances import SECOND_NS

_FADE_S = 0.2
"""Longest time, s, over which the acceleration at an end is blended out."""
_FADES = (FADE_STEPS, 6, 12, 24)
"""Numbers of steps over which the accelerations at both ends are blended out: the first that keeps the jerk limit."""
_PASSED_RAD = 1e-7
"""Distance, rad or m, by which rounding may lead beyond the outermost row."""
_BETWEEN_ROWS_RAD = 1e-3
"""Largest distance, rad or m, by which a motion may swing beyond its outermost row if it turns between two rows."""
_TURNS = 1.25
"""Factor on the distance by which a parabola through three rows passes the outermost one: a sine with six rows in a
period passes it by that much more.
"""
_OF_MEAN = (2.0, 1.0, 0.0)
"""Velocities tried at a row, as multiples of the mean velocity to the next one: 2 decelerates evenly to rest there."""


def through_to_rest(
    steps: np.ndarray, rows: np.ndarray, begin: State, jerk: np.ndarray | None = None
) -> Motion:
    """Return the C2 spline through rows that begins in a state and ends at rest at the last row.

    A joint whose last rows are equal rests from the first of these on. No joint swings beyond its outermost row, except
    as far as the motion that was sampled may turn between two rows. Where the spline would swing further, the joint is
    slower at the row before, or rests at the outermost row.

    Args:
        steps: time between the rows, s, positive: `[N]`.
        rows: `[N + 1, D]`, rad.
        begin: velocity and acceleration at the first row.
        jerk: limit, rad/s^3, `[D]`, which slower blends keep if possible; None: no limit.

    """
    for fade in _FADES:
        motion = _through(steps, rows, begin, fade)
        if jerk is None or (np.abs(extremes(motion)[:, 3]) <= jerk).all():
            break
    return motion


def cubics(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray) -> Motion:
    """Return the cubics that a controller interpolates between rows with velocities, each `[N + 1, D]`."""
    time_ns = np.concatenate([[0], np.rint(steps.cumsum() * SECOND_NS).astype(np.int64)])
    return motion_of_points(Points(time_ns, rows, velocity, None))


def with_all_velocities(steps: np.ndarray, rows: np.ndarray, velocity: np.ndarray) -> np.ndarray:
    """Return velocities at all rows `[N + 1, D]`, given those at some rows (NaN at the others).

    Between two rows with velocities they are those of the C2 spline that begins and ends with these velocities. If that
    spline swings beyond the outermost row of a joint, they are those of a slower one that does not, if there is one.

    Args:
        steps: as for `through_to_rest`.
        rows: as for `through_to_rest`.
        velocity: rad/s, `[N + 1, D]`; those of the first and the last row must be given.

    """
    given = np.flatnonzero(~np.isnan(velocity).any(axis=1))
    whole = velocity.copy()
    for first, last in pairwise(given.tolist()):
        if last - first > 1:
            part = _spline(steps[first:last], rows[first : last + 1], velocity[first], velocity[last])
            whole[first + 1 : last] = part.states_at(part.knots[1:-1], 2)[1]
    motion = cubics(steps, rows, whole)
    for joint in range(rows.shape[1]):
        of_joint = rows[:, joint : joint + 1]
        if not _swings(motion.of(joint), of_joint).any():
            continue
        begin = State(of_joint[0], velocity[0, joint : joint + 1])
        chosen = dict(zip(given[1:-1].tolist(), velocity[given[1:-1], joint].tolist(), strict=True))

        def made(chosen: Mapping[int, float], of_joint: np.ndarray = of_joint, begin: State = begin) -> Motion:
            return cubics(steps, of_joint, _states_between(steps, of_joint, begin, chosen)[1])

        forward = _forward(steps, of_joint, made, chosen)
        whole[:-1, joint] = forward.coefficients[:, 1, 0]
    return whole


def _through(steps: np.ndarray, rows: np.ndarray, begin: State, fade: int) -> Motion:
    """Return the motion with the accelerations at its ends blended out over some steps."""
    whole = _faded(_spline(steps, rows, begin.velocity), begin, fade)
    last = _last_moves(rows)
    for joint in range(rows.shape[1]):
        of_joint, count = rows[:, joint : joint + 1], int(last[joint])
        if count < len(steps) or _swings(whole.of(joint), of_joint).any():
            forward = _kept_within(steps[:count], of_joint[: count + 1], begin.of(joint), fade)
            whole.coefficients[:count, :, joint] = forward.coefficients[:, :, 0]
            whole.coefficients[count:, 0, joint], whole.coefficients[count:, 1:, joint] = of_joint[-1], 0.0
    return whole


def _last_moves(rows: np.ndarray) -> np.ndarray:
    """Return the number of steps after which each joint is at its end, `[D]`; all for a joint that never leaves it."""
    away = rows != rows[-1]
    return np.where(away.any(axis=0), len(rows) - np.argmax(away[::-1], axis=0), len(rows) - 1)


def _faded(spline: Motion, begin: State, fade: int) -> Motion:
    """Blend out the accelerations at both ends of a spline, so that it ends at rest."""
    knots = spline.knots
    started = faded_in(spline, begin.known.acceleration, fade_span(knots, _FADE_S, fade))
    return faded_out(started, fade_span(knots[-1] - knots[::-1], _FADE_S, fade))._replace(ends_at_rest=True)


def _kept_within(steps: np.ndarray, rows: np.ndarray, begin: State, fade: int) -> Motion:
    """Return a motion of one joint through rows `[N + 1, 1]` that does not swing beyond them, if there is one.

    Blending out a large acceleration swings by itself, unless it is over at the next row. If nothing else helps, the
    joint rests at each row.
    """

    def made(chosen: Mapping[int, float], fade: int = 1) -> Motion:
        return _faded(_between(steps, rows, begin, chosen), begin, fade)

    motion = _forward(steps, rows, lambda chosen: made(chosen, fade), {})
    if _swings(motion, rows).any():
        motion = _forward(steps, rows, made, {})
    if _swings(motion, rows).any():
        motion = made(dict.fromkeys(range(1, len(rows) - 1), 0.0))
    return motion


def _forward(
    steps: np.ndarray, rows: np.ndarray, made: Callable[[Mapping[int, float]], Motion], given: Mapping[int, float]
) -> Motion:
    """Slow one joint down at the rows `[N + 1, 1]` beside which it would swing beyond the outermost one.

    `made` returns the motion with chosen velocities at some rows; velocities that are `given` are not changed.
    """
    chosen = dict(given)
    tried = dict.fromkeys(given, len(_OF_MEAN))
    while True:
        motion = made(chosen)
        row = _to_slow(_swings(motion, rows), rows, tried)
        if row is None:
            return motion
        attempt = tried[row] = tried.get(row, -1) + 1
        mean = float(rows[row + 1, 0] - rows[row, 0]) / steps[row]
        outermost = rows[row, 0] in (rows.min(), rows.max())
        chosen[row] = 0.0 if outermost else _OF_MEAN[attempt] * mean
        if chosen[row] == 0.0:
            tried[row] = len(_OF_MEAN) - 1


def _to_slow(swinging: np.ndarray, rows: np.ndarray, tried: Mapping[int, int]) -> int | None:
    """Return the row, beside a segment that swings, at which a joint is slowed next; None if there is none left."""
    for piece in np.flatnonzero(swinging).tolist():
        ends = [row for row in (piece, piece + 1) if 0 < row < len(rows) - 1]
        ends.sort(key=lambda row: rows[row, 0] not in (rows.min(), rows.max()))
        for row in ends:
            if tried.get(row, -1) < len(_OF_MEAN) - 1:
                return row
    return None


def _between(steps: np.ndarray, rows: np.ndarray, begin: State, chosen: Mapping[int, float]) -> Motion:
    """Return splines of one joint between rows with chosen velocities, with one acceleration at each of these rows."""
    return Motion(knots_of(steps), quintics(steps, _states_between(steps, rows, begin, chosen)), ends_at_rest=True)


def _states_between(steps: np.ndarray, rows: np.ndarray, begin: State, chosen: Mapping[int, float]) -> np.ndarray:
    """Return positions, velocities and accelerations of these splines at the rows, `[3, N + 1, 1]`."""
    velocity = {0: float(begin.velocity[0]), **chosen, len(steps): 0.0}
    states = np.zeros((3, len(rows), 1))
    states[0] = rows
    for first, last in pairwise(sorted(velocity)):
        ends = (np.array([velocity[row]]) for row in (first, last))
        part, before = _spline(steps[first:last], rows[first : last + 1], *ends), float(states[2, first, 0])
        states[1:, first:last] = part.states_at(part.knots[:-1], 3)[1:]
        if first in chosen:
            both = before, float(states[2, first, 0])  # The smaller one, so that neither side swings.
            states[2, first] = min(both, key=abs) if both[0] * both[1] > 0 and chosen[first] != 0 else 0.0
        states[1:, last] = [[velocity[last]], part.end.acceleration]
    return states


def _spline(steps: np.ndarray, rows: np.ndarray, begin: np.ndarray, end: np.ndarray | None = None) -> Motion:
    """Return the C2 cubic spline through rows with velocities at both ends; the last one is 0 if it is not given."""
    if end is None or not end.any():
        return cubic_spline(steps, rows, begin, ends_at_rest=True)
    drift = end * np.concatenate([[0.0], steps.cumsum()])[:, None]  # Without this drift, the spline ends at rest.
    motion = cubic_spline(steps, rows - drift, begin - end, ends_at_rest=True)
    coefficients = motion.coefficients.copy()
    coefficients[:, 0] += drift[:-1]
    coefficients[:, 1] += end
    return Motion(motion.knots, coefficients)


def _swings(motion: Motion, rows: np.ndarray) -> np.ndarray:
    """Return which segments of one joint lead beyond its outermost rows, `[N + 1, 1]`: bool `[N]`."""
    low, high = rows.min() - _turn(rows, np.argmin(rows)), rows.max() + _turn(rows, np.argmax(rows))
    least, most = extremes(motion)[:, 0]
    if least[0] >= low and most[0] <= high:
        return np.zeros(len(motion.coefficients), bool)
    control = bernstein(motion.coefficients, motion.steps, 0)[:, :, 0]  # The control points contain the segment.
    swinging = (control.min(axis=1) < low) | (control.max(axis=1) > high)
    for k in np.flatnonzero(swinging).tolist():
        least, most = extremes(Motion(motion.knots[k : k + 2], motion.coefficients[k : k + 1]))[:, 0, 0]
        swinging[k] = least < low or most > high
    return swinging


def _turn(rows: np.ndarray, place: int) -> float:
    """Return how far a joint may swing beyond a row, rad: as the parabola through three rows, if that is little."""
    if not 0 < place < len(rows) - 1:
        return _PASSED_RAD
    bend = _TURNS * abs(rows[place - 1, 0] - 2 * rows[place, 0] + rows[place + 1, 0]) / 8
    return bend if bend <= _BETWEEN_ROWS_RAD else _PASSED_RAD
