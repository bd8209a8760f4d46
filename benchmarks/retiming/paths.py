"""Random paths and limits, and an evaluation of motions that shares nothing with the search for times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion
from traj_integrator_ros.execution.polynomials import between
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


def played(times: np.ndarray, states: Sequence[np.ndarray]) -> np.ndarray:
    """Least and greatest position to jerk `[2, 4, D]` of a controller's interpolation between points."""
    pieces = between(np.diff(times), np.stack(states))
    return extremes(Motion(times - times[0], pieces, with_accelerations=len(states) == 3))


def played_ratios(motion: Retimed, index: int, limits: Limits) -> np.ndarray:
    """Greatest velocity, acceleration and jerk of the motion, relative to the limits."""
    times, states = states_of(motion, index)
    if len(times) < 2:
        return np.zeros(3)
    return ratios(*played(times, states).swapaxes(0, 1)[1:], limits, with_jerk=len(states) == 3)


def ratios(
    velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray, limits: Limits, *, with_jerk: bool = True
) -> np.ndarray:
    """Greatest value of each relative to its limits; arrays `[..., D]`."""
    either = np.maximum(acceleration / limits["acceleration"], -acceleration / limits["deceleration"])
    most = np.abs(velocity) / limits["velocity"], either, np.abs(jerk) / limits["jerk"]
    return np.array([float(each.max(initial=0)) for each in most]) * (1, 1, with_jerk)
