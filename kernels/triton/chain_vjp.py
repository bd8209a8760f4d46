"""Vjp kernel of positions, velocities, accelerations and jerks; the equations are in chain.py."""

import triton
import triton.language as tl

from .addressing import add_carry, advance_carry, load_gradient, load_steps, reciprocal_double

_SCALARS = ("n_dt", "H", "D", "n_column_programs")
_POINTERS = (
    *("p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt"),
    *("p_grad_action", "p_grad_p0", "p_grad_v0", "p_grad_a0"),
)


@triton.jit(do_not_specialize=_SCALARS, do_not_specialize_on_alignment=_POINTERS)
def chain_vjp_kernel(
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
    GIVEN: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    DOUBLE: tl.constexpr,
    SINGLE: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and suffix sums over blocks of rows in reverse order."""
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
    b_sum_s = tl.zeros([COLUMNS], DTYPE)
    b_sum_s_low = tl.zeros([COLUMNS], DTYPE)
    b_sum_a = tl.zeros([COLUMNS], DTYPE)
    b_sum_a_low = tl.zeros([COLUMNS], DTYPE)
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = H - 1 - i_first - tl.arange(0, ROWS)
        b_in = (b_h >= 0)[:, None] & b_in_column[None, :]
        b_moved = b_in & (b_h > 0)[:, None]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_dt = tl.where(b_h > 0, b_step.to(DTYPE), 0.0)[:, None]
        # The adjoint of the differences, from the jerk down to the given output, in float64, for neighbours cancel.
        b_wide = tl.zeros([ROWS, COLUMNS], tl.float64)
        b_v0 = b_wide
        b_a0 = b_wide
        if GIVEN <= 2:
            b_in1 = b_in & (b_h < H - 1)[:, None]
            b_in2 = b_in & (b_h < H - 2)[:, None]
            b_r = tl.where((b_h > 0)[:, None], reciprocal_double(b_step, DOUBLE)[:, None], 0.0)
            b_r1 = _rate(p_dt, n_dt, i_trajectory, b_h, 1, H, DT_PER_TRAJECTORY, DT_PER_STEP, DOUBLE)
            b_wj = _row(p_grad_jerk, i_base, b_at, b_moved) * b_r
            b_wj1 = _row(p_grad_jerk, i_base, b_at + D, b_in1) * b_r1
            b_wide = _row(p_grad_acceleration, i_base, b_at, b_in) + b_wj - b_wj1
        if GIVEN <= 1:
            b_a0 = b_wide
            b_r2 = _rate(p_dt, n_dt, i_trajectory, b_h, 2, H, DT_PER_TRAJECTORY, DT_PER_STEP, DOUBLE)
            b_wj2 = _row(p_grad_jerk, i_base, b_at + 2 * D, b_in2) * b_r2
            b_wa1 = (_row(p_grad_acceleration, i_base, b_at + D, b_in1) + b_wj1 - b_wj2) * b_r1
            b_wide = b_wide * b_r - b_wa1
        if GIVEN == 0:
            b_in3 = b_in & (b_h < H - 3)[:, None]
            b_r3 = _rate(p_dt, n_dt, i_trajectory, b_h, 3, H, DT_PER_TRAJECTORY, DT_PER_STEP, DOUBLE)
            b_wj3 = _row(p_grad_jerk, i_base, b_at + 3 * D, b_in3) * b_r3
            b_wa2 = (_row(p_grad_acceleration, i_base, b_at + 2 * D, b_in2) + b_wj2 - b_wj3) * b_r2
            b_wv1 = (_row(p_grad_velocity, i_base, b_at + D, b_in1) + b_wa1 - b_wa2) * b_r1
            b_v0 = _row(p_grad_velocity, i_base, b_at, b_in) + b_wide
            b_a0 += 0.5 * b_step.to(tl.float64)[:, None] * b_wa1  # is used in row 0 alone
            b_wide = _row(p_grad_position, i_base, b_at, b_in) + b_v0 * b_r - b_wv1
        b_grad = b_wide.to(DTYPE)
        b_p = b_grad
        b_s = b_v0.to(DTYPE)
        b_a = b_a0.to(DTYPE)
        # The adjoint of the running sums, from the position up to the given output.
        if GIVEN >= 1:
            b_p = tl.zeros([ROWS, COLUMNS], DTYPE)
            b_pdt = b_p
            if p_grad_position is not None:
                b_gp = load_gradient(p_grad_position + i_base, b_at, b_in, DTYPE)
                b_p = add_carry(b_sum_p, b_sum_p_low, tl.cumsum(b_gp, 0))
                if not SINGLE:
                    b_sum_p, b_sum_p_low = advance_carry(b_sum_p, b_sum_p_low, tl.sum(b_gp, 0))
                b_pdt = b_p * b_dt
            b_gs = b_pdt
            if p_grad_velocity is not None:
                b_gs += load_gradient(p_grad_velocity + i_base, b_at, b_in, DTYPE)
        if GIVEN == 1:
            b_grad += b_gs
            b_s = b_grad
        if GIVEN >= 2:
            if p_grad_position is not None or p_grad_velocity is not None:
                b_s = add_carry(b_sum_s, b_sum_s_low, tl.cumsum(b_gs, 0))
                if not SINGLE:
                    b_sum_s, b_sum_s_low = advance_carry(b_sum_s, b_sum_s_low, tl.sum(b_gs, 0))
            b_x = b_s * b_dt
            if not SEMI_IMPLICIT:
                b_x = (b_s - 0.5 * b_pdt) * b_dt
        if GIVEN == 2:
            b_grad += b_x
            b_a = b_grad
        if GIVEN == 3:
            if (p_grad_position is not None or p_grad_velocity is not None) or p_grad_acceleration is not None:
                b_ga = b_x
                if p_grad_acceleration is not None:
                    b_ga += load_gradient(p_grad_acceleration + i_base, b_at, b_in, DTYPE)
                b_a = add_carry(b_sum_a, b_sum_a_low, tl.cumsum(b_ga, 0)) - b_x
                if not SINGLE:
                    b_sum_a, b_sum_a_low = advance_carry(b_sum_a, b_sum_a_low, tl.sum(b_ga, 0))
            b_s -= b_pdt
            b_grad += (b_a + (0.5 * b_s + b_pdt * (1.0 / 6.0)) * b_dt) * b_dt
            if p_grad_jerk is not None:
                b_grad += load_gradient(p_grad_jerk + i_base, b_at, b_moved, DTYPE)
        if p_grad_action is not None:
            tl.store(p_grad_action + i_base + (b_at - D), b_grad, mask=b_moved)
        b_first = b_in & (b_h == 0)[:, None]
        b_at_start = tl.zeros_like(b_at) + b_column[None, :]
        if p_grad_p0 is not None:
            tl.store(p_grad_p0 + i_start + b_at_start, b_p, mask=b_first)
        if p_grad_v0 is not None:
            tl.store(p_grad_v0 + i_start + b_at_start, b_s, mask=b_first)
        if p_grad_a0 is not None:
            tl.store(p_grad_a0 + i_start + b_at_start, b_a, mask=b_first)


@triton.jit
def _row(p_gradient, i_base, b_at, b_mask):
    """Rows of an upstream gradient in float64; 0 where it is absent, and outside of the mask."""
    if p_gradient is None:
        b_value = tl.zeros_like(b_at).to(tl.float64)
    else:
        b_value = tl.load(p_gradient + i_base + b_at, mask=b_mask, other=0).to(tl.float64)
    return b_value


@triton.jit
def _rate(
    p_dt,
    n_dt,
    i_trajectory,
    b_h,
    later: tl.constexpr,
    H,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    DOUBLE: tl.constexpr,
):
    """1 / dt of the rows `later` than `b_h`."""
    b_there = (b_h >= 0) & (b_h + later < H)
    b_step = load_steps(p_dt, n_dt, i_trajectory, b_h + later, b_there, DT_PER_TRAJECTORY, DT_PER_STEP)
    return reciprocal_double(b_step, DOUBLE)[:, None]
