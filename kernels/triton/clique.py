r"""Positions to derivatives by backward differences, and the vjp.

With p[0] = p0, p[h] = u[h-1] and, before the start, the arc of constant acceleration,

    v[h] = (p[h] - p[h-1]) / dt[h]      V[0] = v0 - dt[0] a0 / 2 (a difference too), reported as v0
    a[h] = (v[h] - v[h-1]) / dt[h]      a[0] = a0
    j[h] = (a[h] - a[h-1]) / dt[h]      j[0] = 0

Rows h >= 4 depend only on actions. With one step length for a trajectory they are differences of differences of
positions, scaled once: differences of neighbouring floats are exact, so float32 loses nothing. With several step
lengths the quotients have to keep the digits that the next difference needs, so they are float64. The same holds for
rows 0 to 3, where v0 dt is subtracted from p[1] - p0; separate programs compute them.

Vjp: with Wj[h] = gj[h] / dt[h], Wa[h] = (ga[h] + Wj[h] - Wj[h+1]) / dt[h] and Wv[h] alike from gv and Wa, all 0 beyond
the horizon,

    grad u[h-1] = gp[h] + Wv[h] - Wv[h+1]  for h >= 1      grad p0 = gp[0] - Wv[1]
    grad v0 = gv[0] - Wa[1]                                grad a0 = ga[0] - Wj[1] + dt[0] Wa[1] / 2
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .clique_fwd import clique_fwd_kernel
from .clique_vjp import clique_vjp_kernel
from .launch import (
    START_LANES,
    FlatTile,
    Upstream,
    contiguous,
    dt_arguments,
    flat_division,
    flat_tile,
    output,
    outputs,
    programs_for,
    run,
    start_arguments,
)
from .start_gradients import StartGradients

_START_ROWS = 4
# Forward programs have half the lanes: with four outputs, more lanes would need more registers than are available.
_FORWARD_LANES, _VJP_LANES = 512, 1024
_REGISTERS, _WIDE_REGISTERS = 64, 128


def clique_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    out: Sequence[Tensor] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of position actions.

    Args:
        action: `[B, H, D]` rad.
        p0: start position, `[1 or B, D]` or a pool `[S, D]`, rad; v0, a0: like p0, rad/s and rad/s^2, None is 0.
        v0: see p0.
        a0: see p0.
        start_index: `[B]` int32 or int64, row of the pool for each trajectory, or None.
        dt: float32 or float64 `[1 or B, 1 or H]`, s.
        out: four contiguous buffers to write to.
        tile: size of a program; None for the default.

    """
    batch, horizon, dof = action.shape
    trajectory = outputs(out, (batch, horizon, dof), action)
    wide = action.dtype == torch.float64 or dt.shape[1] > 1
    tile = tile or flat_tile(action.numel(), _FORWARD_LANES // (2 if wide else 1), action.device)
    start_programs = programs_for(batch * min(horizon, _START_ROWS) * dof, START_LANES)
    interior = programs_for(action.numel(), tile.lanes) if horizon > _START_ROWS else 0
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pva", (p0, v0, a0), start_index),
        **dt_arguments(dt, batch, horizon),
        **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
        "n_rows": batch,
        "H": horizon,
        "D": dof,
        **flat_division(horizon * dof, tile),
        "n_start_programs": start_programs,
        "START_LANES": START_LANES,
        "LANES": tile.lanes,
    }
    run(clique_fwd_kernel, start_programs + interior, arguments, tile.warps, _WIDE_REGISTERS if wide else _REGISTERS)
    return trajectory


def clique_vjp(
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int,
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True),
    out: Tensor | None = None,
    start_out: Sequence[Tensor | None] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0 and a0, None if not needed.

    Args:
        grad_position: upstream gradient `[B, H, D]` or None for 0; so the others.
        grad_velocity: see grad_position.
        grad_acceleration: see grad_position.
        grad_jerk: see grad_position.
        start_index: as in the forward map.
        dt: as in the forward map.
        start_rows: rows S of the start pools.
        action_horizon: H.
        needs: which of the four gradients to compute.
        out: contiguous buffer for the gradient of the action.
        start_out: the same for those of the starts.
        tile: size of a program; None for the default.

    """
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    like = upstream.some
    batch, horizon, dof = like.shape
    if horizon != action_horizon:
        raise ValueError(f"action_horizon: expected the horizon {horizon} of the gradients, got {action_horizon}")
    wide = like.dtype == torch.float64 or dt.shape[1] > 1
    tile = tile or flat_tile(like.numel(), _VJP_LANES // (4 if wide else 1), like.device)
    grad_action = output(out, (batch, horizon, dof), like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like, start_out)
    start_programs = programs_for(batch * dof, START_LANES) if any(needs[1:]) else 0
    arguments = {
        **upstream.arguments(),
        **dt_arguments(dt, batch, horizon),
        "p_grad_action": grad_action,
        **starts.arguments("pva"),
        "n_rows": batch,
        "H": horizon,
        "D": dof,
        **flat_division(horizon * dof, tile),
        "n_magic_dof": flat_division(dof, tile)["n_magic"],
        "n_start_programs": start_programs,
        "DOUBLE": like.dtype == torch.float64,
        "START_LANES": START_LANES,
        "LANES": tile.lanes,
    }
    interior = programs_for(like.numel(), tile.lanes) if needs[0] else 0
    run(clique_vjp_kernel, start_programs + interior, arguments, tile.warps, _WIDE_REGISTERS if wide else _REGISTERS)
    return (grad_action, *starts.gradients())
