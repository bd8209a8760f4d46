"""Accelerations, each held over its step, to trajectories; the vjp is the adjoint scan from the last step back.

With a[h] = u[h-1] for h >= 1, a[0] = a0, j[h] = (a[h] - a[h-1]) / dt[h] and j[0] = 0,

    v[h] = v[h-1] + a[h] dt[h]
    p[h] = p[h-1] + (v[h] - c a[h] dt[h]) dt[h]      c = 1/2: zero-order hold, 0: semi-implicit Euler

Vjp: with the suffix sums P[h] = sum gp[k] and S[h] = sum (gv[k] + P[k] dt[k]) over k >= h, and dt[0] = 0,

    grad a[h] = ga[h] + gj[h] / dt[h] - gj[h+1] / dt[h+1] + (S[h] - c P[h] dt[h]) dt[h]
    grad u[h-1] = grad a[h]      grad p0 = P[0]      grad v0 = S[0]      grad a0 = grad a[0], without the gj[0] term
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from ..types import AccelerationIntegrator
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
from .pairs import add, last_row, multiply, rounded, running_sum
from .scan import FORWARD_POINTERS, FORWARD_SCALARS, VJP_POINTERS, VJP_SCALARS, scan_forward, scan_vjp


def acceleration_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
    out: Sequence[Tensor] | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of acceleration actions `[B, H, D]`, rad/s^2.

    Starts, `start_index`, `dt`, `out`, `tile`: as for `clique.clique_forward`.
    """
    scheme = {"SEMI_IMPLICIT": AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER}
    return scan_forward(acceleration_fwd_kernel, action, (p0, v0, a0), start_index, dt, out, tile, scheme, wide=True)


def acceleration_vjp(
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
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
    out: Tensor | None = None,
    start_out: Sequence[Tensor | None] | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0, a0; arguments as for `clique.clique_vjp`."""
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    scheme = {"SEMI_IMPLICIT": AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER}
    return scan_vjp(
        acceleration_vjp_kernel,
        upstream,
        start_index,
        dt,
        start_rows,
        action_horizon,
        needs,
        out,
        start_out,
        tile,
        scheme,
    )


@triton.jit(do_not_specialize=FORWARD_SCALARS, do_not_specialize_on_alignment=FORWARD_POINTERS)
def acceleration_fwd_kernel(
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
    SEMI_IMPLICIT: tl.constexpr,
    SINGLE: tl.constexpr,
    PAIRS: tl.constexpr,
    HALF: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: running sums over blocks of rows."""
    DTYPE: tl.constexpr = tl.float64 if p_action.dtype.element_ty == tl.float64 else tl.float32
    SUM: tl.constexpr = tl.float32 if PAIRS or HALF else tl.float64
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p = load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    b_p_low = tl.zeros_like(b_p)
    b_v = load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    b_v_low = tl.zeros_like(b_v)
    b_a0 = load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED).to(DTYPE)
    i_base = i_trajectory * H * D
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_in = (b_h < H)[:, None] & b_in_column[None, :]
        b_moved = (b_h > 0)[:, None]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_u = tl.load(p_action + i_base + (b_at - D), mask=b_in & b_moved, other=0).to(DTYPE)
        b_u1 = tl.load(p_action + i_base + (b_at - 2 * D), mask=b_in & (b_h > 1)[:, None], other=0).to(DTYPE)
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h < H, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_r = reciprocal(b_step, DTYPE)[:, None]
        b_moves = (b_h > 0) & (b_h < H)
        b_short_step = b_step.to(SUM)
        b_dt = tl.where(b_moves, b_short_step, 0.0)[:, None]
        b_dt_low = b_dt
        if PAIRS:
            b_rest = (b_step.to(tl.float64) - b_short_step.to(tl.float64)).to(SUM)
            b_dt_low = tl.where(b_moves, b_rest, 0.0)[:, None]
        b_none = tl.zeros([ROWS, COLUMNS], SUM)
        b_dv, b_dv_low = multiply(b_u.to(SUM), b_none, b_dt, b_dt_low, PAIRS)
        b_gain, b_gain_low = running_sum(b_dv, b_dv_low, PAIRS)
        b_velocity, b_velocity_low = add(b_v[None, :], b_v_low[None, :], b_gain, b_gain_low, PAIRS)
        b_mean, b_mean_low = b_velocity, b_velocity_low
        if not SEMI_IMPLICIT:
            b_mean, b_mean_low = add(b_velocity, b_velocity_low, -0.5 * b_dv, -0.5 * b_dv_low, PAIRS)
        b_dp, b_dp_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
        b_way, b_way_low = running_sum(b_dp, b_dp_low, PAIRS)
        b_position, b_position_low = add(b_p[None, :], b_p_low[None, :], b_way, b_way_low, PAIRS)
        b_a1 = tl.where((b_h > 1)[:, None], b_u1, b_a0[None, :])
        tl.store(p_position + i_base + b_at, rounded(b_position, b_position_low, PAIRS).to(DTYPE), mask=b_in)
        tl.store(p_velocity + i_base + b_at, rounded(b_velocity, b_velocity_low, PAIRS).to(DTYPE), mask=b_in)
        tl.store(p_acceleration + i_base + b_at, tl.where(b_moved, b_u, b_a0[None, :]), mask=b_in)
        tl.store(p_jerk + i_base + b_at, tl.where(b_moved, (b_u - b_a1) * b_r, 0.0), mask=b_in)
        if not SINGLE:
            b_v, b_v_low = last_row(b_velocity, b_velocity_low, ROWS, PAIRS)
            b_p, b_p_low = last_row(b_position, b_position_low, ROWS, PAIRS)


