"""The joint states of a batch of trajectories, with the names of the joints; and device and dtype as one value."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

_FIELDS = ("position", "velocity", "acceleration", "jerk")


@dataclass(frozen=True)
class TensorDeviceType:
    """Device and dtype of tensors; a device given by name ("cuda:0") becomes a `torch.device`."""

    device: torch.device | str = "cpu"
    dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        object.__setattr__(self, "device", torch.device(self.device))
        if not isinstance(self.dtype, torch.dtype):
            raise TypeError(f"dtype: expected a torch.dtype, got {self.dtype!r}")

    def as_torch_dict(self) -> dict[str, Any]:
        """Return the keyword arguments for torch's factories: `torch.zeros(3, **tensor_args.as_torch_dict())`."""
        return {"device": torch.device(self.device), "dtype": self.dtype}


@dataclass(eq=False)
class JointState:
    """Position, velocity, acceleration and jerk of named joints, each `[..., dof]` and of one shape; None if unknown.

    Units: rad, rad/s, rad/s^2, rad/s^3 (m, ... for prismatic joints). A pytree whose leaves are the tensors. The steps
    take any object with these fields, such as cuRobo's own.

    Raises:
        TypeError: a field that is not a tensor.
        ValueError: fields of different shapes.

    """

    position: Tensor
    velocity: Tensor | None = None
    acceleration: Tensor | None = None
    jerk: Tensor | None = None
    joint_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name in _FIELDS:
            field = getattr(self, name)
            if field is None and name != "position":
                continue
            if not isinstance(field, Tensor):
                raise TypeError(f"{name}: expected a tensor, got {type(field).__name__}")
            if field.shape != self.position.shape:
                shape = list(self.position.shape)
                raise ValueError(f"{name}: expected the position's shape {shape}, got {list(field.shape)}")


def _flatten(state: JointState) -> tuple[list[Tensor | None], Sequence[str] | None]:
    return [getattr(state, name) for name in _FIELDS], state.joint_names


def _unflatten(leaves: Iterable[Tensor | None], joint_names: Sequence[str] | None) -> JointState:
    # Bypasses the constructor, because torch fills trees with placeholders that have no shape to check.
    state = JointState.__new__(JointState)
    state.__dict__.update(zip(_FIELDS, leaves, strict=True), joint_names=joint_names)
    return state


_pytree.register_pytree_node(
    JointState, _flatten, _unflatten, serialized_type_name="traj_integrator_ros.kernels.JointState"
)
