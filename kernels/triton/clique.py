r"""Positions to derivatives by backward differences, and the transpose.

With p[0] = p0, p[h] = u[h-1] and, before the start, the arc of constant acceleration,

    v[h] = (p[h] - p[h-1]) / dt[h]      V[0] = v0 - dt[0] a0 / 2 (a difference too), reported as v0
    a[h] = (v[h] - v[h-1]) / dt[h]      a[0] = a0
    j[h] = (a[h] - a[h-1]) / dt[h]      j[0] = 0

Rows h >= 4 depend on actions alone: one element for each thread, neighbours through the cache. With one step length for
a trajectory they are differences of differences of positions, scaled once: differences of neighbouring floats are
exact, so float32 loses nothing. With a step length of their own the quotients have to keep the digits that the next
difference needs: float64. So have rows 0 to 3, where v0 dt is subtracted from p[1] - p0; programs of their own do them.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .clique_fwd import clique_fwd_kernel
from .clique_vjp import clique_vjp_kernel
from .launch import (
    FlatTile,
    Upstream,
    contiguous,
    dt_arguments,
    flat_tile,
    output,
    outputs,
    programs_for,
    run,
    start_arguments,
)
from .start_gradients import StartGradients

_START_ROWS = 4
# Bounds of registers per thread: at least 3 programs of 256 threads at a time on a multiprocessor, and no spills.
_REGISTERS, _DOUBLE_REGISTERS = 64, 80


def clique_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    horizon_fastest: bool = False,
    out: Sequence[Tensor] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of position actions.

    Args:
        action: `[B, H, D]` rad; `[B, D, H]` with `horizon_fastest`, and so are the outputs then.
        p0: start position, `[1 or B, D]` or a pool `[S, D]`, rad; v0, a0: alike, rad/s and rad/s^2, None is 0.
        v0: see p0.
        a0: see p0.
        start_index: `[B]` int32 or int64, row of the pool for each trajectory, or None.
        dt: float32 or float64 `[1 or B, 1 or H]`, s.
        horizon_fastest: the memory layout `[B, D, H]` ("coalesced") of actions and outputs.
        out: four contiguous buffers to write to.
        tile: size of a program; None for the usual.

    """
    batch, horizon, dof = _sizes(action.shape, horizon_fastest)
    trajectory = outputs(out, tuple(action.shape), action)
    rows, inner = (batch * dof, 1) if horizon_fastest else (batch, dof)
    tile = tile or flat_tile(action.numel(), action)
    start_programs = programs_for(rows * min(horizon, _START_ROWS) * inner, tile)
    interior = programs_for(action.numel(), tile) if horizon > _START_ROWS else 0
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pva", (p0, v0, a0), start_index),
        **dt_arguments(dt, batch, horizon),
        **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
        "n_rows": rows,
        "H": horizon,
        "D": inner,
        "dof": dof,
        "n_start_programs": start_programs,
        "H_FASTEST": horizon_fastest,
        "LANES": tile.lanes,
        "ACCESSES": tile.accesses,
    }
    registers = _DOUBLE_REGISTERS if action.dtype == torch.float64 else _REGISTERS
    run(clique_fwd_kernel, start_programs + interior, arguments, tile.warps, registers)
    return trajectory


def clique_vjp(
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int | Sequence[int],
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True),
    horizon_fastest: bool = False,
    out: Tensor | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0 and a0, None if not needed.

    Args:
        grad_position: upstream gradient `[B, H, D]` (`[B, D, H]` with `horizon_fastest`) or None for 0; so the others.
        grad_velocity: see grad_position.
        grad_acceleration: see grad_position.
        grad_jerk: see grad_position.
        start_index: as in the forward map.
        dt: as in the forward map.
        start_rows: rows S of the start pools, one number or one for each.
        action_horizon: H.
        needs: which of the four gradients to compute.
        horizon_fastest: as in the forward map.
        out: contiguous buffer for the gradient of the action.
        tile: size of a program; None for the usual.

    """
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    like = upstream.some
    shape = tuple(like.shape)
    batch, horizon, dof = _sizes(shape, horizon_fastest)
    if horizon != action_horizon:
        raise ValueError(f"action_horizon: expected the horizon {horizon} of the gradients, got {action_horizon}")
    rows, inner = (batch * dof, 1) if horizon_fastest else (batch, dof)
    tile = tile or flat_tile(like.numel(), like)
    grad_action = output(out, shape, like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like)
    start_programs = programs_for(rows * inner, tile) if any(needs[1:]) else 0
    arguments = {
        **upstream.arguments(),
        **dt_arguments(dt, batch, horizon),
        "p_grad_action": grad_action,
        **starts.arguments("pva"),
        "n_rows": rows,
        "H": horizon,
        "D": inner,
        "dof": dof,
        "n_start_programs": start_programs,
        "H_FASTEST": horizon_fastest,
        "DOUBLE": like.dtype == torch.float64,
        "LANES": tile.lanes,
        "ACCESSES": tile.accesses,
    }
    interior = programs_for(like.numel(), tile) if needs[0] else 0
    registers = _DOUBLE_REGISTERS if like.dtype == torch.float64 else _REGISTERS
    run(clique_vjp_kernel, start_programs + interior, arguments, tile.warps, registers)
    return (grad_action, *starts.gradients())


def _sizes(shape: Sequence[int], horizon_fastest: bool) -> tuple[int, int, int]:
    batch, horizon, dof = shape
    return (batch, dof, horizon) if horizon_fastest else (batch, horizon, dof)
