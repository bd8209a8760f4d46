"""The types that all kernels share: control spaces, schemes and the trajectories they return."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree


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


# torch.export can save a module that takes or returns one.
_pytree._register_namedtuple(Trajectory, serialized_type_name="traj_integrator_ros.kernels.Trajectory")


class End(NamedTuple):
    """The states in which trajectories begin, or in which they end."""

    rows: Sequence[Tensor | None]
    """Position, velocity and so on, `[S, D]` each; None for zero. A goal without a position is no goal."""
    index: Tensor | None
    """`[B]`, the row of each trajectory; None where S is 1 or B."""

    @property
    def count(self) -> int:
        """S; -1 where no rows are given."""
        return next((row.shape[0] for row in self.rows if row is not None), -1)


def own_rows(count: int, index: Tensor | None, batch: int) -> int:
    """Number of start or goal rows for the vjp operators: 0 for one per trajectory, for any part of a batch."""
    return 0 if index is None and count == batch and batch != 1 else count


def counted(counts: Sequence[int], indices: Sequence[Tensor | None], batch: int) -> list[int]:
    """Undo `own_rows` for the start, and the goal."""
    pairs = zip(counts, indices, strict=True)
    return [batch if index is None and count == 0 else count for count, index in pairs]


class ControlSpace(enum.IntEnum):
    """What an action means; the numbers are those of `traj_integrator_interfaces/msg/ActionSequence`."""

    POSITION = 1
    VELOCITY = 2
    ACCELERATION = 3
    JERK = 4
    BSPLINE = 5


class FiniteDifference(str, enum.Enum):
    """Scheme that turns positions into velocity, acceleration and jerk."""

    BACKWARD = "backward"
    CENTRAL = "central"


class AccelerationIntegrator(str, enum.Enum):
    """Scheme that turns accelerations into velocity and position; `ZOH` is exact for a held acceleration."""

    ZOH = "zoh"
    SEMI_IMPLICIT_EULER = "semi_implicit_euler"


class BsplineLayout(str, enum.Enum):
    """How the control points of a B-spline represent start and goal (docs/kernels.md, B-spline control)."""

    TIGHT = "tight"
    """Start exact at the first row, goal exact at the last, every control point has an effect."""
    CUROBO = "curobo"
    """As in cuRobo's main branch: no control point affects the first segment, the goal is reached before the end."""
