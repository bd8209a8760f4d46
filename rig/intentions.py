"""Motions that planners mean."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from soak.streams.plans import Bounds, Course, Way

Motion = Callable[[np.ndarray], np.ndarray]
"""Position, velocity and acceleration `[3, N, dof]` at increasing times, s."""


def course(
    seed: int, start: np.ndarray, low: object, high: object, bounds: Bounds, begin: float, seconds: float, pause: float
) -> Motion:
    """Return the fastest motions from place to place between two positions, with pauses of up to `pause`, s."""
    random, place, ways, time = np.random.default_rng(seed), start, [], begin
    while time < begin + seconds:
        there = random.uniform(low, high, len(place))
        ways.append(Way(time, np.stack([place, 0 * place, 0 * place]), there, bounds))
        time, place = ways[-1].end + (random.uniform(0, pause) if pause else 0.0), there
    return Course(ways).states


def way(
    seed: int, bounds: tuple[float, float, float], reach: float, seconds: float, start: object, begin: float,
    pause: float = 0.3,
) -> Motion:  # fmt: skip
    """Return a course within `reach` of 0, and within bounds of velocity, acceleration and jerk of all joints."""
    place = np.asarray(start, float)
    most = Bounds(*(np.full(len(place), bound) for bound in bounds))
    return course(seed, place, -reach, reach, most, begin, seconds, pause)


def share_of_way(x: np.ndarray) -> np.ndarray:
    """Minimum jerk from 0 to 1 while x goes from 0 to 1."""
    x = np.clip(np.asarray(x, float), 0.0, 1.0)
    return x**3 * (10 - 15 * x + 6 * x**2)


def ramp(t: np.ndarray | float, v: float, T: float = 0.5) -> np.ndarray:
    """Return positions of a joint that accelerates smoothly to the velocity v within T."""
    t = np.maximum(np.asarray(t, float), 0)
    s = np.minimum(t / T, 1)
    return v * (T * (s**3 - s**4 / 2) + np.maximum(t - T, 0))
