"""Positions to derivatives by five-point central differences, and the transpose.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

taken as differences of differences, which are exact for neighbouring floats. Rows 0 to 3 see the start: float64.

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
import triton
import triton.language as tl
from torch import Tensor

from .addressing import difference, flat_places, load_gradient, load_start, narrow, reciprocal, reciprocal_double, split
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

_EXTRA_HORIZON = 4
_START_ROWS = 4
# What a program has at hand at a time needs two registers a number in float64.
_FORWARD_LANES, _VJP_LANES = 512, 512
_REGISTERS, _DOUBLE_REGISTERS = 96, 168
_SCALARS = ("n_batch", "Ha", "D", "n_magic", "n_start_programs")
_POINTERS = ("p_action", "p_idx", "p_dt", "p_position", "p_velocity", "p_acceleration", "p_jerk")
_START_POINTERS = ("p_p0", "p_v0", "p_a0", "p_j0")
_VJP_POINTERS = ("p_grad_action", "p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt")


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
    double = action.dtype == torch.float64
    tile = tile or flat_tile(elements, _FORWARD_LANES // (2 if double else 1), action.device)
    start_programs = programs_for(batch * _START_ROWS * dof, START_LANES)
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pvaj", (p0, v0, a0, j0), start_index),
        **_one_dt(dt, batch),
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
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int,
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True, True),
    truncate_terminal_gradient: bool = False,
    out: Tensor | None = None,
    start_out: Sequence[Tensor | None] | None = None,
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
    double = like.dtype == torch.float64
    tile = tile or flat_tile(elements, _VJP_LANES // (2 if double else 1), like.device)
    grad_action = output(out, (batch, action_horizon, dof), like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like, start_out)
    start_programs = programs_for(batch * dof, START_LANES) if any(needs[1:]) else 0
    arguments = {
        **upstream.arguments(),
        **_one_dt(dt, batch),
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
    return (grad_action, *starts.gradients())


def _one_dt(dt: Tensor, batch: int) -> dict[str, Tensor | bool]:
    arguments = dt_arguments(dt, batch, 1)
    return {name: arguments[name] for name in ("p_dt", "DT_PER_TRAJECTORY")}


@triton.jit(
    do_not_specialize=["n_p0", "n_v0", "n_a0", "n_j0", *_SCALARS],
    do_not_specialize_on_alignment=[*_POINTERS, *_START_POINTERS],
)
def clique_central_fwd_kernel(
    p_action,
    p_idx,
    p_p0,
    n_p0,
    p_v0,
    n_v0,
    p_a0,
    n_a0,
    p_j0,
    n_j0,
    p_dt,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_batch,
    Ha,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    SHORT: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Rows 0 to 3 in the first `n_start_programs` programs, the rows that depend on actions alone in the others."""
    DOUBLE: tl.constexpr = p_action.dtype.element_ty == tl.float64
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        # In float64, over points measured from p0: small numbers keep more digits.
        INDEXED: tl.constexpr = p_idx is not None
        b_lane = tl.arange(0, START_LANES)
        n_elements = n_batch.to(tl.int64) * 4 * D
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_place = split(i_first, b_lane, 4 * D)
        b_in = i_first + b_lane < n_elements
        b_row = i_row + b_row
        b_h = b_place // D
        b_column = b_place - b_h * D
        b_start_row = b_row
        if p_idx is not None:
            b_start_row = tl.load(p_idx + b_row, mask=b_in, other=0).to(tl.int64)
        if DT_PER_TRAJECTORY:
            b_dt = tl.load(p_dt + b_row, mask=b_in, other=1).to(tl.float64)
        else:
            b_dt = tl.load(p_dt + tl.zeros_like(b_h), mask=b_in, other=1).to(tl.float64)
        b_p0 = load_start(p_p0, n_p0, b_start_row, b_column, D, b_in, INDEXED)
        # The arc before the start in steps of dt: k (b_v0 + k (b_a0 + k b_j0)).
        b_v0 = load_start(p_v0, n_v0, b_start_row, b_column, D, b_in, INDEXED) * b_dt
        b_a0 = load_start(p_a0, n_a0, b_start_row, b_column, D, b_in, INDEXED) * (b_dt * b_dt) * 0.5
        b_j0 = load_start(p_j0, n_j0, b_start_row, b_column, D, b_in, INDEXED) * (b_dt * b_dt * b_dt * (1.0 / 6.0))
        p_point = p_action + b_row * (Ha.to(tl.int64) * D) + b_column
        b_e0 = _point(p_point, b_h - 3, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e1 = _point(p_point, b_h - 2, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e2 = _point(p_point, b_h - 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e3 = _point(p_point, b_h, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_e4 = _point(p_point, b_h + 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
        b_v, b_a, b_j = _differences(b_e0, b_e1, b_e2, b_e3, b_e4, reciprocal_double(b_dt, DOUBLE))
        # An action is put out as it came.
        b_is_action = b_h > 1
        b_row_of_action = tl.minimum(b_h - 2, Ha - 1)
        b_action = tl.load(p_point + b_row_of_action * D, mask=b_in & b_is_action, other=0).to(tl.float64)
        b_at = b_row * ((Ha + 4).to(tl.int64) * D) + b_place
        b_p = tl.where(b_is_action, b_action, b_p0 + b_e2)
        tl.store(p_position + b_at, narrow(b_p, p_position), mask=b_in)
        tl.store(p_velocity + b_at, narrow(b_v, p_velocity), mask=b_in)
        tl.store(p_acceleration + b_at, narrow(b_a, p_acceleration), mask=b_in)
        tl.store(p_jerk + b_at, narrow(b_j, p_jerk), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    size = (Ha + 4) * D
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_batch, size, n_magic, SHORT, LANES
    )
    b_in &= b_place >= 4 * D
    b_lane = tl.arange(0, LANES)
    # Trajectories of actions are 4 rows shorter. Rows beyond the last action repeat it.
    p_point = p_action + (i_first - i_row * (4 * D) - 4 * D)
    b_at = b_lane - b_row * (4 * D)
    b_in1 = b_in & (b_place < size - D)
    b_in2 = b_in & (b_place < size - 2 * D)
    b_in3 = b_in & (b_place < size - 3 * D)
    b_in4 = b_in & (b_place < size - 4 * D)
    b_e0 = tl.load(p_point + b_at, mask=b_in, other=0).to(DTYPE)
    b_e1 = tl.load(p_point + D + b_at, mask=b_in1, other=0).to(DTYPE)
    b_e2 = tl.load(p_point + 2 * D + b_at, mask=b_in2, other=0).to(DTYPE)
    b_e3 = tl.load(p_point + 3 * D + b_at, mask=b_in3, other=0).to(DTYPE)
    b_e4 = tl.load(p_point + 4 * D + b_at, mask=b_in4, other=0).to(DTYPE)
    if DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_dt + i_row + b_row, mask=b_in, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_dt), DTYPE)
    b_e1 = tl.where(b_in1, b_e1, b_e0)
    b_e2 = tl.where(b_in2, b_e2, b_e1)
    b_e3 = tl.where(b_in3, b_e3, b_e2)
    b_e4 = tl.where(b_in4, b_e4, b_e3)
    b_v, b_a, b_j = _differences(b_e0, b_e1, b_e2, b_e3, b_e4, b_r)
    tl.store(p_position + i_first + b_lane, b_e2, mask=b_in)
    tl.store(p_velocity + i_first + b_lane, b_v, mask=b_in)
    tl.store(p_acceleration + i_first + b_lane, b_a, mask=b_in)
    tl.store(p_jerk + i_first + b_lane, b_j, mask=b_in)


@triton.jit
def _point(p_point, b_k, Ha, D, b_p0, b_v0, b_a0, b_j0, b_mask):
    """e[k] - p0 for any k: an action (the last one beyond Ha), or a point of the arc for k <= 0."""
    b_action = tl.load(p_point + (tl.minimum(b_k, Ha) - 1) * D, mask=b_mask & (b_k > 0), other=0).to(tl.float64)
    b_steps = b_k.to(tl.float64)
    return tl.where(b_k > 0, b_action - b_p0, b_steps * (b_v0 + b_steps * (b_a0 + b_steps * b_j0)))


@triton.jit
def _differences(b_e0, b_e1, b_e2, b_e3, b_e4, b_r):
    """First, second and third central difference of five points at distance 1 / b_r."""
    b_d0, b_rest0 = difference(b_e1, b_e0)
    b_d1, b_rest1 = difference(b_e2, b_e1)
    b_d2, b_rest2 = difference(b_e3, b_e2)
    b_d3, b_rest3 = difference(b_e4, b_e3)
    b_inner = b_d1 + b_d2
    b_before = b_d1 - b_d0
    b_centre = b_d2 - b_d1
    b_after = b_d3 - b_d2
    b_v = (7.0 * b_inner - (b_d0 + b_d3)) * (b_r * (1.0 / 12.0))
    b_a = b_centre * (b_r * b_r) + (2.0 * b_centre - b_before - b_after) * (b_r * b_r * (1.0 / 12.0))
    b_rest = (b_rest3 - b_rest2) - (b_rest1 - b_rest0)
    b_j = ((b_after - b_before) + b_rest) * (0.5 * b_r * b_r * b_r)
    return b_v, b_a, b_j


@triton.jit(
    do_not_specialize=_SCALARS,
    do_not_specialize_on_alignment=[*_VJP_POINTERS, "p_grad_p0", "p_grad_v0", "p_grad_a0", "p_grad_j0"],
)
def clique_central_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    p_grad_action,
    p_grad_p0,
    p_grad_v0,
    p_grad_a0,
    p_grad_j0,
    n_batch,
    Ha,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    SHORT: tl.constexpr,
    TRUNCATE: tl.constexpr,
    DOUBLE: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Start gradients in the first `n_start_programs` programs, the gradient of the action in the others."""
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        b_lane = tl.arange(0, START_LANES)
        n_elements = n_batch.to(tl.int64) * D
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_column = split(i_first, b_lane, D)
        b_in = i_first + b_lane < n_elements
        b_row = i_row + b_row
        b_at = b_row * ((Ha + 4).to(tl.int64) * D) + b_column
        if DT_PER_TRAJECTORY:
            b_dt = tl.load(p_dt + b_row, mask=b_in, other=1).to(tl.float64)
        else:
            b_dt = tl.load(p_dt + tl.zeros_like(b_column), mask=b_in, other=1).to(tl.float64)
        b_r = reciprocal_double(b_dt, DOUBLE)
        # Gradients of the points e[0], e[-1], e[-2], e[-3].
        b_e0 = tl.zeros_like(b_dt)
        b_e1 = tl.zeros_like(b_dt)
        b_e2 = tl.zeros_like(b_dt)
        b_e3 = tl.zeros_like(b_dt)
        if p_grad_position is not None:
            b_e0 += load_gradient(p_grad_position, b_at + D, b_in, tl.float64)
            b_e1 += load_gradient(p_grad_position, b_at, b_in, tl.float64)
        if p_grad_velocity is not None:
            b_scale = b_r * (1.0 / 12.0)
            b_g0 = load_gradient(p_grad_velocity, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_velocity, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_velocity, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_velocity, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += b_g3 - 8.0 * (b_g2 - b_g0)
            b_e1 += b_g2 - 8.0 * b_g1
            b_e2 += b_g1 - 8.0 * b_g0
            b_e3 += b_g0
        if p_grad_acceleration is not None:
            b_scale = b_r * b_r * (1.0 / 12.0)
            b_g0 = load_gradient(p_grad_acceleration, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_acceleration, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_acceleration, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_acceleration, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += 16.0 * (b_g0 + b_g2) - 30.0 * b_g1 - b_g3
            b_e1 += 16.0 * b_g1 - 30.0 * b_g0 - b_g2
            b_e2 += 16.0 * b_g0 - b_g1
            b_e3 -= b_g0
        if p_grad_jerk is not None:
            b_scale = 0.5 * b_r * b_r * b_r
            b_g0 = load_gradient(p_grad_jerk, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_jerk, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_jerk, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_jerk, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += 2.0 * (b_g2 - b_g0) - b_g3
            b_e1 += 2.0 * b_g1 - b_g2
            b_e2 += 2.0 * b_g0 - b_g1
            b_e3 -= b_g0
        if p_grad_p0 is not None:
            b_p0 = b_e0 + b_e1 + b_e2 + b_e3
            tl.store(p_grad_p0 + i_first + b_lane, narrow(b_p0, p_grad_p0), mask=b_in)
        if p_grad_v0 is not None:
            b_v0 = -b_dt * (b_e1 + 2.0 * b_e2 + 3.0 * b_e3)
            tl.store(p_grad_v0 + i_first + b_lane, narrow(b_v0, p_grad_v0), mask=b_in)
        if p_grad_a0 is not None:
            b_a0 = 0.5 * b_dt * b_dt * (b_e1 + 4.0 * b_e2 + 9.0 * b_e3)
            tl.store(p_grad_a0 + i_first + b_lane, narrow(b_a0, p_grad_a0), mask=b_in)
        if p_grad_j0 is not None:
            b_j0 = -b_dt * b_dt * b_dt * (1.0 / 6.0) * (b_e1 + 8.0 * b_e2 + 27.0 * b_e3)
            tl.store(p_grad_j0 + i_first + b_lane, narrow(b_j0, p_grad_j0), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    size = Ha * D
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_batch, size, n_magic, SHORT, LANES
    )
    b_lane = tl.arange(0, LANES)
    b_last = b_place >= size - D
    # Row m of the gradients, whose trajectories are 4 rows longer; m + 4 is their last row at most.
    i_base = i_first + i_row * (4 * D)
    b_at = b_lane + b_row * (4 * D)
    if DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_dt + i_row + b_row, mask=b_in, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_dt), DTYPE)
    b_grad = tl.zeros([LANES], DTYPE)
    if p_grad_jerk is not None:
        p_row = p_grad_jerk + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_d0, b_e0 = difference(b_g0, b_g1)
        b_d1, b_e1 = difference(b_g1, b_g2)
        b_d2, b_e2 = difference(b_g2, b_g3)
        b_d3, b_e3 = difference(b_g3, b_g4)
        b_inner = ((b_d0 - b_d1) - (b_d2 - b_d3)) + ((b_e0 - b_e1) - (b_e2 - b_e3))
        b_held = b_d0 - b_d2
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (0.5 * b_r * b_r * b_r)
    if p_grad_acceleration is not None:
        p_row = p_grad_acceleration + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_centre = (b_g3 - b_g2) - (b_g2 - b_g1)
        b_outer = ((b_g2 - b_g1) - (b_g1 - b_g0)) + ((b_g4 - b_g3) - (b_g3 - b_g2))
        b_inner = 12.0 * b_centre + (2.0 * b_centre - b_outer)
        b_held = 15.0 * (b_g1 - b_g2) - (b_g0 - b_g3)
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (b_r * b_r * (1.0 / 12.0))
    if p_grad_velocity is not None:
        p_row = p_grad_velocity + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in & b_last, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_inner = 8.0 * (b_g1 - b_g3) - (b_g0 - b_g4)
        b_held = 7.0 * (b_g1 + b_g2) - (b_g0 + b_g3)
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (b_r * (1.0 / 12.0))
    if p_grad_position is not None:
        p_row = p_grad_position + i_base
        b_grad += load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_grad += load_gradient(p_row + 3 * D, b_at, b_in & b_last, DTYPE)
        b_grad += load_gradient(p_row + 4 * D, b_at, b_in & b_last, DTYPE)
    tl.store(p_grad_action + i_first + b_lane, b_grad, mask=b_in)


@triton.jit
def _choose(b_inner, b_held, b_last, TRUNCATE: tl.constexpr):
    """The stencil of an inner action, or of the last one; nothing for the last one where truncated."""
    if TRUNCATE:
        b_held = tl.zeros_like(b_held)
    return tl.where(b_last, b_held, b_inner)
