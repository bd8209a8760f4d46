"""Motions of actions, their bounds and their jumps."""

from __future__ import annotations

import numpy as np

from traj_integrator_ros.execution.limits import Bounds
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.rows import Hold, acceleration_hold, jerk_hold, motion_of_positions, rows_of_actions


def motion_of_actions(hold: Hold, steps: np.ndarray, actions: np.ndarray, start: State, **named: float) -> Motion:
    """The motion that actions describe alone, from a start state on."""
    if hold in (Hold.ACCELERATION, Hold.JERK):
        return (acceleration_hold if hold is Hold.ACCELERATION else jerk_hold)(steps, actions, start)
    return motion_of_positions(steps, rows_of_actions(hold, steps, actions, start), start, **named)


def bounds(dof: int, velocity: float = 2.0, acceleration: float = 10.0, jerk: float = 500.0, position=np.inf) -> Bounds:
    """The same for all joints."""
    return Bounds(*(np.full(dof, value, float) for value in (-position, position, velocity, acceleration, jerk)))


def largest_jumps(motion: Motion) -> np.ndarray:
    """By how much position, velocity and acceleration jump at knots, at most, `[3]`."""
    derivatives = [motion.coefficients]
    for _ in range(2):
        powers = np.arange(1, derivatives[-1].shape[1])[:, None]
        derivatives.append(derivatives[-1][:, 1:] * powers)
    h = motion.steps[:-1, None]
    ends = [sum(part[:-1, k] * h**k for k in range(part.shape[1])) for part in derivatives]
    return np.array([np.abs(end - part[1:, 0]).max(initial=0.0) for end, part in zip(ends, derivatives, strict=True)])
