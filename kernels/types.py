"""The types that all kernels share: control spaces, schemes and the trajectories they return."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

DT_PER = ("step", "trajectory")
"""Constants that say what the lengths in a flat dt belong to."""


class Trajectory(NamedTuple):
    """Position, velocity, acceleration and jerk of a batch of joint trajectories, each `[..., H, D]`.

    Units: rad, rad/s, rad/s^2, rad/s^3 for revolute joints, m, m/s, ... for prismatic ones.
    """

    position: Tensor
    velocity: Tensor
    acceleration: Tensor
    jerk: Tensor

    def to(self, *arguments: object, **options: object) -> Trajectory:
        """Return the trajectory with every output moved or converted as by `Tensor.to`: `dtype`, `device` and so on."""
        return Trajectory(*(output.to(*arguments, **options) for output in self))

    def detach(self) -> Trajectory:
        """Return the same numbers without their graph."""
        return Trajectory(*(output.detach() for output in self))

    def row(self, place: int) -> Trajectory:
        """Return one trajectory of the batch, `[H, D]`: a view. Raises IndexError where there is none."""
        return Trajectory(*(output[place] for output in self))


torch.serialization.add_safe_globals([Trajectory])  # torch.load(weights_only=True) makes it from its four tensors
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
        """Number of rows S; -1 if no rows are given."""
        return next((row.shape[0] for row in self.rows if row is not None), -1)


class Inputs(NamedTuple):
    """Inputs of a map; the operators take it flat, in this order, and their scheme after it."""

    values: Sequence[Tensor | None]
    """Its linear inputs: action `[B, Ha, D]`, position to jerk of the start, and of the goal; see `End.rows`."""
    indices: Sequence[Tensor | None]
    """Indices of start and goal."""
    dt: Tensor
    """`[1 or B, 1 or Ha]` s, float32 or float64."""

    @classmethod
    def split(cls, arguments: Sequence) -> tuple[Inputs, Sequence]:
        """Return the first arguments of an operator as this type, or whatever stands in their places; and the rest."""
        return cls(arguments[:9], arguments[9:11], arguments[11]), arguments[12:]

    @property
    def arguments(self) -> tuple[Tensor | None, ...]:
        """The first arguments of an operator."""
        return (*self.values, *self.indices, self.dt)

    @property
    def action(self) -> Tensor:
        """The actions."""
        return self.values[0]

    @property
    def ends(self) -> tuple[End, End]:
        """Start and goal."""
        return End(self.values[1:5], self.indices[0]), End(self.values[5:], self.indices[1])


class VjpInputs(NamedTuple):
    """Inputs of the vjp of a map; the operators take it flat, as they take `Inputs`."""

    upstream: Sequence[Tensor | None]
    """Gradients of position to jerk, `[B, H, D]`; None for zero, but not all of them."""
    indices: Sequence[Tensor | None]
    """Indices as in `Inputs`, as is `dt`."""
    dt: Tensor
    counts: Sequence[int]
    """Numbers of start and goal rows; without an index, 0 for one per trajectory: right for any part of a batch."""
    action_horizon: int
    needs: Sequence[bool]
    """Flags of the wanted gradients of `Inputs.values`."""

    @classmethod
    def split(cls, arguments: Sequence) -> tuple[VjpInputs, Sequence]:
        """Split like `Inputs.split`."""
        return cls(arguments[:4], arguments[4:6], arguments[6], arguments[7:9], *arguments[9:11]), arguments[11:]

    @property
    def arguments(self) -> tuple[object, ...]:
        """The first arguments of an operator."""
        return (*self.upstream, *self.indices, self.dt, *self.counts, self.action_horizon, self.needs)

    @property
    def like(self) -> Tensor:
        """The first gradient that is not None."""
        return first_given(self.upstream)

    @property
    def rows(self) -> list[int]:
        """The counts with B in place of 0; below 0 without a goal."""
        return decoded_rows(self.counts, self.indices, self.like.shape[0])


TENSORS = {"forward": 12, "vjp": 7}
"""Number of arguments of an operator that may be tensors: the first ones, of which dt is the last."""


def decoded_rows(counts: Sequence[int], indices: Sequence[Tensor | None], batch: int) -> list[int]:
    """Undo `encoded_rows`."""
    pairs = zip(counts, indices, strict=True)
    return [batch if index is None and count == 0 else count for count, index in pairs]


def encoded_rows(counts: Sequence[int], indices: Sequence[Tensor | None], batch: int) -> list[int]:
    """Return numbers of start and goal rows as `VjpInputs` has them."""
    pairs = zip(counts, indices, strict=True)
    return [0 if index is None and count == batch and batch != 1 else count for count, index in pairs]


def first_given(tensors: Sequence[Tensor | None]) -> Tensor:
    """Return the first of the upstream gradients that is not None."""
    for tensor in tensors:
        if tensor is not None:
            return tensor
    raise ValueError("upstream: expected at least one tensor, got None for all four")


class ControlSpace(enum.IntEnum):
    """Meaning of an action; the numbers are those of `traj_integrator_interfaces/msg/ActionSequence`."""

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
    """Representation of start and goal by the control points of a B-spline (docs/bsplines.md)."""

    TIGHT = "tight"
    """Start exact at the first row, goal exact at the last, every control point has an effect."""
    CUROBO = "curobo"
    """cuRobo's main branch: no control point affects the first segment, the goal is reached before the end."""
