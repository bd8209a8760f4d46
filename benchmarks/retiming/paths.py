"""Random paths and limits, and an evaluation of motions that shares nothing with the code under test."""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import MotionLimits, Retimed

Limits = dict[str, np.ndarray]


def random_path(rng: np.random.Generator, rows: int, dof: int = 7, size: float = 0.5) -> np.ndarray:
    return np.cumsum(rng.normal(size=(rows, dof)) * size, 0)


def random_limits(rng: np.random.Generator, dof: int = 7) -> Limits:
    return {
        "velocity": rng.uniform(1, 3, dof),
        "acceleration": rng.uniform(3, 15, dof),
        "deceleration": rng.uniform(3, 15, dof),
        "jerk": rng.uniform(20, 150, dof),
    }


def as_limits(limits: Limits) -> MotionLimits:
    return MotionLimits(**{name: torch.as_tensor(value, dtype=torch.float64) for name, value in limits.items()})


def states_of(motion: Retimed, index: int) -> tuple[np.ndarray, list[np.ndarray]]:
    """Times `[P]` of one trajectory, and its positions, and velocities and accelerations `[P, D]` if it has any."""
    times, states = motion.points(index)
    return times.numpy(), [state.numpy() for state in states if state is not None]


def played(times: np.ndarray, states: Sequence[np.ndarray], samples: int) -> np.ndarray:
    """Position to jerk `[4, pieces, samples, D]` of a controller's interpolation between points."""
    return between(np.diff(times), [state[:-1] for state in states], [state[1:] for state in states], samples)


def between(spans: np.ndarray, begins: Sequence[np.ndarray], ends: Sequence[np.ndarray], samples: int) -> np.ndarray:
    """Return the same for pieces given by spans `[pieces]` and states `[pieces, D]`, by a linear system for each."""
    h, degree = spans[:, None], 2 * len(begins) - 1
    powers, at = range(degree + 1), ((0.0, begins), (1.0, ends))
    orders = range(len(begins))
    rows = [[_falling(k, order) * end ** max(k - order, 0) for k in powers] for order in orders for end, _ in at]
    right = [states[order] * h**order for order in orders for _, states in at]
    c = np.linalg.solve(np.array(rows), np.stack(right).reshape(degree + 1, -1))
    c = c.reshape(degree + 1, len(h), 1, -1)
    e = np.linspace(0, 1, samples)[None, :, None]
    values = np.zeros((4, len(h), samples, begins[0].shape[1]))
    for order in range(4):
        for power in range(order, degree + 1):
            values[order] += _falling(power, order) * c[power] * e ** (power - order) / h[..., None] ** order
    return values


def _falling(power: int, order: int) -> int:
    return factorial(power) // factorial(power - order) if power >= order else 0


def sampled_ratios(motion: Retimed, index: int, limits: Limits, samples: int = 129) -> np.ndarray:
    """Greatest velocity, acceleration and jerk of the motion, relative to the limits."""
    times, states = states_of(motion, index)
    if len(times) < 2:
        return np.zeros(3)
    return ratios(*played(times, states, samples)[1:], limits, with_jerk=len(states) == 3)


def ratios(
    velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray, limits: Limits, *, with_jerk: bool = True
) -> np.ndarray:
    """Greatest value of each relative to its limits; arrays `[..., D]`."""
    either = np.maximum(acceleration / limits["acceleration"], -acceleration / limits["deceleration"])
    most = np.abs(velocity) / limits["velocity"], either, np.abs(jerk) / limits["jerk"]
    return np.array([float(each.max(initial=0)) for each in most]) * (1, 1, with_jerk)
