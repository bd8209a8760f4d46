"""Positions to derivatives by five-point central differences, and the transpose: launchers.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

taken as differences of differences, which are exact for neighbouring floats. Rows 0 to 3 see the start: float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .clique_central_fwd import clique_central_fwd_kernel
from .clique_central_vjp import clique_central_vjp_kernel
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

_EXTRA_HORIZON = 4
_START_ROWS = 4
# Bounds of registers per thread: at least 2 programs of 256 threads at a time on a multiprocessor, and no spills.
_REGISTERS, _DOUBLE_REGISTERS = 80, 96


def clique_central_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    j0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    out: Sequence[Tensor] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, Ha + 4, D]` of position actions `[B, Ha, D]`, rad.

    Starts, `start_index`, `out`, `tile`: as for `clique.clique_forward`, with a start jerk; `dt` is `[1 or B, 1]`.
    """
    batch, action_horizon, dof = action.shape
    horizon = action_horizon + _EXTRA_HORIZON
    trajectory = outputs(out, (batch, horizon, dof), action)
    elements = batch * horizon * dof
    tile = tile or flat_tile(elements, action)
    start_programs = programs_for(batch * _START_ROWS * dof, tile)
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pvaj", (p0, v0, a0, j0), start_index),
        **_one_dt(dt, batch),
        **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
        "n_batch": batch,
        "Ha": action_horizon,
        "D": dof,
        "n_start_programs": start_programs,
        "LANES": tile.lanes,
        "ACCESSES": tile.accesses,
    }
    interior = programs_for(elements, tile)
    registers = _DOUBLE_REGISTERS if action.dtype == torch.float64 else _REGISTERS
    run(clique_central_fwd_kernel, start_programs + interior, arguments, tile.warps, registers)
    return trajectory


def clique_central_vjp(
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int | Sequence[int],
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True, True),
    truncate_terminal_gradient: bool = False,
    out: Tensor | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action `[B, Ha, D]`, p0, v0, a0 and j0, None if not needed.

    Arguments as for `clique.clique_vjp`. `truncate_terminal_gradient` leaves the last action only the gradient of
    the positions.
    """
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    like = upstream.some
    batch, horizon, dof = like.shape
    if horizon != action_horizon + _EXTRA_HORIZON:
        raise ValueError(
            f"action_horizon: expected {_EXTRA_HORIZON} less than the horizon {horizon} of the gradients, "
            f"got {action_horizon}"
        )
    elements = batch * action_horizon * dof
    tile = tile or flat_tile(elements, like)
    grad_action = output(out, (batch, action_horizon, dof), like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like)
    start_programs = programs_for(batch * dof, tile) if any(needs[1:]) else 0
    arguments = {
        **upstream.arguments(),
        **_one_dt(dt, batch),
        "p_grad_action": grad_action,
        **starts.arguments("pvaj"),
        "n_batch": batch,
        "Ha": action_horizon,
        "D": dof,
        "n_start_programs": start_programs,
        "TRUNCATE": truncate_terminal_gradient,
        "DOUBLE": like.dtype == torch.float64,
        "LANES": tile.lanes,
        "ACCESSES": tile.accesses,
    }
    interior = programs_for(elements, tile) if needs[0] else 0
    registers = _DOUBLE_REGISTERS if like.dtype == torch.float64 else _REGISTERS
    run(clique_central_vjp_kernel, start_programs + interior, arguments, tile.warps, registers)
    return (grad_action, *starts.gradients())


def _one_dt(dt: Tensor, batch: int) -> dict[str, Tensor | bool]:
    arguments = dt_arguments(dt, batch, 1)
    return {name: arguments[name] for name in ("p_dt", "DT_PER_TRAJECTORY")}
