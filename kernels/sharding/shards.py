"""Computes on a device's own shards of DTensors where torch's operators would communicate."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from torch import Tensor
from torch.distributed.tensor import DTensor, Replicate
from torch.distributed.tensor.placement_types import Placement

from ..types import End
from .layouts import (  # noqa: F401  those who compute on shards find the layouts here
    COSTS,
    INDEX,
    TRAJECTORIES,
    Layout,
    Split,
    check_horizon,
    dt_layout,
    rows_layout,
    weights_layout,
)


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
    local_ends = []
    for end in ends:
        layout = rows_layout(end.count, end.index, batch)
        local_ends.append(End([split.local(rows, layout) for rows in end.rows], split.local(end.index, INDEX)))
    layout = dt_layout(dt.shape[0], batch)
    gradient = compute(
        split.local(action, TRAJECTORIES),
        local_ends,
        split.local(dt, layout),
        [split.local(one, TRAJECTORIES) for one in upstream],
    )
    return split.whole(gradient, layout, dt.shape, gradient=True)


def _split_of(place: Placement) -> Split:
    if place.is_shard(0):
        return Split.BATCH
    return Split.JOINTS if place.is_shard(2) else Split.NOTHING
