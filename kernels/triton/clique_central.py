"""Positions to derivatives by five-point central differences, and the vjp.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

computed as differences of differences, which are exact for neighbouring floats. Rows 0 to 3 depend on the start:
float64.

Vjp: the action u[m] is e[m+1], which outputs m to m + 4 see; for m < Ha - 1, g0 to g4 being the upstream gradients,

    grad u[m] = gp2 + (gv4 - 8 gv3 + 8 gv1 - gv0) / (12 dt) + (-ga4 + 16 ga3 - 30 ga2 + 16 ga1 - ga0) / (12 dt^2)
                + (-gj4 + 2 gj3 - 2 gj1 + gj0) / (2 dt^3)

The last action also stands for the points that hold it: sums of these rows,

    grad u[Ha-1] = gp2 + gp3 + gp4 + (-gv3 + 7 gv2 + 7 gv1 - gv0) / (12 dt) + (ga3 - 15 ga2 + 15 ga1 - ga0) / (12 dt^2)
                   + (gj3 - gj2 - gj1 + gj0) / (2 dt^3)

Start gradients: with E[k] the gradient of the point e[k], k = 0, -1, -2, -3: p0: sum E[k], v0: sum k dt E[k],
a0: sum (k dt)^2 / 2 E[k], j0: sum (k dt)^3 / 6 E[k].
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..types import Inputs, VjpInputs
from .clique_central_fwd import clique_central_fwd_kernel
from .clique_central_vjp import clique_central_vjp_kernel
from .launch import (
    START_LANES,
    FlatTile,
    Upstream,
    contiguous,
    flat_division,
    flat_tile,
    one_dt_arguments,
    output,
    outputs,
    programs_for,
    run,
    start_arguments,
)
from .start_gradients import StartGradients

_EXTRA_HORIZON = 4
_START_ROWS = 4
# The values that a program holds at a time need two registers each in float64.
_FORWARD_LANES, _VJP_LANES = 512, 512
_REGISTERS, _DOUBLE_REGISTERS = 96, 168


def clique_central_forward(
    inputs: Inputs, *, out: Sequence[Tensor] | None = None, tile: FlatTile | None = None
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, Ha + 4, D]` of position actions `[B, Ha, D]`, rad.

    Arguments as for `chain.clique_forward`; dt is `[1 or B, 1]`.
    """
    action, dt = inputs.action, inputs.dt
    batch, action_horizon, dof = action.shape
    horizon = action_horizon + _EXTRA_HORIZON
    trajectory = outputs(out, (batch, horizon, dof), action)
    elements = batch * horizon * dof
    double = action.dtype == torch.float64
    tile = tile or flat_tile(elements, _FORWARD_LANES // (2 if double else 1), action.device)
    start_programs = programs_for(batch * _START_ROWS * dof, START_LANES)
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pvaj", inputs.ends[0]),
        **one_dt_arguments(dt, batch),
        **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
        "n_batch": batch,
        "Ha": action_horizon,
        "D": dof,
        **flat_division(horizon * dof, tile),
        "n_start_programs": start_programs,
        "START_LANES": START_LANES,
        "LANES": tile.lanes,
    }
    interior = programs_for(elements, tile.lanes)
    registers = _DOUBLE_REGISTERS if double else _REGISTERS
    run(clique_central_fwd_kernel, start_programs + interior, arguments, tile.warps, registers)
    return trajectory


def clique_central_vjp(
    inputs: VjpInputs,
    *,
    truncate_terminal_gradient: bool = False,
    out: Sequence[Tensor | None] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `Inputs.values`, None if not needed.

    Arguments as for `chain.clique_vjp`. `truncate_terminal_gradient` leaves the last action only the gradient of
    the positions.
    """
    upstream, like, dt = Upstream.of(*inputs.upstream), inputs.like, inputs.dt
    needs, action_horizon = inputs.needs, inputs.action_horizon
    batch, horizon, dof = like.shape
    if horizon != action_horizon + _EXTRA_HORIZON:
        raise ValueError(
            f"action_horizon: expected {_EXTRA_HORIZON} less than the horizon {horizon} of the gradients, "
            f"got {action_horizon}"
        )
    elements = batch * action_horizon * dof
    double = like.dtype == torch.float64
    tile = tile or flat_tile(elements, _VJP_LANES // (2 if double else 1), like.device)
    grad_action = output(out and out[0], (batch, action_horizon, dof), like, "out[0]") if needs[0] else None
    starts = StartGradients(inputs, 0, out)
    start_programs = programs_for(batch * dof, START_LANES) if any(needs[1:]) else 0
    arguments = {
        **upstream.arguments(),
        **one_dt_arguments(dt, batch),
        "p_grad_action": grad_action,
        **starts.arguments("pvaj"),
        "n_batch": batch,
        "Ha": action_horizon,
        "D": dof,
        **flat_division(action_horizon * dof, tile),
        "n_start_programs": start_programs,
        "TRUNCATE": truncate_terminal_gradient,
        "DOUBLE": double,
        "START_LANES": START_LANES,
        "LANES": tile.lanes,
    }
    interior = programs_for(elements, tile.lanes) if needs[0] else 0
    registers = _DOUBLE_REGISTERS if double else _REGISTERS
    run(clique_central_vjp_kernel, start_programs + interior, arguments, tile.warps, registers)
    return (grad_action, *starts.gradients(), *[None] * 4)
