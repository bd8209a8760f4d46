"""Jerks, each held over its step, to trajectories; the vjp is the adjoint scan from the last step back.

With j[h] = u[h-1] for h >= 1, j[0] = 0, the exact cubic step is

    a[h] = a[h-1] + j[h] dt[h]
    v[h] = v[h-1] + a[h-1] dt[h] + j[h] dt[h]^2 / 2
    p[h] = p[h-1] + v[h-1] dt[h] + a[h-1] dt[h]^2 / 2 + j[h] dt[h]^3 / 6

Vjp, with dt[0] = 0 and suffix sums over k >= h:

    P[h] = sum gp[k]
    V[h] = sum (gv[k] + P[k] dt[k]) - P[h] dt[h]
    A[h] = sum (ga[k] + X[k]) - X[h]      X[k] = V[k] dt[k] + P[k] dt[k]^2 / 2
    grad u[h-1] = gj[h] + A[h] dt[h] + V[h] dt[h]^2 / 2 + P[h] dt[h]^3 / 6      grad p0, v0, a0 = P[0], V[0], A[0]
"""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from .addressing import add_carry, advance_carry, load_gradient, load_start, load_steps, start_row
from .launch import ScanTile, Upstream
from .pairs import add, last_row, multiply, rounded, running_sum
from .scan import FORWARD_POINTERS, FORWARD_SCALARS, VJP_POINTERS, VJP_SCALARS, scan_forward, scan_vjp


