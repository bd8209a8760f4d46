"""How each argument of a map is placed on a device mesh, and what is computed on a device's own shards of DTensors.

The table of layouts is for the whole room; computing on shards is for what torch's operators would communicate for.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from torch import Tensor
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor.placement_types import Placement

from ..types import End


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


class Shards:
    """How the trajectories of one call are split over a mesh.

    Args:
        like: `[B, H, D]`, trajectories, or their actions or gradients.
        name: what to call it in errors.
    """

    def __init__(self, like: DTensor, name: str) -> None:
        check_horizon(name, like)
        self.mesh = like.device_mesh
        self.splits = tuple(_split_of(place) for place in like.placements)

    def local(self, tensor: Tensor | None, layout: Layout) -> Tensor | None:
        """Return this device's part of a tensor in its layout; a plain tensor is the same on all devices."""
        if tensor is None:
            return None
        whole = tensor if isinstance(tensor, DTensor) else replicated(tensor, self.mesh)
        placements = [layout.at(split) for split in self.splits]
        gradients = [layout.gradient_at(split) for split in self.splits]
        return placed(whole, placements).to_local(grad_placements=gradients)

    def end(self, end: End, batch: int) -> End:
        """Return this device's part of start or goal rows, and of their index."""
        layout = rows_layout(end.count, end.index, batch)
        return End([self.local(row, layout) for row in end.rows], self.local(end.index, INDEX))

    def whole(self, local: Tensor | None, layout: Layout, shape: Sequence[int], *, gradient: bool = False) -> Tensor:
        """Return the DTensor of this shape from the part on this device; with `gradient`, placed as a gradient."""
        if local is None:
            return None
        place = layout.gradient_at if gradient else layout.at
        strides = tuple(math.prod(shape[dim + 1 :]) for dim in range(len(shape)))
        placements = [place(split) for split in self.splits]
        return DTensor.from_local(local, self.mesh, placements, run_check=False, shape=tuple(shape), stride=strides)


def placed(tensor: DTensor | None, placements: Sequence[Placement]) -> DTensor | None:
    """Return a DTensor in these placements; splitting a replicated one sends nothing."""
    if tensor is None or tuple(tensor.placements) == tuple(placements):
        return tensor  # even a redistribution to the same placements would sum the gradient
    return tensor.redistribute(tensor.device_mesh, placements)


def replicated(tensor: Tensor, mesh: object) -> DTensor:
    """Return a tensor that is the same on every device of a mesh as a DTensor."""
    return DTensor.from_local(tensor, mesh, [Replicate()] * mesh.ndim, run_check=False)


def dt_gradient(
    compute: Callable[..., Tensor],
    action: DTensor,
    ends: Sequence[End],
    dt: DTensor,
    upstream: Sequence[DTensor | None],
) -> DTensor:
    """Gradient of dt by `compute(action, ends, dt, upstream)`, which sums over joints and over what shares a step."""
    batch = action.shape[0]
    split = Shards(next(gradient for gradient in upstream if gradient is not None), "upstream")
    layout = dt_layout(dt.shape[0], batch)
    gradient = compute(
        split.local(action, TRAJECTORIES),
        [split.end(end, batch) for end in ends],
        split.local(dt, layout),
        [split.local(one, TRAJECTORIES) for one in upstream],
    )
    return split.whole(gradient, layout, dt.shape, gradient=True)


def _split_of(place: Placement) -> Split:
    if place.is_shard(0):
        return Split.BATCH
    return Split.JOINTS if place.is_shard(2) else Split.NOTHING
