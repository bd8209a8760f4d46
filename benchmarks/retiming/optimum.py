"""The shortest motion of one joint through the turns of a path, by dynamic programming over accelerations there.

The path of one joint is given by the positions at which it turns; between two turns ruckig is exact. Motions that
pass a turn do not count.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import ruckig
from scipy.interpolate import CubicSpline

from .paths import Limits

_SAME = 1e-9
"""Distances below this share of the longest step count as 0."""


def shortest(way: np.ndarray, limits: Limits, accelerations: int = 13) -> float:
    """Duration, s, along the natural spline through positions `[W]`, over so many accelerations at each turn."""
    places = turns_of(way)
    lasts, before = np.zeros(1), np.zeros(1)
    for place, (begin, end) in enumerate(pairwise(places)):
        rises = end > begin
        up, down = (float(limits[name][0]) for name in ("acceleration", "deceleration"))
        up, down = (up, down) if rises else (down, up)
        behind = down * np.linspace(0, 1, accelerations) if place + 2 < len(places) else np.zeros(1)
        speed, jerk = float(limits["velocity"][0]), float(limits["jerk"][0])
        took = [[_between(abs(end - begin), a, -b, (speed, up, down, jerk)) for b in behind] for a in before]
        lasts, before = (lasts[:, None] + np.array(took)).min(axis=0), behind
    return float(lasts[0])


def turns_of(way: np.ndarray) -> np.ndarray:
    """Positions where the natural spline through positions begins, turns and ends."""
    steps = np.abs(np.diff(way))
    kept = way[np.append(True, steps > _SAME * steps.max())]
    if len(kept) < 3:
        return kept[[0, -1]]
    spline = CubicSpline(np.append(0, np.abs(np.diff(kept)).cumsum()), kept, bc_type="natural")
    at = spline.derivative().roots(extrapolate=False)
    values = np.concatenate([kept[:1], spline(np.unique(at[np.isfinite(at)])), kept[-1:]])
    found = [values[0]]
    for value, behind in pairwise(values[1:]):
        if (value - found[-1]) * (behind - value) < 0:
            found.append(value)
    return np.array([*found, values[-1]])


def _between(way: float, begin: float, end: float, limits: tuple[float, float, float, float]) -> float:
    """Duration from one turn to the next, with these accelerations there; infinite if it overshoots."""
    state, found = ruckig.InputParameter(1), ruckig.Trajectory(1)
    state.current_position, state.target_position = [0.0], [way]
    state.current_acceleration, state.target_acceleration = [begin], [end]
    state.max_velocity, state.max_acceleration, state.max_jerk = [limits[0]], [limits[1]], [limits[3]]
    state.min_acceleration = [-limits[2]]
    try:
        if ruckig.Ruckig(1).calculate(state, found) < 0:
            return np.inf
    except ruckig.RuckigError:  # these accelerations lead beyond the limit of velocity
        return np.inf
    reached = found.position_extrema[0]
    return found.duration if reached.min > -_SAME and reached.max < way + _SAME else np.inf
