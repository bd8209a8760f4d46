"""Intended motions."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from benchmarks.executed import motions
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.profiles import Bounds
from traj_integrator_ros.execution.rows import Hold


@dataclass(frozen=True)
class Meant:
    """A jerk-limited motion from a moving, accelerating start to rest, sampled at whole steps until it rests."""

    dt: float
    states: np.ndarray
    """Position, velocity and acceleration `[3, H + 1, D]`."""

    @property
    def start(self) -> State:
        return State(*self.states[:, 0])

    @property
    def steps(self) -> np.ndarray:
        return np.full(self.states.shape[1] - 1, self.dt)

    def actions(self, hold: Hold) -> np.ndarray:
        """What leads from row to row: positions, or mean velocities, accelerations and jerks of the steps."""
        position, velocity, acceleration = self.states
        if hold is Hold.POSITION:
            return position[1:]
        source = {Hold.VELOCITY: position, Hold.ACCELERATION: velocity, Hold.JERK: acceleration}[hold]
        return np.diff(source, axis=0) / self.dt


@lru_cache(maxsize=64)
def jerk_limited(seed: int, dt: float, dof: int = 7) -> Meant:
    """A time-optimal motion by ruckig, of at most 2 rad/s, 5 rad/s^2 and 50 rad/s^3."""
    return Meant(dt, motions.jerk_limited(seed, dt, dof))


def bounds(dof: int, velocity: float = 2.0, acceleration: float = 10.0, jerk: float = 500.0, position=np.inf) -> Bounds:
    """The same for all joints."""
    return Bounds(*(np.full(dof, float(value)) for value in (-position, position, velocity, acceleration, jerk)))


def largest_jumps(motion: Motion) -> np.ndarray:
    """By how much position, velocity and acceleration jump at knots, at most, `[3]`."""
    derivatives = [motion.coefficients]
    for _ in range(2):
        powers = np.arange(1, derivatives[-1].shape[1])[:, None]
        derivatives.append(derivatives[-1][:, 1:] * powers)
    h = motion.steps[:-1, None]
    ends = [sum(part[:-1, k] * h**k for k in range(part.shape[1])) for part in derivatives]
    return np.array([np.abs(end - part[1:, 0]).max(initial=0.0) for end, part in zip(ends, derivatives, strict=True)])
