"""The blend from the present command to a plan: the smoothest one within limits, each joint by itself.

The difference e between command and plan has the least integral of e^2 + 3 tau^2 e'^2 + 3 tau^4 e''^2 + tau^6 e'''^2.
Without limits it decays as three critically damped poles at the bandwidth 1 / (2 pi tau). Its jerk is piecewise
constant.
Position, velocity, acceleration and jerk of the sum stay within bounds, also between knots. A joint on its plan stays
on it to the last bit. `src/following.cpp` finds it within a horizon.
"""

from __future__ import annotations

import numpy as np

from . import native
from .bounds import Bounds
from .limits import extremes_of_pieces
from .motion import SIZE, Motion, State
from .tolerances import MOMENT_S, NANOSECOND_S, SAME, SECOND_NS

_HORIZON = 18.0
"""Duration of a blend without limits, in units of tau: three poles leave 3e-6 of the difference."""
_LONGEST_S = 40.0
"""Longest blend, s."""
_OF_VELOCITY = 0.5
"""Share of the largest velocity with which the time for closing a gap is estimated."""
_MORE_KNOTS = 204
"""Number of knots that a blend may need in addition to twice those of its plan."""


def follow(
    start: State,
    plan: Motion,
    bounds: Bounds,
    bandwidth: float,
    floating: np.ndarray | None = None,
    most_apart: np.ndarray | float = np.inf,
) -> Motion | None:
    """Return the motion that begins in a state and blends into a plan; None if a joint cannot reach the plan.

    The end of joints that follow velocities, or whose plan ends beyond a limit, may be elsewhere than in the plan.

    Args:
        start: the commanded state when the plan begins.
        plan: from its beginning on; its part before `plan_from` is not followed.
        bounds: of the motion. Where they cannot be kept, it exceeds them by as little as possible.
        bandwidth: of the decay of differences, Hz.
        floating: joints that follow velocities only, bool `[D]`, so that their position is where these lead; None: no
            joint does.
        most_apart: the largest distance that bounds may add to that from a plan beyond them, rad, `[D]`.

    """
    state, begin, tau = np.array(start.known), np.array(plan.begin), 1 / (2 * np.pi * bandwidth)
    if not plan.with_accelerations:  # it jumps in any case
        state[2] = begin[2]
    difference = np.abs(state - begin)
    off, leads = difference > SAME, plan.plan_from > 0
    floats = np.zeros(plan.dof, bool) if floating is None else floating & (off[1:].any(axis=0) | leads)
    if floating is not None and (alone := floating & ~floats).any():  # its velocity is reached already
        plan, off[0] = plan.moved(np.where(alone, state[0] - begin[0], 0.0)), off[0] & ~alone
        difference[0] *= ~alone
    inside = bounds.kept_by(plan.valid)
    away = off.any(axis=0) | ~inside | leads
    if not np.count_nonzero(away):
        return plan
    closing = difference[0] / (_OF_VELOCITY * bounds.velocity)
    until = plan.plan_from + _HORIZON * tau + float(np.where(away & ~floats, closing, 0.0).max())
    if not inside.all():
        until = max(until, _last_beyond(plan, bounds) + _HORIZON * tau)
    kinds = np.array([away, floats, inside], np.int64)
    while until < _LONGEST_S:
        until = _end(plan, until)
        if (found := _blended(state, plan, bounds, tau, kinds, until)) is not None:
            motion, apart = found
            return None if (apart > most_apart).any() else motion
        if not plan.ends_at_rest and until >= plan.duration:
            break
        until *= 2
    return None


def _blended(
    state: np.ndarray, plan: Motion, bounds: Bounds, tau: float, kinds: np.ndarray, until: float
) -> tuple[Motion, np.ndarray] | None:
    """Return the blend that is over at a time, s, and how far bounds lead away from the plan; None if it is too early.

    `kinds`, int `[3, D]`, are 1 for joints that are not on their plan, that float, and whose plan keeps the bounds.
    """
    most, dof = 2 * len(plan.coefficients) + _MORE_KNOTS, plan.dof
    knots, coefficients, apart = np.empty(most), np.empty((most - 1, SIZE, dof)), np.empty(dof)
    steers = bounds.deceleration is not None
    of_plan = plan.coefficients, plan.knots, plan.ends_at_rest, steers, plan.plan_from, until, tau
    count = native.blend(*of_plan, state, bounds.wide, bounds.stopping, kinds, knots, coefficients, apart)
    return (plan._replace(knots=knots[: count + 1], coefficients=coefficients[:count]), apart) if count else None


def _last_beyond(plan: Motion, bounds: Bounds) -> float:
    """Return when the last segment of a plan that exceeds bounds ends, s."""
    (least, most), (low, high) = extremes_of_pieces(plan), bounds.wide
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
