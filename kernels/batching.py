"""How `torch.vmap` maps a step operator over one more dimension: by folding it into the batch."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def fold(tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """Fold the mapped dimension (None: the same tensor for all) into the first one: `[V, N, ...]` to `[V N, ...]`."""
    if tensor is None:
        return None
    stacked = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return stacked.reshape(-1, *stacked.shape[2:])


def fold_dt(dt: Tensor, dim: int | None, size: int, batch: int) -> Tensor:
    """Fold step lengths `[1 or B, 1 or H]`."""
    if dim is None:
        return dt if dt.shape[0] == 1 else dt.repeat(size, 1)
    stacked = dt.movedim(dim, 0)
    return stacked.expand(size, batch, stacked.shape[2]).reshape(size * batch, -1)


def fold_start_index(
    start_index: Tensor | None, dim: int | None, size: int, batch: int, rows: int, device: torch.device
) -> Tensor | None:
    """Row of the folded pool `[V S, D]` for each folded trajectory; None if they already correspond."""
    if start_index is None and rows == batch:
        return None
    offset = torch.arange(0, size * rows, rows, device=device)[:, None]
    if start_index is None:  # one row for all trajectories becomes one row for each mapped slice
        return offset.expand(size, batch).reshape(-1)
    stacked = start_index.expand(size, batch) if dim is None else start_index.movedim(dim, 0)
    return (stacked + offset).reshape(-1)


def unfold(tensors: Sequence[Tensor | None], size: int) -> tuple[Tensor | None, ...]:
    """Restore the mapped dimension of the results, as the first one."""
    return tuple(None if tensor is None else tensor.unflatten(0, (size, -1)) for tensor in tensors)
