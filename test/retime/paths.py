"""Random paths and limits, and an evaluation of what is played that shares nothing with the code under test."""

from __future__ import annotations

import numpy as np
import torch

from traj_integrator_ros.kernels.retime import MotionLimits, Retimed


def random_path(rng: np.random.Generator, rows: int, dof: int = 7, size: float = 0.5) -> np.ndarray:
    return np.cumsum(rng.normal(size=(rows, dof)) * size, 0)


def random_limits(rng: np.random.Generator, dof: int = 7) -> dict[str, np.ndarray]:
    return {
        "velocity": rng.uniform(1, 3, dof),
        "acceleration": rng.uniform(3, 15, dof),
        "deceleration": rng.uniform(3, 15, dof),
        "jerk": rng.uniform(20, 150, dof),
    }


def as_limits(limits: dict[str, np.ndarray]) -> MotionLimits:
    return MotionLimits(**{name: torch.tensor(value) for name, value in limits.items()})


def sampled_ratios(motion: Retimed, index: int, limits: dict[str, np.ndarray], samples: int = 65) -> np.ndarray:
    """Greatest velocity, acceleration and jerk of what is played, relative to the limits: each piece solved for."""
    count = int(motion.count[index])
    t = motion.times[index, :count].numpy()
    p, v = motion.position[index, :count].numpy(), motion.velocity[index, :count].numpy()
    a = None if motion.acceleration is None else motion.acceleration[index, :count].numpy()
    degree = 3 if a is None else 5
    worst = np.zeros(3)
    for i in range(count - 1):
        h = t[i + 1] - t[i]
        at = [np.polynomial.polynomial.polyvander([0.0, 1.0], degree)]
        powers = np.arange(degree + 1)
        at.append(np.array([np.where(powers == 1, 1.0, 0.0), powers * 1.0]) / h)
        if a is not None:
            at.append(np.array([np.where(powers == 2, 2.0, 0.0), powers * (powers - 1.0)]) / h**2)
        known = [p[i : i + 2], v[i : i + 2], *([] if a is None else [a[i : i + 2]])]
        c = np.linalg.solve(np.concatenate(at), np.concatenate(known))
        e = np.linspace(0, 1, samples)
        values = [np.polynomial.polynomial.polyval(e, np.polynomial.polynomial.polyder(c, k)) / h**k for k in (1, 2, 3)]
        speed, accel, jerk = (value.T for value in values)
        accel_ratio = np.maximum(accel / limits["acceleration"], -accel / limits["deceleration"])
        each = np.abs(speed) / limits["velocity"], accel_ratio, np.abs(jerk) / limits["jerk"]
        worst = np.maximum(worst, [ratio.max() for ratio in each])
    if a is None:
        worst[2] = 0
    return worst
