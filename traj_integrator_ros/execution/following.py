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
from .motion import SIZE, Motion, State
from .tolerances import SAME

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
        most_apart: the largest distance that bounds may add to that from a plan beyond them, rad, `[D]`. Where
            only the stop at its end is beyond them, joints leave the plan as early as they have to.

    """
    state, kinds = np.array(start.known), np.zeros((2, plan.dof), np.int64)
    if not plan.with_accelerations:  # it jumps in any case
        state[2] = plan.begin.acceleration
    if floating is not None and np.count_nonzero(floating):
        plan, kinds[1] = _carried(plan, state, floating), floating
    kinds[0] = bounds.kept_by(plan.valid)
    most, tau = 2 * len(plan.coefficients) + _MORE_KNOTS, 1 / (2 * np.pi * bandwidth)
    knots, coefficients, apart = np.empty(most), np.empty((most - 1, SIZE, plan.dof)), np.empty(plan.dof)
    given = plan.coefficients, plan.knots, plan.ends_at_rest, bounds.deceleration is not None, plan.plan_from, tau
    count = native.follow(*given, state, bounds.wide, bounds.stopping, kinds, knots, coefficients, apart)
    if count < 0:
        return plan
    far = apart > most_apart
    if not count or (np.count_nonzero(far) and not bounds.kept_by(plan.valid.planned)[far].all()):
        return None
    return plan._replace(knots=knots[: count + 1], coefficients=coefficients[:count])


def _carried(plan: Motion, state: np.ndarray, floating: np.ndarray) -> Motion:
    """Return the plan from where those joints are that follow velocities only and have reached them already."""
    by = state - np.array(plan.begin)
    alone = floating & ~(np.abs(by) > SAME)[1:].any(axis=0)
    return plan.moved(np.where(alone, by[0], 0.0)) if plan.plan_from <= 0 and alone.any() else plan
