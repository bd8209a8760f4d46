"""Jerks, each held over its step, to trajectories; the transpose is the adjoint scan from the last step back.

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

import triton
import triton.language as tl

from .addressing import load_gradient, load_start, load_steps, start_row


@triton.jit(do_not_specialize=["n_p0", "n_v0", "n_a0", "n_dt", "H", "D", "n_column_programs"])
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
    HALF: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: running sums over blocks of rows."""
    DTYPE: tl.constexpr = tl.float64 if p_action.dtype.element_ty == tl.float64 else tl.float32
    SUM: tl.constexpr = tl.float32 if HALF else tl.float64
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p = load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    b_v = load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    b_a = load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED).to(SUM)
    i_base = i_trajectory * H * D
    for i_first in range(0, H, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_in = (b_h < H)[:, None] & b_in_column[None, :]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_u = tl.load(p_action + i_base + (b_at - D), mask=b_in & (b_h > 0)[:, None], other=0).to(DTYPE)
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h < H, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_dt = tl.where((b_h > 0) & (b_h < H), b_step.to(SUM), 0.0)[:, None]
        b_da = b_u.to(SUM) * b_dt
        b_acceleration = b_a[None, :] + tl.cumsum(b_da, 0)
        b_dv = (b_acceleration - 0.5 * b_da) * b_dt
        b_velocity = b_v[None, :] + tl.cumsum(b_dv, 0)
        # From the state at the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
        b_dp = ((b_velocity - b_dv) + (0.5 * b_acceleration - b_da / 3.0) * b_dt) * b_dt
        b_position = b_p[None, :] + tl.cumsum(b_dp, 0)
        tl.store(p_position + i_base + b_at, b_position.to(DTYPE), mask=b_in)
        tl.store(p_velocity + i_base + b_at, b_velocity.to(DTYPE), mask=b_in)
        tl.store(p_acceleration + i_base + b_at, b_acceleration.to(DTYPE), mask=b_in)
        tl.store(p_jerk + i_base + b_at, b_u, mask=b_in)
        b_a += tl.sum(b_da, 0)
        b_v += tl.sum(b_dv, 0)
        b_p += tl.sum(b_dp, 0)


@triton.jit(do_not_specialize=["n_dt", "H", "D", "n_column_programs"])
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
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: suffix sums over blocks of rows, each block turned back to front."""
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_base = i_trajectory * H * D
    i_start = i_trajectory * D
    if p_grad_action is not None:
        tl.store(p_grad_action + i_base + (H - 1) * D + b_column, tl.zeros([COLUMNS], DTYPE), mask=b_in_column)
    b_sum_p = tl.zeros([COLUMNS], DTYPE)
    b_sum_v = tl.zeros([COLUMNS], DTYPE)
    b_sum_a = tl.zeros([COLUMNS], DTYPE)
    for i_first in range(0, H, ROWS):
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
            b_p = b_sum_p[None, :] + tl.cumsum(b_gp, 0)
            b_sum_p += tl.sum(b_gp, 0)
            b_pdt = b_p * b_dt
        if p_grad_position is not None or p_grad_velocity is not None:
            b_gv = b_pdt
            if p_grad_velocity is not None:
                b_gv += load_gradient(p_grad_velocity + i_base, b_at, b_in, DTYPE)
            b_v = (b_sum_v[None, :] + tl.cumsum(b_gv, 0)) - b_pdt
            b_sum_v += tl.sum(b_gv, 0)
        b_x = (b_v + 0.5 * b_pdt) * b_dt
        if p_grad_position is not None or p_grad_velocity is not None or p_grad_acceleration is not None:
            b_ga = b_x
            if p_grad_acceleration is not None:
                b_ga += load_gradient(p_grad_acceleration + i_base, b_at, b_in, DTYPE)
            b_a = (b_sum_a[None, :] + tl.cumsum(b_ga, 0)) - b_x
            b_sum_a += tl.sum(b_ga, 0)
        if p_grad_action is not None:
            b_moved = b_in & (b_h > 0)[:, None]
            b_grad = (b_a + (0.5 * b_v + b_pdt / 6.0) * b_dt) * b_dt
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
