"""How `torch.vmap` maps the extension's operators over one more dimension: by folding it into the batch.

Needed where autograd itself maps over backward passes, e.g. `torch.autograd.grad(..., is_grads_batched=True)`: the
graph that the fast path records calls these operators.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..batching import fold, fold_dt, fold_start_index, unfold


def _step(
    info: torch._C._functorch.CInterpreter,
    in_dims: Sequence[int | None],
    number: int,
    action: Tensor,
    *start_index_dt_truncate: Tensor | bool | None,
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    *start, start_index, dt, truncate = start_index_dt_truncate
    size = info.batch_size
    action = fold(action, in_dims[1], size)
    batch = action.shape[0] // size
    start = [fold(row, dim, size) for row, dim in zip(start, in_dims[2:6], strict=True)]
    rows = next((row.shape[0] // size for row in start if row is not None), batch)
    start_index = fold_start_index(start_index, in_dims[6], size, batch, rows, action.device)
    outputs = torch.ops.traj_integrator_native.step(
        number, action, *start, start_index, fold_dt(dt, in_dims[7], size, batch), truncate
    )
    return unfold(outputs, size), (0,) * 4


def _step_vjp(
    info: torch._C._functorch.CInterpreter,
    in_dims: Sequence[int | None],
    number: int,
    *arguments: Tensor | Sequence[int] | int | bool | None,
) -> tuple[tuple[Tensor | None, ...], tuple[int | None, ...]]:
    *upstream, start_index, dt, start_rows, action_horizon, needs, truncate = arguments
    size = info.batch_size
    upstream = [fold(gradient, dim, size) for gradient, dim in zip(upstream, in_dims[1:5], strict=True)]
    like = next(gradient for gradient in upstream if gradient is not None)
    batch = like.shape[0] // size
    start_index = fold_start_index(start_index, in_dims[5], size, batch, max(start_rows), like.device)
    gradients = torch.ops.traj_integrator_native.step_vjp(
        number,
        *upstream,
        start_index,
        fold_dt(dt, in_dims[6], size, batch),
        [size * rows for rows in start_rows],
        action_horizon,
        needs,
        truncate,
    )
    return unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)


def register() -> None:
    """Register both rules with torch."""
    torch.library.register_vmap("traj_integrator_native::step", _step)
    torch.library.register_vmap("traj_integrator_native::step_vjp", _step_vjp)
