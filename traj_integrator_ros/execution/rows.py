"""From actions and a start state to the motion that they describe, for every control space."""

from __future__ import annotations

from enum import Enum
from functools import lru_cache

import numpy as np

from . import native
from .fade import settle, taken_up
from .holds import acceleration_hold, jerk_hold
from .motion import Motion, State
from .spline import cubic_spline, equal_step, knots_of, rests_at_end

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


def motion_of_actions(
    hold: Hold,
    steps: np.ndarray,
    actions: np.ndarray,
    start: State,
    *,
    rest_tolerance: float = 0.0,
    fade_time: float = DEFAULT_FADE_TIME,
) -> Motion:
    """Return the motion that H actions describe: H steps long, from the start state through the positions of all rows.

    Args:
        hold: what an action is.
        steps: `[H]`, s, as `action_steps` gives them.
        actions: `[H, D]` in rad, rad/s, rad/s^2 or rad/s^3.
        start: state at the beginning of the first step.
        rest_tolerance: rad/s; a mean velocity of the last step up to this counts as rest.
        fade_time: s, within which the start's acceleration changes to the plan's and, for an end at rest, the plan's
            last acceleration to 0.

    """
    steps, actions = np.asarray(steps, np.float64), np.asarray(actions, np.float64)
    if hold is Hold.ACCELERATION:
        return acceleration_hold(steps, actions, start)
    if hold is Hold.JERK:
        return jerk_hold(steps, actions, start)
    if hold is Hold.POSITION:
        return motion_of_positions(steps, actions, start, rest_tolerance=rest_tolerance, fade_time=fade_time)
    h = steps[:, None]
    velocities = actions if hold is Hold.VELOCITY else start.velocity + (actions * h).cumsum(axis=0)
    positions = start.position + (velocities * h).cumsum(axis=0)
    return motion_of_positions(steps, positions, start, rest_tolerance=rest_tolerance, fade_time=fade_time)


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
    steps = np.asarray(steps, np.float64)
    count, known = len(steps), start.acceleration is not None
    data = np.empty((count + 2 + known, len(start.position)))
    rows = data[: count + 1]
    rows[0], rows[1:] = start.position, positions
    rest = rests_at_end(rows, float(steps[-1]), rest_tolerance)
    step = equal_step(steps)
    knots = knots_of(steps, step)
    coefficients = np.empty((count, native.degree_through(start.acceleration, rest, fade_time) + 1, data.shape[1]))
    if native.motion_through(knots, rows, start.velocity, start.acceleration, rest, fade_time, coefficients):
        return Motion(knots, coefficients, True, rest)
    if step is None:
        return _through(steps, rows, start, rest, fade_time)
    data[count + 1] = start.velocity
    if known:
        data[-1] = start.acceleration
    matrix = _unit_matrix(count, step, known, rest, fade_time)
    return Motion(knots, (matrix @ data).reshape(count, -1, data.shape[1]), True, rest)


def _through(steps: np.ndarray, rows: np.ndarray, start: State, rest: bool, fade_time: float) -> Motion:
    motion = cubic_spline(steps, rows, start.velocity, ends_at_rest=rest)
    if start.acceleration is not None:
        motion = taken_up(motion, start.acceleration, fade_time)
    return settle(motion, fade_time) if rest else motion


@lru_cache(maxsize=16)
def _unit_matrix(count: int, step: float, with_acceleration: bool, rest: bool, fade_time: float) -> np.ndarray:
    """Matrix `[(K + 1) N, N + 2 or 3]` from positions, start velocity (and acceleration) to all coefficients.

    Its columns are the motions of as many joints, each of which has one input of 1 and the others 0.
    """
    size = count + 2 + with_acceleration
    unit = np.eye(size)
    start = State(unit[0], unit[count + 1], unit[count + 2] if with_acceleration else None)
    motion = _through(np.full(count, step), unit[: count + 1], start, rest, fade_time)
    return np.ascontiguousarray(motion.coefficients.reshape(-1, size))
