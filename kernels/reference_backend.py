"""The REFERENCE backend: `reference` and `vjps` in float64 behind the launcher interface of `backends`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from . import reference, vjps
from .types import Trajectory


def _forward(composition: Callable[..., Trajectory]) -> Callable[..., tuple[Tensor, ...]]:
    def forward(action: Tensor, *start_index_dt: Tensor | None, **scheme: object) -> tuple[Tensor, ...]:
        *start, start_index, dt = start_index_dt
        rows = start_rows(start, start_index, action)
        trajectory = composition(action.double(), *rows, dt.double()[..., None], **scheme)
        return tuple(output.to(action.dtype) for output in trajectory)

    return forward


def _vjp(composition: Callable[..., vjps.Gradients]) -> Callable[..., tuple[Tensor | None, ...]]:
    def vjp(
        *upstream_index_dt: Tensor | None,
        start_rows: int,
        action_horizon: int,
        needs: Sequence[bool],
        **scheme: object,
    ) -> tuple[Tensor | None, ...]:
        *upstream, start_index, dt = upstream_index_dt
        like = next(gradient for gradient in upstream if gradient is not None)
        batch, _, dof = like.shape
        widened = tuple(None if gradient is None else gradient.double() for gradient in upstream)
        action, *rows, _ = composition(widened, dt.double()[..., None], action_horizon, **scheme)
        results: list[Tensor | None] = [None] * len(needs)
        if needs[0]:
            results[0] = like.new_zeros(batch, action_horizon, dof) if action is None else action.to(like.dtype)
        for i, row in enumerate(rows, start=1):
            if needs[i]:
                zero = row is None
                results[i] = like.new_zeros(start_rows, dof) if zero else _collect(row, start_index, start_rows, like)
        return tuple(results)

    return vjp


def start_rows(start: Sequence[Tensor | None], start_index: Tensor | None, action: Tensor) -> list[Tensor]:
    """The start rows of every trajectory in float64, `[1 or B, D]`; zero where there are none."""
    rows = [row if row is None or start_index is None else row.index_select(0, start_index) for row in start]
    zero = None
    for i, row in enumerate(rows):
        if row is None:
            zero = action.new_zeros(1, action.shape[2], dtype=torch.float64) if zero is None else zero
            rows[i] = zero
        else:
            rows[i] = row.double()
    return rows


def _collect(gradient: Tensor, start_index: Tensor | None, pool: int, like: Tensor) -> Tensor:
    """Sum the rows `[B, D]` of all trajectories that start from the same row of the pool, always in the same order."""
    if start_index is None:
        total = gradient if gradient.shape[0] == pool else gradient.sum(0, keepdim=True)
        # A copy: what is given may be a view of an upstream gradient.
        return total.to(like.dtype, copy=True, memory_format=torch.contiguous_format)
    total = gradient.new_zeros(pool, gradient.shape[1])
    if gradient.device.type == "cpu":
        total.index_add_(0, start_index, gradient)
    else:  # index_add_ adds in the order in which the threads arrive; an accumulating index_put_ sorts first
        total.index_put_((start_index.long(),), gradient, accumulate=True)
    return total.to(like.dtype)


clique_forward = _forward(reference.clique)
clique_vjp = _vjp(vjps.clique)
clique_central_forward = _forward(reference.clique_central)
clique_central_vjp = _vjp(vjps.clique_central)
acceleration_forward = _forward(reference.acceleration)
acceleration_vjp = _vjp(vjps.acceleration)
velocity_forward = _forward(reference.velocity)
velocity_vjp = _vjp(vjps.velocity)
jerk_forward = _forward(reference.jerk)
jerk_vjp = _vjp(vjps.jerk)
