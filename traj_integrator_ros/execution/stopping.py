"""The fastest stop of joints, by a formula."""

from __future__ import annotations

import numpy as np

from . import native
from .bounds import Bounds
from .motion import BESIDE, SHORTEST_GAP, SIZE, Motion, State


def fastest_stop(state: State, bounds: Bounds) -> Motion:
    """Return the fastest stop of each joint by itself, with bounded acceleration and jerk.

    A joint reverses only if its acceleration cannot be removed before its velocity changes its sign.

    Raises:
        ValueError: there is no stop, for example because the state is not finite.

    """
    states = np.array(state.known)
    most = 15 * states.shape[1]  # Each joint has 5 knots, and `united` may add as many.
    knots, coefficients = np.empty(most), np.empty((most - 1, SIZE, states.shape[1]))
    count = native.stop(states, bounds.stopping, bounds.jerk, SHORTEST_GAP, BESIDE, knots, coefficients)
    if count is None:
        raise ValueError("state: expected finite values from which joints can stop")
    return Motion(knots[: count + 1], coefficients[:count], ends_at_rest=True)


def peak_speed(v: np.ndarray | float, a: np.ndarray | float, jerk: np.ndarray | float) -> np.ndarray | float:
    """Return the largest speed, rad/s, while an acceleration is removed as fast as possible from a velocity on."""
    return np.maximum(np.abs(v), np.abs(v + a * np.abs(a) / (2 * jerk)))
