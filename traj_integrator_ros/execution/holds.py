"""Actions that are held over their step: every one is executed, so H actions give H pieces."""

from __future__ import annotations

import numpy as np

from .motion import Motion, State


def acceleration_hold(steps: np.ndarray, actions: np.ndarray, start: State) -> Motion:
    """Accelerations `[H, D]`, rad/s^2, held over steps `[H]`, s: quadratic pieces, for any start acceleration."""
    h = steps[:, None]
    velocity = _accumulated(start.velocity, actions * h)
    position = _accumulated(start.position, (velocity[:-1] + actions * h / 2) * h)
    coefficients = np.stack([position[:-1], velocity[:-1], actions / 2], axis=1)
    return Motion(_knots(steps), coefficients, with_accelerations=False)


def jerk_hold(steps: np.ndarray, actions: np.ndarray, start: State) -> Motion:
    """Jerks `[H, D]`, rad/s^3, held over steps `[H]`, s: cubic pieces; an unknown start acceleration counts as 0."""
    h = steps[:, None]
    begin = np.zeros(actions.shape[1]) if start.acceleration is None else start.acceleration
    acceleration = _accumulated(begin, actions * h)
    velocity = _accumulated(start.velocity, (acceleration[:-1] + actions * h / 2) * h)
    position = _accumulated(start.position, (velocity[:-1] + (acceleration[:-1] / 2 + actions * h / 6) * h) * h)
    coefficients = np.stack([position[:-1], velocity[:-1], acceleration[:-1] / 2, actions / 6], axis=1)
    return Motion(_knots(steps), coefficients)


def _accumulated(start: np.ndarray, increments: np.ndarray) -> np.ndarray:
    return np.concatenate([start[None], start + increments.cumsum(axis=0)])


def _knots(steps: np.ndarray) -> np.ndarray:
    return np.concatenate([[0.0], np.cumsum(steps)])
