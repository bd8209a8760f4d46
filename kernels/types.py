"""The vocabulary that every kernel shares: control spaces, schemes and the trajectory they put out."""

from __future__ import annotations

import enum
from typing import NamedTuple

import torch
from torch import Tensor


class Trajectory(NamedTuple):
    """Position, velocity, acceleration and jerk of a batch of joint trajectories, each `[B, H, D]`.

    Units: rad, rad/s, rad/s^2, rad/s^3 for revolute joints, m, m/s, ... for prismatic ones.
    """

    position: Tensor
    velocity: Tensor
    acceleration: Tensor
    jerk: Tensor

    def to(self, dtype: torch.dtype) -> Trajectory:
        """Return the same trajectory with every output in `dtype`."""
        return Trajectory(*(output.to(dtype) for output in self))


class ControlSpace(enum.IntEnum):
    """What an action means; the numbers are those of `traj_integrator_interfaces/msg/ActionSequence`."""

    POSITION = 1
    VELOCITY = 2
    ACCELERATION = 3
    JERK = 4


class FiniteDifference(str, enum.Enum):
    """Scheme that turns positions into velocity, acceleration and jerk."""

    BACKWARD = "backward"
    CENTRAL = "central"


class AccelerationIntegrator(str, enum.Enum):
    """Scheme that turns accelerations into velocity and position; `ZOH` is exact for a held acceleration."""

    ZOH = "zoh"
    SEMI_IMPLICIT_EULER = "semi_implicit_euler"
