"""Velocities, each held over its step, to positions by a scan and to derivatives by backward differences; the vjp.

With v[h] = u[h-1] for h >= 1, v[0] = v0,

    p[h] = p[h-1] + v[h] dt[h]      a[h] = (v[h] - v[h-1]) / dt[h]      j[h] = (a[h] - a[h-1]) / dt[h]

and a[0] = a0, j[0] = 0. As in clique.py, differences of differences are scaled once where a trajectory has one step
length, and taken in float64 where it has many, and for j[1], where a0 dt is subtracted from u[0] - v0.

Vjp: with P[h] the suffix sum of gp, Wj[h] = gj[h] / dt[h] and Wa[h] = (ga[h] + Wj[h] - Wj[h+1]) / dt[h] for
h >= 1, Wa[0] = 0, and both 0 beyond the horizon,

    grad v[h] = gv[h] + P[h] dt[h] + Wa[h] - Wa[h+1]      (dt[0] = 0)
    grad u[h-1] = grad v[h]      grad p0 = P[0]      grad v0 = grad v[0]      grad a0 = ga[0] - Wj[1]
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from .addressing import (
    add_carry,
    advance_carry,
    load_gradient,
    load_start,
    load_steps,
    reciprocal,
    reciprocal_double,
    start_row,
)
from .launch import ScanTile, Upstream
from .scan import FORWARD_POINTERS, FORWARD_SCALARS, VJP_POINTERS, VJP_SCALARS, scan_forward, scan_vjp


def velocity_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    out: Sequence[Tensor] | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of velocity actions `[B, H, D]`, rad/s.

    Starts, `start_index`, `dt`, `out`, `tile`: as for `clique.clique_forward`.
    """
    return scan_forward(velocity_fwd_kernel, action, (p0, v0, a0), start_index, dt, out, tile, {})


def velocity_vjp(
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
    tile: ScanTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0, a0; arguments as for `clique.clique_vjp`."""
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    return scan_vjp(
        velocity_vjp_kernel, upstream, start_index, dt, start_rows, action_horizon, needs, out, start_out, tile, {}
    )


@triton.jit(do_not_specialize=FORWARD_SCALARS, do_not_specialize_on_alignment=FORWARD_POINTERS)
def velocity_fwd_kernel(
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
    H,
    D,
    n_column_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    SINGLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: a running sum over blocks of rows, and differences."""
    DOUBLE: tl.constexpr = p_action.dtype.element_ty == tl.float64
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p = load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED).to(DTYPE)
    b_p_low = tl.zeros_like(b_p)
    b_v0_wide = load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED)
    b_a0_wide = load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED)
    b_v0 = b_v0_wide.to(DTYPE)[None, :]
    b_a0 = b_a0_wide.to(DTYPE)[None, :]
    i_base = i_trajectory * H * D
    if not DT_PER_STEP:
        b_u0 = tl.load(p_action + i_base + b_column, mask=b_in_column, other=0).to(tl.float64)
        b_dt1 = load_steps(p_dt, n_dt, i_trajectory, b_column, b_in_column, DT_PER_TRAJECTORY, False)
        b_r1 = reciprocal(b_dt1, DTYPE)
        b_j1 = ((b_u0 - b_v0_wide) - b_a0_wide * b_dt1.to(tl.float64)).to(DTYPE) * (b_r1 * b_r1)
        tl.store(p_jerk + i_base + D + b_column, b_j1, mask=b_in_column & (H > 1))
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_in = (b_h < H)[:, None] & b_in_column[None, :]
        b_moved = (b_h > 0)[:, None]
        b_later = (b_h > 1)[:, None]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_x0 = tl.load(p_action + i_base + (b_at - D), mask=b_in & b_moved, other=0).to(DTYPE)
        b_x1 = tl.load(p_action + i_base + (b_at - 2 * D), mask=b_in & b_later, other=0).to(DTYPE)
        b_x2 = tl.load(p_action + i_base + (b_at - 3 * D), mask=b_in & (b_h > 2)[:, None], other=0).to(DTYPE)
        b_x1 = tl.where(b_later, b_x1, b_v0)
        b_x2 = tl.where((b_h > 2)[:, None], b_x2, b_v0)
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h < H, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_dt = tl.where((b_h > 0) & (b_h < H), b_step.to(DTYPE), 0.0)[:, None]
        b_dp = b_x0 * b_dt
        b_position = add_carry(b_p, b_p_low, tl.cumsum(b_dp, 0))
        b_d = b_x0 - b_x1
        b_d1 = b_x1 - b_x2
        if DT_PER_STEP:
            b_step1 = load_steps(
                p_dt, n_dt, i_trajectory, b_h - 1, (b_h > 0) & (b_h < H), DT_PER_TRAJECTORY, DT_PER_STEP
            )
            b_r = reciprocal_double(b_step, DOUBLE)[:, None]
            b_r1 = reciprocal_double(b_step1, DOUBLE)[:, None]
            b_quotient = b_d.to(tl.float64) * b_r
            b_quotient1 = tl.where(b_later, b_d1.to(tl.float64) * b_r1, b_a0_wide[None, :])
            b_acceleration = b_quotient.to(DTYPE)
            b_jerk = ((b_quotient - b_quotient1) * b_r).to(DTYPE)
            b_jerk_in = b_in
        else:
            b_r = reciprocal(b_step, DTYPE)[:, None]
            b_acceleration = b_d * b_r
            b_jerk = (b_d - b_d1) * (b_r * b_r)
            b_jerk_in = b_in & (b_h != 1)[:, None]
        tl.store(p_position + i_base + b_at, b_position, mask=b_in)
        tl.store(p_velocity + i_base + b_at, tl.where(b_moved, b_x0, b_v0), mask=b_in)
        tl.store(p_acceleration + i_base + b_at, tl.where(b_moved, b_acceleration, b_a0), mask=b_in)
        tl.store(p_jerk + i_base + b_at, tl.where(b_moved, b_jerk, 0.0), mask=b_jerk_in)
        if not SINGLE:
            b_p, b_p_low = advance_carry(b_p, b_p_low, tl.sum(b_dp, 0))


