"""From rows and actions of a plan to the motion that they describe, and how it begins and ends."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import numpy as np

from . import native
from .motion import DEGREE, Motion, State, powers_of
from .polynomials import FADE_STEPS, begun_with, ended_with, raised, taylor_shift

DEFAULT_FADE_TIME = 0.2


class Hold(Enum):
    """What an action specifies about its step."""

    POSITION = "position"
    """Position at the end of the step."""
    VELOCITY = "velocity"
    """Mean velocity of the step, hence the position at its end relative to its beginning."""
    ACCELERATION = "acceleration"
    """Acceleration held over the step."""
    ACCELERATION_SEMI_IMPLICIT = "acceleration_semi_implicit"
    """Acceleration that leads to a velocity, which is the mean velocity of the step, as in semi-implicit Euler."""
    JERK = "jerk"
    """Jerk held over the step."""


def action_steps(dt: float | np.ndarray, horizon: int) -> np.ndarray:
    """Length of each action's step, s, `[H]`, from dt as in the maps: `dt[h]` leads to row h, by action h - 1.

    The last action's step, which leads beyond the rows of the maps, is as long as the one before it.
    """
    dt = np.asarray(dt, np.float64).ravel()
    return np.full(horizon, dt[0]) if dt.size == 1 else np.append(dt[1:], dt[-1])


def rows_of_actions(hold: Hold, steps: np.ndarray, actions: np.ndarray, start: State) -> np.ndarray:
    """Positions `[H, D]` at the ends of steps `[H]`, s, from a start state; not of held accelerations and jerks."""
    if hold is Hold.POSITION:
        return actions
    h = steps[:, None]
    velocities = actions
    if hold is Hold.ACCELERATION_SEMI_IMPLICIT:
        velocities = start.velocity + (actions * h).cumsum(axis=0)
    return start.position + (velocities * h).cumsum(axis=0)


def motion_of_positions(
    steps: np.ndarray,
    positions: np.ndarray,
    start: State,
    *,
    rest_tolerance: float = 0.0,
    fade_time: float = DEFAULT_FADE_TIME,
) -> Motion:
    """Return the motion from a start state through positions `[N, D]`, rad, at the ends of steps `[N]`, s.

    It is the C2 cubic spline plus a fading quintic for the difference from the start's acceleration. If the plan rests
    at its end, so does the motion, and its acceleration fades to 0 in the same way.
    """
    knots, rows = _knots(steps), np.empty((len(steps) + 1, len(start.position)))
    rows[0], rows[1:] = start.position, positions
    rests = rests_at_end(rows, float(steps[-1]), rest_tolerance)
    degree = DEGREE if fade_time > 0 and (rests or start.acceleration is not None) else 3
    coefficients = np.empty((len(steps), degree + 1, rows.shape[1]))
    native.motion_through(knots, rows, *map(_contiguous, start[1:]), rests, fade_time, coefficients)
    return Motion(knots, coefficients, ends_at_rest=rests)


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
    knots, rows = _knots(steps), _contiguous(positions)
    coefficients = np.empty((len(steps), 4, rows.shape[1]))
    native.motion_through(knots, rows, _contiguous(start_velocity), None, ends_at_rest, 0.0, coefficients)
    return Motion(knots, coefficients, ends_at_rest=ends_at_rest)


def rests_at_end(positions: np.ndarray, last_step: float, rest_tolerance: float) -> bool:
    """Whether the mean velocity between the last two positions is at most rest_tolerance, rad/s."""
    way = positions[-1] - positions[-2]
    return max(map(abs, way.tolist())) <= rest_tolerance * last_step  # faster than numpy for a few numbers


def acceleration_hold(steps: np.ndarray, actions: np.ndarray, start: State) -> Motion:
    """Accelerations `[H, D]`, rad/s^2, held over steps `[H]`, s: quadratic pieces, for any start acceleration."""
    h = steps[:, None]
    velocity = _accumulated(start.velocity, actions * h)
    position = _accumulated(start.position, (velocity[:-1] + actions * h / 2) * h)
    coefficients = powers_of([position[:-1], velocity[:-1], actions / 2])
    return Motion(_knots(steps), coefficients, with_accelerations=False)


def jerk_hold(steps: np.ndarray, actions: np.ndarray, start: State) -> Motion:
    """Jerks `[H, D]`, rad/s^3, held over steps `[H]`, s: cubic pieces; an unknown start acceleration counts as 0."""
    h = steps[:, None]
    begin = np.zeros(actions.shape[1]) if start.acceleration is None else start.acceleration
    acceleration = _accumulated(begin, actions * h)
    velocity = _accumulated(start.velocity, (acceleration[:-1] + actions * h / 2) * h)
    position = _accumulated(start.position, (velocity[:-1] + (acceleration[:-1] / 2 + actions * h / 6) * h) * h)
    coefficients = powers_of([position[:-1], velocity[:-1], acceleration[:-1] / 2, actions / 6])
    return Motion(_knots(steps), coefficients)


def taken_up(motion: Motion, acceleration: np.ndarray, fade_time: float) -> Motion:
    """Return the motion begun with an acceleration `[D]`: the difference from its own fades to 0, in three steps.

    Args:
        motion: the motion to follow; one without accelerations in its points stays as it is.
        acceleration: rad/s^2.
        fade_time: s, within which the fade ends, at a knot, at the earliest one step from the start; 0: none.

    """
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    difference = acceleration - motion.begin.acceleration
    return motion._replace(coefficients=begun_with(motion.coefficients, motion.knots, difference, fade_time))


def settle(motion: Motion, fade_time: float, steps: int = FADE_STEPS) -> Motion:
    """Return a motion that ends at rest with its last acceleration removed by a fade, as by `taken_up` in reverse."""
    if fade_time <= 0 or not motion.with_accelerations:
        return motion
    last = -motion.end.acceleration
    return motion._replace(coefficients=ended_with(motion.coefficients, motion.knots, last, fade_time, steps))


def brought_to_rest(motion: Motion, within: float) -> Motion:
    """Return the motion with the velocity and acceleration of its end removed; its last position stays the same.

    What is added is a quintic or, where points have no accelerations, a cubic that leaves the acceleration as it is:
    the controller reproduces both exactly.

    Args:
        motion: one that ends with a small velocity.
        within: s; the correction begins at the last knot that is at least this far from the end, or at the start.

    """
    first = int(np.searchsorted(motion.knots, motion.duration - within, side="right")) - 1
    first = min(max(first, 0), len(motion.coefficients) - 1)
    span = motion.duration - float(motion.knots[first])
    v, a = motion.end.velocity, motion.end.acceleration
    zero = np.zeros_like(v)
    if motion.with_accelerations:
        s, w = v / span**2, a / span
        growing = [zero, zero, zero, 4 * s - w / 2, (-7 * s + w) / span, (3 * s - w / 2) / span**2]
    else:
        growing = [zero, zero, v / span, -v / span**2]
    degree = len(growing) - 1
    shift = taylor_shift(motion.knots[first:-1] - motion.knots[first], degree)
    total = raised(motion.coefficients, degree).copy()
    total[first:, : degree + 1] += shift @ np.array(growing)
    return Motion(motion.knots, total, motion.with_accelerations, ends_at_rest=True)


def _accumulated(start: np.ndarray, increments: np.ndarray) -> np.ndarray:
    return np.concatenate([start[None], start + increments.cumsum(axis=0)])


def _contiguous(values: np.ndarray | None) -> np.ndarray | None:
    return None if values is None else np.ascontiguousarray(values, np.float64)


def _knots(steps: np.ndarray) -> np.ndarray:
    """Times of the ends of steps `[N]`, s, from 0, `[N + 1]`; must not be changed."""
    each = steps.tolist()
    return _equidistant(each[0], len(each)) if len(set(each)) == 1 else np.concatenate([[0.0], np.cumsum(steps)])


@lru_cache(maxsize=32)
def _equidistant(step: float, count: int) -> np.ndarray:
    """Knots of a motion of `count` equal steps; cached, so they must not be changed."""
    knots = np.arange(count + 1) * step
    knots.flags.writeable = False
    return knots
