"""Motions that planners mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds, Course, Way

Motion = Callable[[np.ndarray], np.ndarray]
"""Position, velocity and acceleration `[3, N, dof]` at increasing times of the rig `[N]`, s."""


def way(
    seed: int, bounds: tuple[float, float, float], reach: float, seconds: float, start: object, begin: float,
    pause: float = 0.3,
) -> Motion:  # fmt: skip
    """Return the fastest motions from place to place within bounds of velocity, acceleration and jerk, with pauses."""
    r = np.random.default_rng(seed)
    place, ways, t = np.asarray(start, float), [], begin
    most = Bounds(*(np.full(len(place), bound) for bound in bounds))
    while t < begin + seconds:
        there = r.uniform(-reach, reach, len(place))
        ways.append(Way(t, np.stack([place, 0 * place, 0 * place]), there, most))
        t = ways[-1].end + (r.uniform(0, pause) if pause else 0.0)
        place = there
    return Course(ways).states


def minimum_jerk(t: np.ndarray, T: float, d: float) -> np.ndarray:
    """Return positions of a minimum-jerk motion by a distance d within T, from rest to rest."""
    s = np.clip(np.asarray(t, float) / T, 0, 1)
    return d * (10 * s**3 - 15 * s**4 + 6 * s**5)


def ramp(t: np.ndarray | float, v: float, T: float = 0.5) -> np.ndarray:
    """Return positions of a joint that accelerates smoothly to the velocity v within T."""
    t = np.maximum(np.asarray(t, float), 0)
    s = np.minimum(t / T, 1)
    return v * (T * (s**3 - s**4 / 2) + np.maximum(t - T, 0))
