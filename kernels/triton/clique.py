r"""Positions to derivatives by backward differences, and the transpose.

With p[0] = p0, p[h] = u[h-1] and, before the start, the arc of constant acceleration,

    v[h] = (p[h] - p[h-1]) / dt[h]      V[0] = v0 - dt[0] a0 / 2 (a difference too), reported as v0
    a[h] = (v[h] - v[h-1]) / dt[h]      a[0] = a0
    j[h] = (a[h] - a[h-1]) / dt[h]      j[0] = 0

Rows h >= 4 depend on actions alone. With one step length for a trajectory they are differences of differences of
positions, scaled once: differences of neighbouring floats are exact, so float32 loses nothing. With a step length of
their own the quotients have to keep the digits that the next difference needs: float64. So have rows 0 to 3, where
v0 dt is subtracted from p[1] - p0; programs of their own do them.

Vjp: with Wj[h] = gj[h] / dt[h], Wa[h] = (ga[h] + Wj[h] - Wj[h+1]) / dt[h] and Wv[h] alike from gv and Wa, all 0 beyond
the horizon,

    grad u[h-1] = gp[h] + Wv[h] - Wv[h+1]  for h >= 1      grad p0 = gp[0] - Wv[1]
    grad v0 = gv[0] - Wa[1]                                grad a0 = ga[0] - Wj[1] + dt[0] Wa[1] / 2
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .addressing import (
    difference,
    flat_places,
    load_gradient,
    load_start,
    narrow,
    reciprocal,
    reciprocal_double,
    split,
    third_difference,
)
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
# Forward programs have half the lanes: with four outputs more would need more registers than may be there.
_FORWARD_LANES, _VJP_LANES = 512, 1024
_REGISTERS, _WIDE_REGISTERS = 64, 128
_SCALARS = ("n_dt", "n_rows", "H", "D", "n_magic", "n_start_programs")
_POINTERS = ("p_action", "p_idx", "p_dt", "p_position", "p_velocity", "p_acceleration", "p_jerk")
_START_POINTERS = ("p_p0", "p_v0", "p_a0")
_VJP_POINTERS = ("p_grad_action", "p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt")


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
        p0: start position, `[1 or B, D]` or a pool `[S, D]`, rad; v0, a0: alike, rad/s and rad/s^2, None is 0.
        v0: see p0.
        a0: see p0.
        start_index: `[B]` int32 or int64, row of the pool for each trajectory, or None.
        dt: float32 or float64 `[1 or B, 1 or H]`, s.
        out: four contiguous buffers to write to.
        tile: size of a program; None for the usual.

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
        tile: size of a program; None for the usual.

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
        "n_start_programs": start_programs,
        "DOUBLE": like.dtype == torch.float64,
        "START_LANES": START_LANES,
        "LANES": tile.lanes,
    }
    interior = programs_for(like.numel(), tile.lanes) if needs[0] else 0
    run(clique_vjp_kernel, start_programs + interior, arguments, tile.warps, _WIDE_REGISTERS if wide else _REGISTERS)
    return (grad_action, *starts.gradients())


@triton.jit(
    do_not_specialize=["n_p0", "n_v0", "n_a0", *_SCALARS], do_not_specialize_on_alignment=[*_POINTERS, *_START_POINTERS]
)
def clique_fwd_kernel(
    p_action,
    p_idx,
    p_p0,
    n_p0,
    p_v0,
    n_v0,
    p_a0,
    n_a0,
    p_dt,
    n_dt,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_rows,
    H,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    SHORT: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Rows 0 to 3 in the first `n_start_programs` programs, the others in the rest."""
    DOUBLE: tl.constexpr = p_action.dtype.element_ty == tl.float64
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        INDEXED: tl.constexpr = p_idx is not None
        b_lane = tl.arange(0, START_LANES)
        size = H * D
        size_out = tl.minimum(H, 4) * D
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_place = split(i_first, b_lane, size_out)
        b_in = i_first + b_lane < n_rows.to(tl.int64) * size_out
        b_row = i_row + b_row
        b_h = b_place // D
        b_column = b_place - b_h * D
        b_at = b_row * size + b_place
        b_start_row = b_row
        if p_idx is not None:
            b_start_row = tl.load(p_idx + b_row, mask=b_in, other=0).to(tl.int64)
        b_p0 = load_start(p_p0, n_p0, b_start_row, b_column, D, b_in, INDEXED)
        b_v0 = load_start(p_v0, n_v0, b_start_row, b_column, D, b_in, INDEXED)
        b_a0 = load_start(p_a0, n_a0, b_start_row, b_column, D, b_in, INDEXED)
        # Positions p[h], p[h-1], p[h-2], which are p0 where the index is 0, and not used where below.
        b_x0 = tl.where(b_h > 0, tl.load(p_action + b_at - D, mask=b_in & (b_h > 0), other=0).to(tl.float64), b_p0)
        b_x1 = tl.where(b_h > 1, tl.load(p_action + b_at - 2 * D, mask=b_in & (b_h > 1), other=0).to(tl.float64), b_p0)
        b_x2 = tl.where(b_h > 2, tl.load(p_action + b_at - 3 * D, mask=b_in & (b_h > 2), other=0).to(tl.float64), b_p0)
        p_row_dt = p_dt
        if DT_PER_TRAJECTORY:
            p_row_dt = p_dt + b_row * n_dt
        b_dt_start = tl.load(p_row_dt + tl.zeros_like(b_h), mask=b_in, other=1).to(tl.float64)
        if DT_PER_STEP:
            b_r0 = reciprocal_double(tl.load(p_row_dt + b_h, mask=b_in, other=1), DOUBLE)
            b_r1 = reciprocal_double(tl.load(p_row_dt + b_h - 1, mask=b_in & (b_h > 0), other=1), DOUBLE)
            b_r2 = reciprocal_double(tl.load(p_row_dt + b_h - 2, mask=b_in & (b_h > 1), other=1), DOUBLE)
        else:
            b_r0 = reciprocal_double(b_dt_start, DOUBLE)
            b_r1 = b_r0
            b_r2 = b_r0
        b_before = b_v0 - 0.5 * b_dt_start * b_a0
        b_v = tl.where(b_h > 0, (b_x0 - b_x1) * b_r0, b_before)
        b_v1 = tl.where(b_h > 1, (b_x1 - b_x2) * b_r1, b_before)
        b_v2 = tl.where(b_h > 2, (b_x2 - b_p0) * b_r2, b_before)
        b_a = tl.where(b_h > 0, (b_v - b_v1) * b_r0, b_a0)
        b_a1 = tl.where(b_h > 1, (b_v1 - b_v2) * b_r1, b_a0)
        b_j = tl.where(b_h > 0, (b_a - b_a1) * b_r0, 0.0)
        tl.store(p_position + b_at, narrow(b_x0, p_position), mask=b_in)
        tl.store(p_velocity + b_at, narrow(tl.where(b_h > 0, b_v, b_v0), p_velocity), mask=b_in)
        tl.store(p_acceleration + b_at, narrow(b_a, p_acceleration), mask=b_in)
        tl.store(p_jerk + b_at, narrow(b_j, p_jerk), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_rows, H * D, n_magic, SHORT, LANES
    )
    b_in &= b_place >= 4 * D
    b_lane = tl.arange(0, LANES)
    p_last = p_action + i_first - D
    b_x0 = tl.load(p_last + b_lane, mask=b_in, other=0).to(DTYPE)
    b_x1 = tl.load(p_last - D + b_lane, mask=b_in, other=0).to(DTYPE)
    b_x2 = tl.load(p_last - 2 * D + b_lane, mask=b_in, other=0).to(DTYPE)
    b_x3 = tl.load(p_last - 3 * D + b_lane, mask=b_in, other=0).to(DTYPE)
    p_row_dt = p_dt
    if DT_PER_TRAJECTORY:
        p_row_dt = p_dt + i_row * n_dt + b_row.to(tl.int64) * n_dt
    if DT_PER_STEP:
        b_h = b_place // D
        b_r0 = reciprocal_double(tl.load(p_row_dt + b_h, mask=b_in, other=1), DOUBLE)
        b_r1 = reciprocal_double(tl.load(p_row_dt + b_h - 1, mask=b_in, other=1), DOUBLE)
        b_r2 = reciprocal_double(tl.load(p_row_dt + b_h - 2, mask=b_in, other=1), DOUBLE)
        b_v = (b_x0.to(tl.float64) - b_x1) * b_r0
        b_v1 = (b_x1.to(tl.float64) - b_x2) * b_r1
        b_v2 = (b_x2.to(tl.float64) - b_x3) * b_r2
        b_a = (b_v - b_v1) * b_r0
        b_a1 = (b_v1 - b_v2) * b_r1
        b_j = (b_a - b_a1) * b_r0
    else:
        if DT_PER_TRAJECTORY:
            b_r = reciprocal(tl.load(p_row_dt, mask=b_in, other=1), DTYPE)
        else:
            b_r = reciprocal(tl.load(p_row_dt), DTYPE)
        b_d, b_e = difference(b_x0, b_x1)
        b_d1, b_e1 = difference(b_x1, b_x2)
        b_d2, b_e2 = difference(b_x2, b_x3)
        b_v = b_d * b_r
        b_a = (b_d - b_d1) * (b_r * b_r)
        b_j = third_difference(b_d, b_e, b_d1, b_e1, b_d2, b_e2) * (b_r * b_r * b_r)
    tl.store(p_position + i_first + b_lane, b_x0, mask=b_in)
    tl.store(p_velocity + i_first + b_lane, b_v.to(DTYPE), mask=b_in)
    tl.store(p_acceleration + i_first + b_lane, b_a.to(DTYPE), mask=b_in)
    tl.store(p_jerk + i_first + b_lane, b_j.to(DTYPE), mask=b_in)


