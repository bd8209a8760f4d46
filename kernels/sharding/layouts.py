"""How each argument of a map is placed on one dimension of a device mesh: the table that the whole room uses."""

from __future__ import annotations

import enum
from typing import NamedTuple

from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement


class Split(enum.Enum):
    """What one dimension of the mesh divides among its devices; the horizon is never divided."""

    NOTHING = enum.auto()
    BATCH = enum.auto()
    JOINTS = enum.auto()


class Layout(NamedTuple):
    """Placements of a tensor if the batch is split, and if the joints are split."""

    batch: Placement
    joints: Placement

    def at(self, split: Split) -> Placement:
        """Placement of the tensor."""
        return {Split.BATCH: self.batch, Split.JOINTS: self.joints}.get(split, Replicate())

    def gradient_at(self, split: Split) -> Placement:
        """Placement of its gradient: for what every device has, each device holds a partial sum."""
        place = self.at(split)
        return Partial() if split is not Split.NOTHING and place.is_replicate() else place


TRAJECTORIES = Layout(Shard(0), Shard(2))  # [B, H, D]
INDEX = Layout(Shard(0), Replicate())  # [B]
COSTS = Layout(Shard(0), Partial())  # [B], a sum over joints
_OWN_ROWS = Layout(Shard(0), Shard(1))  # [B, D]
_SHARED_ROWS = Layout(Replicate(), Shard(1))  # [1, D], or a pool
_OWN_DT = Layout(Shard(0), Replicate())  # [B, 1 or H]
_SHARED_DT = Layout(Replicate(), Replicate())  # [1, 1 or H]


def rows_layout(count: int, index: object | None, batch: int) -> Layout:
    """Layout of start or goal rows: one per trajectory splits with the batch; one for all, or a pool, is replicated."""
    return _OWN_ROWS if index is None and count == batch > 1 else _SHARED_ROWS


def dt_layout(count: int, batch: int) -> Layout:
    """Layout of the step lengths, by their number of rows."""
    return _OWN_DT if count == batch > 1 else _SHARED_DT


def weights_layout(dims: int, *, with_rows: bool) -> Layout:
    """Layout of weights and targets of a cost: `[D]`, and `[H, D]`, `[B, H, D]` or (without rows) `[B, D]`."""
    has_batch = dims == (3 if with_rows else 2)
    return Layout(Shard(0) if has_batch else Replicate(), Shard(dims - 1))


def check_horizon(name: str, tensor: DTensor | DTensorSpec) -> None:
    """Raise an error if a tensor, or its specification, is split along the horizon."""
    if any(place.is_shard(1) for place in tensor.placements):
        raise ValueError(
            f"{name}: expected a horizon that is whole on every device, for each row of a trajectory depends on those "
            f"before it; got Shard(1), and dimension 1 is the horizon. Shard the batch (0) or the joints (2)"
        )


def check_distributed(named: dict[str, Tensor | None], like: DTensor) -> None:
    """Raise an error for plain tensors, and for those on another mesh, that are passed together with a DTensor."""
    for name, tensor in named.items():
        if not isinstance(tensor, Tensor):
            continue
        if not isinstance(tensor, DTensor):
            raise TypeError(
                f"{name}: expected a DTensor like the other tensors, got a plain tensor; distribute what every device "
                "has with Replicate()"
            )
        if tensor.device_mesh != like.device_mesh:
            raise ValueError(f"{name}: expected the mesh {like.device_mesh}, got {tensor.device_mesh}")
