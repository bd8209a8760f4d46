"""The joint states of a batch of trajectories, with the names of the joints; and device and dtype as one value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import EllipsisType
from typing import Any

import torch
from torch import Tensor
from torch.utils import _pytree

FIELDS = ("position", "velocity", "acceleration", "jerk")

# The fields of a flattened state, and its joint names.
_Context = tuple[tuple[str, ...], Sequence[str] | None]
Index = int | slice | EllipsisType | Tensor | Sequence[int] | None


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
    """Position, velocity, acceleration and jerk of named joints, each `[..., dof]` and of one shape.

    Units: rad, rad/s, rad/s^2, rad/s^3 (m, ... for prismatic joints). Unknown fields are None. A pytree whose leaves
    are the tensors: `torch.func.vmap`, `torch.compile` and `tree_map` take it as it is.

    Raises:
        TypeError: a field that is not a tensor.
        ValueError: fields of different shapes, or a number of names that differs from the dof.

    """

    position: Tensor
    velocity: Tensor | None = None
    acceleration: Tensor | None = None
    jerk: Tensor | None = None
    joint_names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.joint_names is not None:
            self.joint_names = tuple(self.joint_names)
        _check(self)

    def __getitem__(self, index: Index | tuple[Index, ...]) -> JointState:
        """Return the rows picked by `index` in every field: `state[0]`, `state[:, 1:]`, `state[..., -1]`."""
        parts = index if isinstance(index, tuple) else (index,)
        has_ellipsis = any(part is Ellipsis for part in parts)
        whole_dof = (*parts, slice(None)) if has_ellipsis else (*parts, Ellipsis, slice(None))
        return self._map(lambda field: field[whole_dof])

    def unsqueeze(self, dim: int) -> JointState:
        """Return the state with a dimension of 1 at `dim`, which comes before the dof (negative: from the end)."""
        return self._map(lambda field: field.unsqueeze(_row_dim(dim, field.dim())))

    def to(self, target: TensorDeviceType | torch.device | torch.dtype | str) -> JointState:
        """Return the state on the device and / or in the dtype that `target` names."""
        if isinstance(target, TensorDeviceType):
            return self._map(lambda field: field.to(device=target.device, dtype=target.dtype))
        return self._map(lambda field: field.to(target))

    def reindex(self, joint_names: Sequence[str]) -> JointState:
        """Return the state of the named joints, in that order.

        Raises:
            ValueError: this state has no names, or lacks one, or one is asked for twice.

        """
        if self.joint_names is None:
            raise ValueError("joint_names: expected a state with joint names to reindex, got None")
        names = tuple(joint_names)
        missing = [name for name in names if name not in self.joint_names]
        if missing:
            raise ValueError(f"joint_names: expected names among {list(self.joint_names)}, got unknown {missing}")
        if len(set(names)) != len(names):
            raise ValueError(f"joint_names: expected every name once, got {list(names)}")
        places = {name: place for place, name in enumerate(self.joint_names)}
        order = torch.tensor([places[name] for name in names], dtype=torch.long, device=self.position.device)
        picked = {name: field.index_select(-1, order) for name, field in _given(self).items()}
        return JointState(**picked, joint_names=names)

    def _map(self, function: Callable[[Tensor], Tensor]) -> JointState:
        return JointState(
            **{name: function(field) for name, field in _given(self).items()}, joint_names=self.joint_names
        )


def _given(state: JointState) -> dict[str, Tensor]:
    return {name: getattr(state, name) for name in FIELDS if getattr(state, name) is not None}


def _check(state: JointState) -> None:
    for name in FIELDS:
        field = getattr(state, name)
        if field is None and name != "position":
            continue
        if not isinstance(field, Tensor):
            raise TypeError(f"{name}: expected a tensor, got {type(field).__name__}")
        if field.dim() < 1 or field.shape != state.position.shape:
            expected = "[..., dof]" if field.dim() < 1 else f"the position's shape {list(state.position.shape)}"
            raise ValueError(f"{name}: expected {expected}, got shape {list(field.shape)}")
    names = state.joint_names
    dof = state.position.shape[-1]
    if names is not None and (len(names) != dof or len(set(names)) != len(names)):
        raise ValueError(f"joint_names: expected {dof} different names, got {list(names)}")


def _row_dim(dim: int, row_dims: int) -> int:
    """`dim` as a place among the dimensions before the dof."""
    place = dim + row_dims + 1 if dim < 0 else dim
    if not 0 <= place < row_dims:
        raise IndexError(f"dim: expected a place before the dof, in [0, {row_dims - 1}], got {dim}")
    return place


def _flatten(state: JointState) -> tuple[list[Tensor], _Context]:
    given = _given(state)
    return list(given.values()), (tuple(given), state.joint_names)


def _unflatten(leaves: Iterable[Tensor], context: _Context) -> JointState:
    # Bypasses the constructor, because torch fills trees with placeholders that have no shape to check.
    names, joint_names = context
    state = JointState.__new__(JointState)
    state.__dict__.update(dict.fromkeys(FIELDS), joint_names=joint_names)
    state.__dict__.update(zip(names, leaves, strict=True))
    return state


_pytree.register_pytree_node(
    JointState, _flatten, _unflatten, serialized_type_name="traj_integrator_ros.kernels.JointState"
)