@triton.jit(
    do_not_specialize=_SCALARS,
    do_not_specialize_on_alignment=[*_VJP_POINTERS, "p_grad_p0", "p_grad_v0", "p_grad_a0"],
)
def clique_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    n_dt,
    p_grad_action,
    p_grad_p0,
    p_grad_v0,
    p_grad_a0,
    n_rows,
    H,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    SHORT: tl.constexpr,
    DOUBLE: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Start gradients in the first `n_start_programs` programs, the gradient of the action in the others."""
    i_program = tl.program_id(0)
    size = H * D
    if i_program < n_start_programs:
        b_lane = tl.arange(0, START_LANES)
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_column = split(i_first, b_lane, D)
        b_in = i_first + b_lane < n_rows.to(tl.int64) * D
        b_row = i_row + b_row
        b_at = b_row * size + b_column
        p_row_dt = p_dt + tl.zeros_like(b_column)
        if DT_PER_TRAJECTORY:
            p_row_dt += b_row * n_dt
        b_in1 = b_in & (H > 1)
        b_in2 = b_in & (H > 2)
        b_in3 = b_in & (H > 3)
        b_dt_start = tl.load(p_row_dt, mask=b_in, other=1).to(tl.float64)
        if DT_PER_STEP:
            b_r1 = reciprocal_double(tl.load(p_row_dt + 1, mask=b_in1, other=1), DOUBLE)
            b_r2 = reciprocal_double(tl.load(p_row_dt + 2, mask=b_in2, other=1), DOUBLE)
            b_r3 = reciprocal_double(tl.load(p_row_dt + 3, mask=b_in3, other=1), DOUBLE)
        else:
            b_r1 = reciprocal_double(b_dt_start, DOUBLE)
            b_r2 = b_r1
            b_r3 = b_r1
        b_wa1 = tl.zeros_like(b_dt_start)
        b_wa2 = tl.zeros_like(b_dt_start)
        b_ga0 = tl.zeros_like(b_dt_start)
        if p_grad_jerk is not None:
            b_wj1 = load_gradient(p_grad_jerk, b_at + D, b_in1, tl.float64) * b_r1
            b_wj2 = load_gradient(p_grad_jerk, b_at + 2 * D, b_in2, tl.float64) * b_r2
            b_wj3 = load_gradient(p_grad_jerk, b_at + 3 * D, b_in3, tl.float64) * b_r3
            b_wa1 += (b_wj1 - b_wj2) * b_r1
            b_wa2 += (b_wj2 - b_wj3) * b_r2
            b_ga0 -= b_wj1
        if p_grad_acceleration is not None:
            b_wa1 += load_gradient(p_grad_acceleration, b_at + D, b_in1, tl.float64) * b_r1
            b_wa2 += load_gradient(p_grad_acceleration, b_at + 2 * D, b_in2, tl.float64) * b_r2
            b_ga0 += load_gradient(p_grad_acceleration, b_at, b_in, tl.float64)
        b_gv0 = -b_wa1
        b_wv1 = (b_wa1 - b_wa2) * b_r1
        if p_grad_velocity is not None:
            b_wv1 += load_gradient(p_grad_velocity, b_at + D, b_in1, tl.float64) * b_r1
            b_gv0 += load_gradient(p_grad_velocity, b_at, b_in, tl.float64)
        b_gp0 = -b_wv1
        if p_grad_position is not None:
            b_gp0 += load_gradient(p_grad_position, b_at, b_in, tl.float64)
        b_ga0 += 0.5 * b_dt_start * b_wa1
        if p_grad_p0 is not None:
            tl.store(p_grad_p0 + i_first + b_lane, narrow(b_gp0, p_grad_p0), mask=b_in)
        if p_grad_v0 is not None:
            tl.store(p_grad_v0 + i_first + b_lane, narrow(b_gv0, p_grad_v0), mask=b_in)
        if p_grad_a0 is not None:
            tl.store(p_grad_a0 + i_first + b_lane, narrow(b_ga0, p_grad_a0), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE or DT_PER_STEP else tl.float32
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_rows, size, n_magic, SHORT, LANES
    )
    b_lane = tl.arange(0, LANES)
    # Output rows h, h+1, h+2, h+3 of the action h-1 that lies here.
    b_in0 = b_in & (b_place < size - D)
    b_in1 = b_in & (b_place < size - 2 * D)
    b_in2 = b_in & (b_place < size - 3 * D)
    b_in3 = b_in & (b_place < size - 4 * D)
    p_row_dt = p_dt
    if DT_PER_TRAJECTORY:
        p_row_dt = p_dt + i_row * n_dt + b_row.to(tl.int64) * n_dt
    if DT_PER_STEP:
        b_h = b_place // D + 1
        b_r = reciprocal_double(tl.load(p_row_dt + b_h, mask=b_in0, other=1), DOUBLE)
        b_r1 = reciprocal_double(tl.load(p_row_dt + b_h + 1, mask=b_in1, other=1), DOUBLE)
        b_r2 = reciprocal_double(tl.load(p_row_dt + b_h + 2, mask=b_in2, other=1), DOUBLE)
        b_r3 = reciprocal_double(tl.load(p_row_dt + b_h + 3, mask=b_in3, other=1), DOUBLE)
    elif DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_row_dt, mask=b_in0, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_row_dt), DTYPE)
    b_grad = tl.zeros([LANES], DTYPE)
    if p_grad_jerk is not None:
        p_next = p_grad_jerk + i_first + D
        b_g = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_g1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
        b_g2 = load_gradient(p_next + 2 * D, b_lane, b_in2, DTYPE)
        b_g3 = load_gradient(p_next + 3 * D, b_lane, b_in3, DTYPE)
        if DT_PER_STEP:
            b_w1 = (b_g1 * b_r1 - b_g2 * b_r2) * b_r1
            b_w = (b_g * b_r - b_g1 * b_r1) * b_r
            b_w2 = (b_g2 * b_r2 - b_g3 * b_r3) * b_r2
            b_grad += (b_w - b_w1) * b_r - (b_w1 - b_w2) * b_r1
        else:
            b_d, b_e = difference(b_g, b_g1)
            b_d1, b_e1 = difference(b_g1, b_g2)
            b_d2, b_e2 = difference(b_g2, b_g3)
            b_grad += third_difference(b_d, b_e, b_d1, b_e1, b_d2, b_e2) * (b_r * b_r * b_r)
    if p_grad_acceleration is not None:
        p_next = p_grad_acceleration + i_first + D
        b_g = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_g1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
        b_g2 = load_gradient(p_next + 2 * D, b_lane, b_in2, DTYPE)
        if DT_PER_STEP:
            b_w1 = b_g1 * b_r1
            b_grad += (b_g * b_r - b_w1) * b_r - (b_w1 - b_g2 * b_r2) * b_r1
        else:
            b_grad += ((b_g - b_g1) - (b_g1 - b_g2)) * (b_r * b_r)
    if p_grad_velocity is not None:
        p_next = p_grad_velocity + i_first + D
        b_g = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_g1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
        if DT_PER_STEP:
            b_grad += b_g * b_r - b_g1 * b_r1
        else:
            b_grad += (b_g - b_g1) * b_r
    if p_grad_position is not None:
        b_grad += load_gradient(p_grad_position + i_first + D, b_lane, b_in0, DTYPE)
    tl.store(p_grad_action + i_first + b_lane, narrow(b_grad, p_grad_action), mask=b_in)