def jerk_forward(
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
    """Return position, velocity, acceleration and jerk `[B, H, D]` of jerk actions `[B, H, D]`, rad/s^3.

    Starts, `start_index`, `dt`, `out`, `tile`: as for `clique.clique_forward`.
    """
    return scan_forward(jerk_fwd_kernel, action, (p0, v0, a0), start_index, dt, out, tile, {}, wide=True)


def jerk_vjp(
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
        jerk_vjp_kernel, upstream, start_index, dt, start_rows, action_horizon, needs, out, start_out, tile, {}
    )


@triton.jit(do_not_specialize=FORWARD_SCALARS, do_not_specialize_on_alignment=FORWARD_POINTERS)
def jerk_fwd_kernel(
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
    b_a = load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    b_a_low = tl.zeros_like(b_a)
    i_base = i_trajectory * H * D
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_in = (b_h < H)[:, None] & b_in_column[None, :]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_u = tl.load(p_action + i_base + (b_at - D), mask=b_in & (b_h > 0)[:, None], other=0).to(DTYPE)
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h < H, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_moves = (b_h > 0) & (b_h < H)
        b_short_step = b_step.to(SUM)
        b_dt = tl.where(b_moves, b_short_step, 0.0)[:, None]
        b_dt_low = b_dt
        if PAIRS:
            b_rest = (b_step.to(tl.float64) - b_short_step.to(tl.float64)).to(SUM)
            b_dt_low = tl.where(b_moves, b_rest, 0.0)[:, None]
        b_none = tl.zeros([ROWS, COLUMNS], SUM)
        b_da, b_da_low = multiply(b_u.to(SUM), b_none, b_dt, b_dt_low, PAIRS)
        b_sum, b_sum_low = running_sum(b_da, b_da_low, PAIRS)
        b_acceleration, b_acceleration_low = add(b_a[None, :], b_a_low[None, :], b_sum, b_sum_low, PAIRS)
        b_mean, b_mean_low = add(b_acceleration, b_acceleration_low, -0.5 * b_da, -0.5 * b_da_low, PAIRS)
        b_dv, b_dv_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
        b_sum, b_sum_low = running_sum(b_dv, b_dv_low, PAIRS)
        b_velocity, b_velocity_low = add(b_v[None, :], b_v_low[None, :], b_sum, b_sum_low, PAIRS)
        # From the state at the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
        THIRD: tl.constexpr = 1.0 / 3.0
        b_mean, b_mean_low = add(
            0.5 * b_acceleration, 0.5 * b_acceleration_low, -THIRD * b_da, -THIRD * b_da_low, PAIRS
        )
        b_gain, b_gain_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
        b_mean, b_mean_low = add(b_velocity, b_velocity_low, -b_dv, -b_dv_low, PAIRS)
        b_mean, b_mean_low = add(b_mean, b_mean_low, b_gain, b_gain_low, PAIRS)
        b_dp, b_dp_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
        b_sum, b_sum_low = running_sum(b_dp, b_dp_low, PAIRS)
        b_position, b_position_low = add(b_p[None, :], b_p_low[None, :], b_sum, b_sum_low, PAIRS)
        tl.store(p_position + i_base + b_at, rounded(b_position, b_position_low, PAIRS).to(DTYPE), mask=b_in)
        tl.store(p_velocity + i_base + b_at, rounded(b_velocity, b_velocity_low, PAIRS).to(DTYPE), mask=b_in)
        tl.store(
            p_acceleration + i_base + b_at, rounded(b_acceleration, b_acceleration_low, PAIRS).to(DTYPE), mask=b_in
        )
        tl.store(p_jerk + i_base + b_at, b_u, mask=b_in)
        if not SINGLE:
            b_a, b_a_low = last_row(b_acceleration, b_acceleration_low, ROWS, PAIRS)
            b_v, b_v_low = last_row(b_velocity, b_velocity_low, ROWS, PAIRS)
            b_p, b_p_low = last_row(b_position, b_position_low, ROWS, PAIRS)


@triton.jit(do_not_specialize=VJP_SCALARS, do_not_specialize_on_alignment=VJP_POINTERS)
def jerk_vjp_kernel(
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
    """One trajectory, a block of its joints: suffix sums over blocks of rows, each block in reverse order."""
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_base = i_trajectory * H * D
    i_start = i_trajectory * D
    if p_grad_action is not None:
        tl.store(p_grad_action + i_base + (H - 1) * D + b_column, tl.zeros([COLUMNS], DTYPE), mask=b_in_column)
    b_sum_p = tl.zeros([COLUMNS], DTYPE)
    b_sum_p_low = tl.zeros([COLUMNS], DTYPE)
    b_sum_v = tl.zeros([COLUMNS], DTYPE)
    b_sum_v_low = tl.zeros([COLUMNS], DTYPE)
    b_sum_a = tl.zeros([COLUMNS], DTYPE)
    b_sum_a_low = tl.zeros([COLUMNS], DTYPE)
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = H - 1 - i_first - tl.arange(0, ROWS)
        b_in = (b_h >= 0)[:, None] & b_in_column[None, :]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_dt = tl.where(b_h > 0, b_step.to(DTYPE), 0.0)[:, None]
        b_p = tl.zeros([ROWS, COLUMNS], DTYPE)
        b_v = tl.zeros([ROWS, COLUMNS], DTYPE)
        b_a = tl.zeros([ROWS, COLUMNS], DTYPE)
        b_pdt = tl.zeros([ROWS, COLUMNS], DTYPE)
        if p_grad_position is not None:
            b_gp = load_gradient(p_grad_position + i_base, b_at, b_in, DTYPE)
            b_p = add_carry(b_sum_p, b_sum_p_low, tl.cumsum(b_gp, 0))
            if not SINGLE:
                b_sum_p, b_sum_p_low = advance_carry(b_sum_p, b_sum_p_low, tl.sum(b_gp, 0))
            b_pdt = b_p * b_dt
        if p_grad_position is not None or p_grad_velocity is not None:
            b_gv = b_pdt
            if p_grad_velocity is not None:
                b_gv += load_gradient(p_grad_velocity + i_base, b_at, b_in, DTYPE)
            b_v = add_carry(b_sum_v, b_sum_v_low, tl.cumsum(b_gv, 0)) - b_pdt
            if not SINGLE:
                b_sum_v, b_sum_v_low = advance_carry(b_sum_v, b_sum_v_low, tl.sum(b_gv, 0))
        b_x = (b_v + 0.5 * b_pdt) * b_dt
        if (p_grad_position is not None or p_grad_velocity is not None) or p_grad_acceleration is not None:
            b_ga = b_x
            if p_grad_acceleration is not None:
                b_ga += load_gradient(p_grad_acceleration + i_base, b_at, b_in, DTYPE)
            b_a = add_carry(b_sum_a, b_sum_a_low, tl.cumsum(b_ga, 0)) - b_x
            if not SINGLE:
                b_sum_a, b_sum_a_low = advance_carry(b_sum_a, b_sum_a_low, tl.sum(b_ga, 0))
        if p_grad_action is not None:
            b_moved = b_in & (b_h > 0)[:, None]
            b_grad = (b_a + (0.5 * b_v + b_pdt * (1.0 / 6.0)) * b_dt) * b_dt
            if p_grad_jerk is not None:
                b_grad += load_gradient(p_grad_jerk + i_base, b_at, b_moved, DTYPE)
            tl.store(p_grad_action + i_base + (b_at - D), b_grad, mask=b_moved)
        b_first = b_in & (b_h == 0)[:, None]
        b_at_start = tl.zeros_like(b_at) + b_column[None, :]
        if p_grad_p0 is not None:
            tl.store(p_grad_p0 + i_start + b_at_start, b_p, mask=b_first)
        if p_grad_v0 is not None:
            tl.store(p_grad_v0 + i_start + b_at_start, b_v, mask=b_first)
        if p_grad_a0 is not None:
            tl.store(p_grad_a0 + i_start + b_at_start, b_a, mask=b_first)
