"""From actions and a start state to the motion that they mean, for every control space."""

from __future__ import annotations

from enum import Enum

import numpy as np

from .fade import join, settle
from .holds import acceleration_hold, jerk_hold
from .motion import Motion, State
from .spline import cubic_spline, rests_at_end

DEFAULT_FADE_TIME = 0.2


class Hold(Enum):
    """What an action says about its step."""

    POSITION = "position"
    """Where the step ends."""
    VELOCITY = "velocity"
    """Mean velocity of the step: where it ends, seen from where it began."""
    ACCELERATION = "acceleration"
    """Held over the step."""
    ACCELERATION_SEMI_IMPLICIT = "acceleration_semi_implicit"
    """Leads to a velocity that is the mean velocity of the step, as semi-implicit Euler has it."""
    JERK = "jerk"
    """Held over the step."""


def action_steps(dt: float | np.ndarray, horizon: int) -> np.ndarray:
    """Length of each action's step, s, `[H]`, from dt as the maps have it: `dt[h]` leads to row h, by action h - 1.

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
    """The motion that H actions mean: H steps long, from the start state through the positions of all rows.

    Args:
        hold: what an action is.
        steps: `[H]`, s, as `action_steps` gives them.
        actions: `[H, D]` in rad, rad/s, rad/s^2 or rad/s^3.
        start: state at the beginning of the first step.
        rest_tolerance: rad/s, up to which the mean velocity of the last step counts as rest.
        fade_time: s, within which the start's acceleration becomes the plan's, and at rest the plan's last one 0.

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
    """The motion from a start state through positions `[N, D]`, rad, each a step `[N]`, s, after the one before.

    The C2 cubic spline, and what it lacks of the start's acceleration, as a quintic that fades. Where the plan rests
    at its end, so does the motion, and its acceleration fades to 0 in the same way.
    """
    steps = np.asarray(steps, np.float64)
    rows = np.empty((len(steps) + 1, len(start.position)))
    rows[0], rows[1:] = start.position, positions
    rest = rests_at_end(rows, float(steps[-1]), rest_tolerance)
    motion = cubic_spline(steps, rows, start.velocity, ends_at_rest=rest)
    if start.acceleration is not None:
        motion = join(motion, start, fade_time)
    return settle(motion, fade_time) if rest else motion