@triton.jit(do_not_specialize=VJP_SCALARS, do_not_specialize_on_alignment=VJP_POINTERS)
def velocity_vjp_kernel(
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
    H,
    D,
    n_column_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    DOUBLE: tl.constexpr,
    SINGLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: a suffix sum over blocks of rows, each block in reverse order."""
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    WIDE: tl.constexpr = tl.float64 if DOUBLE or DT_PER_STEP else tl.float32
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_base = i_trajectory * H * D
    i_start = i_trajectory * D
    if p_grad_action is not None:
        tl.store(p_grad_action + i_base + (H - 1) * D + b_column, tl.zeros([COLUMNS], DTYPE), mask=b_in_column)
    b_sum_p = tl.zeros([COLUMNS], DTYPE)
    b_sum_p_low = tl.zeros([COLUMNS], DTYPE)
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = H - 1 - i_first - tl.arange(0, ROWS)
        b_in = (b_h >= 0)[:, None] & b_in_column[None, :]
        b_in1 = b_in & (b_h < H - 1)[:, None]
        b_in2 = b_in & (b_h < H - 2)[:, None]
        b_moved = b_in & (b_h > 0)[:, None]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP)
        if DT_PER_STEP:
            b_next = (b_h >= 0) & (b_h < H - 1)
            b_after = (b_h >= 0) & (b_h < H - 2)
            b_step1 = load_steps(p_dt, n_dt, i_trajectory, b_h + 1, b_next, DT_PER_TRAJECTORY, DT_PER_STEP)
            b_step2 = load_steps(p_dt, n_dt, i_trajectory, b_h + 2, b_after, DT_PER_TRAJECTORY, DT_PER_STEP)
            b_r = reciprocal_double(b_step, DOUBLE)[:, None]
            b_r1 = reciprocal_double(b_step1, DOUBLE)[:, None]
            b_r2 = reciprocal_double(b_step2, DOUBLE)[:, None]
        else:
            b_r = reciprocal(b_step, DTYPE)[:, None]
            b_r1 = b_r
            b_r2 = b_r
        b_wide = tl.zeros([ROWS, COLUMNS], WIDE)
        b_grad_a0 = tl.zeros([ROWS, COLUMNS], WIDE)
        if p_grad_jerk is not None:
            b_gj = load_gradient(p_grad_jerk + i_base, b_at, b_moved, WIDE)
            b_gj1 = load_gradient(p_grad_jerk + i_base, b_at + D, b_in1, WIDE)
            b_gj2 = load_gradient(p_grad_jerk + i_base, b_at + 2 * D, b_in2, WIDE)
            if DT_PER_STEP:
                b_d = (b_gj * b_r - b_gj1 * b_r1) * b_r
                b_wide += tl.where(b_moved, b_d, 0.0) - (b_gj1 * b_r1 - b_gj2 * b_r2) * b_r1
            else:
                b_wide += (tl.where(b_moved, b_gj - b_gj1, 0.0) - (b_gj1 - b_gj2)) * (b_r * b_r)
            b_grad_a0 -= b_gj1 * b_r1
        if p_grad_acceleration is not None:
            b_ga = load_gradient(p_grad_acceleration + i_base, b_at, b_in, WIDE)
            b_ga1 = load_gradient(p_grad_acceleration + i_base, b_at + D, b_in1, WIDE)
            if DT_PER_STEP:
                b_wide += tl.where(b_moved, b_ga * b_r, 0.0) - b_ga1 * b_r1
            else:
                b_wide += (tl.where(b_moved, b_ga, 0.0) - b_ga1) * b_r
            b_grad_a0 += b_ga
        b_grad = b_wide.to(DTYPE)
        if p_grad_velocity is not None:
            b_grad += load_gradient(p_grad_velocity + i_base, b_at, b_in, DTYPE)
        b_p = tl.zeros([ROWS, COLUMNS], DTYPE)
        if p_grad_position is not None:
            b_gp = load_gradient(p_grad_position + i_base, b_at, b_in, DTYPE)
            b_p = add_carry(b_sum_p, b_sum_p_low, tl.cumsum(b_gp, 0))
            if not SINGLE:
                b_sum_p, b_sum_p_low = advance_carry(b_sum_p, b_sum_p_low, tl.sum(b_gp, 0))
            b_grad += b_p * tl.where(b_h > 0, b_step.to(DTYPE), 0.0)[:, None]
        if p_grad_action is not None:
            tl.store(p_grad_action + i_base + (b_at - D), b_grad, mask=b_moved)
        b_first = b_in & (b_h == 0)[:, None]
        b_at_start = tl.zeros_like(b_at) + b_column[None, :]
        if p_grad_p0 is not None:
            tl.store(p_grad_p0 + i_start + b_at_start, b_p, mask=b_first)
        if p_grad_v0 is not None:
            tl.store(p_grad_v0 + i_start + b_at_start, b_grad, mask=b_first)
        if p_grad_a0 is not None:
            tl.store(p_grad_a0 + i_start + b_at_start, b_grad_a0.to(DTYPE), mask=b_first)