@triton.jit(do_not_specialize=VJP_SCALARS, do_not_specialize_on_alignment=VJP_POINTERS)
def acceleration_vjp_kernel(
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
    SEMI_IMPLICIT: tl.constexpr,
    DOUBLE: tl.constexpr,
    SINGLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: suffix sums over blocks of rows, each block in reverse order."""
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    # Where the steps differ, the quotients of jerk gradients cancel, and float32 would not leave enough digits.
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
    b_sum_s = tl.zeros([COLUMNS], DTYPE)
    b_sum_s_low = tl.zeros([COLUMNS], DTYPE)
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = H - 1 - i_first - tl.arange(0, ROWS)
        b_in = (b_h >= 0)[:, None] & b_in_column[None, :]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_dt = tl.where(b_h > 0, b_step.to(DTYPE), 0.0)[:, None]
        b_grad = tl.zeros([ROWS, COLUMNS], DTYPE)
        if p_grad_jerk is not None:
            b_gj = load_gradient(p_grad_jerk + i_base, b_at, b_in & (b_h > 0)[:, None], WIDE)
            b_gj1 = load_gradient(p_grad_jerk + i_base, b_at + D, b_in & (b_h < H - 1)[:, None], WIDE)
            if DT_PER_STEP:
                b_step1 = load_steps(
                    p_dt, n_dt, i_trajectory, b_h + 1, (b_h >= 0) & (b_h < H - 1), DT_PER_TRAJECTORY, DT_PER_STEP
                )
                b_r = reciprocal_double(b_step, DOUBLE)[:, None]
                b_r1 = reciprocal_double(b_step1, DOUBLE)[:, None]
                b_grad += (b_gj * b_r - b_gj1 * b_r1).to(DTYPE)
            else:
                b_grad += (b_gj - b_gj1) * reciprocal(b_step, DTYPE)[:, None]
        if p_grad_acceleration is not None:
            b_grad += load_gradient(p_grad_acceleration + i_base, b_at, b_in, DTYPE)
        b_p = tl.zeros([ROWS, COLUMNS], DTYPE)
        b_s = tl.zeros([ROWS, COLUMNS], DTYPE)
        if p_grad_position is not None or p_grad_velocity is not None:
            b_gs = tl.zeros([ROWS, COLUMNS], DTYPE)
            if p_grad_velocity is not None:
                b_gs += load_gradient(p_grad_velocity + i_base, b_at, b_in, DTYPE)
            if p_grad_position is not None:
                b_gp = load_gradient(p_grad_position + i_base, b_at, b_in, DTYPE)
                b_p = add_carry(b_sum_p, b_sum_p_low, tl.cumsum(b_gp, 0))
                if not SINGLE:
                    b_sum_p, b_sum_p_low = advance_carry(b_sum_p, b_sum_p_low, tl.sum(b_gp, 0))
                b_gs += b_p * b_dt
            b_s = add_carry(b_sum_s, b_sum_s_low, tl.cumsum(b_gs, 0))
            if not SINGLE:
                b_sum_s, b_sum_s_low = advance_carry(b_sum_s, b_sum_s_low, tl.sum(b_gs, 0))
            if SEMI_IMPLICIT:
                b_grad += b_s * b_dt
            else:
                b_grad += (b_s - 0.5 * (b_p * b_dt)) * b_dt
        if p_grad_action is not None:
            tl.store(p_grad_action + i_base + (b_at - D), b_grad, mask=b_in & (b_h > 0)[:, None])
        b_first = b_in & (b_h == 0)[:, None]
        b_at_start = tl.zeros_like(b_at) + b_column[None, :]
        if p_grad_p0 is not None:
            tl.store(p_grad_p0 + i_start + b_at_start, b_p, mask=b_first)
        if p_grad_v0 is not None:
            tl.store(p_grad_v0 + i_start + b_at_start, b_s, mask=b_first)
        if p_grad_a0 is not None:
            tl.store(p_grad_a0 + i_start + b_at_start, b_grad, mask=b_first)
