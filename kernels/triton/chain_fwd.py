"""Forward kernel of positions, velocities, accelerations and jerks; the equations are in chain.py."""

import triton
import triton.language as tl

from .addressing import load_start, load_steps, narrow, reciprocal_double, start_row
from .pairs import add, last_row, multiply, rounded, running_sum

_SCALARS = ("n_p0", "n_v0", "n_a0", "n_dt", "H", "D", "n_column_programs")
_POINTERS = (
    *("p_action", "p_idx", "p_p0", "p_v0", "p_a0", "p_dt"),
    *("p_position", "p_velocity", "p_acceleration", "p_jerk"),
)


@triton.jit(do_not_specialize=_SCALARS, do_not_specialize_on_alignment=_POINTERS)
def chain_fwd_kernel(
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
    GIVEN: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    SINGLE: tl.constexpr,
    PAIRS: tl.constexpr,
    HALF: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and running sums over blocks of rows."""
    DTYPE: tl.constexpr = tl.float64 if p_action.dtype.element_ty == tl.float64 else tl.float32
    EXACT: tl.constexpr = DTYPE == tl.float64
    SUM: tl.constexpr = tl.float32 if PAIRS or HALF else tl.float64
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = (tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p0 = load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED)
    b_v0 = load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED)
    b_a0 = load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED)
    b_p = b_p0.to(SUM)
    b_v = b_v0.to(SUM)
    b_a = b_a0.to(SUM)
    b_p_low = tl.zeros_like(b_p)
    b_v_low = tl.zeros_like(b_v)
    b_a_low = tl.zeros_like(b_a)
    # The given output before its first action, and the velocity that the first difference of positions continues.
    b_before = b_a0
    if GIVEN == 0:
        b_before = b_p0
        b_dt0 = load_steps(p_dt, n_dt, i_trajectory, tl.zeros_like(b_column), b_in_column, DT_PER_TRAJECTORY, False)
        b_arc = (b_v0 - 0.5 * b_dt0.to(tl.float64) * b_a0)[None, :]
    if GIVEN == 1:
        b_before = b_v0
    i_base = i_trajectory * H * D
    p_u = p_action + i_base
    end = H
    if SINGLE:
        end = ROWS
    for i_first in range(0, end, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_in = (b_h < H)[:, None] & b_in_column[None, :]
        b_1 = (b_h > 0)[:, None]
        b_2 = (b_h > 1)[:, None]
        b_3 = (b_h > 2)[:, None]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_u = tl.load(p_u + (b_at - D), mask=b_in & b_1, other=0).to(DTYPE)
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h < H, DT_PER_TRAJECTORY, DT_PER_STEP)
        # Up from the given output: differences, in float64, for those of neighbours cancel.
        b_out_j = b_u
        if GIVEN <= 2:
            b_r = reciprocal_double(b_step, EXACT)[:, None]
            b_x0 = tl.where(b_1, b_u.to(tl.float64), b_before[None, :])
            b_x1 = _given_row(p_u, b_at - 2 * D, b_in, b_2, b_before)
        if GIVEN <= 1:
            b_x2 = _given_row(p_u, b_at - 3 * D, b_in, b_3, b_before)
            b_r1 = b_r
            b_r2 = b_r
            if DT_PER_STEP:
                b_last = load_steps(p_dt, n_dt, i_trajectory, b_h - 1, (b_h > 0) & (b_h < H), DT_PER_TRAJECTORY, True)
                b_r1 = reciprocal_double(b_last, EXACT)[:, None]
        if GIVEN == 0:
            b_x3 = _given_row(p_u, b_at - 4 * D, b_in, (b_h > 3)[:, None], b_before)
            if DT_PER_STEP:
                b_last = load_steps(p_dt, n_dt, i_trajectory, b_h - 2, (b_h > 1) & (b_h < H), DT_PER_TRAJECTORY, True)
                b_r2 = reciprocal_double(b_last, EXACT)[:, None]
            tl.store(p_position + i_base + b_at, narrow(b_x0, p_position), mask=b_in)
            b_x0 = tl.where(b_1, (b_x0 - b_x1) * b_r, b_arc)
            b_x1 = tl.where(b_2, (b_x1 - b_x2) * b_r1, b_arc)
            b_x2 = tl.where(b_3, (b_x2 - b_x3) * b_r2, b_arc)
        if GIVEN <= 1:
            tl.store(p_velocity + i_base + b_at, narrow(tl.where(b_1, b_x0, b_v0[None, :]), p_velocity), mask=b_in)
            b_x0 = tl.where(b_1, (b_x0 - b_x1) * b_r, b_a0[None, :])
            b_x1 = tl.where(b_2, (b_x1 - b_x2) * b_r1, b_a0[None, :])
        if GIVEN <= 2:
            tl.store(p_acceleration + i_base + b_at, narrow(b_x0, p_acceleration), mask=b_in)
            b_out_j = tl.where(b_1, (b_x0 - b_x1) * b_r, 0.0)
        tl.store(p_jerk + i_base + b_at, narrow(b_out_j, p_jerk), mask=b_in)
        # Down from it: running sums, in which each gain over a step is a mean times the step.
        if GIVEN >= 1:
            b_moves = (b_h > 0) & (b_h < H)
            b_short_step = b_step.to(SUM)
            b_dt = tl.where(b_moves, b_short_step, 0.0)[:, None]
            b_dt_low = b_dt
            if PAIRS:
                b_rest = (b_step.to(tl.float64) - b_short_step.to(tl.float64)).to(SUM)
                b_dt_low = tl.where(b_moves, b_rest, 0.0)[:, None]
            b_mean = b_u.to(SUM)
            b_mean_low = tl.zeros([ROWS, COLUMNS], SUM)
            if GIVEN == 3:
                b_da, b_da_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
                b_sum, b_sum_low = running_sum(b_da, b_da_low, PAIRS)
                b_acceleration, b_acceleration_low = add(b_a[None, :], b_a_low[None, :], b_sum, b_sum_low, PAIRS)
                b_mean, b_mean_low = add(b_acceleration, b_acceleration_low, -0.5 * b_da, -0.5 * b_da_low, PAIRS)
                b_out = rounded(b_acceleration, b_acceleration_low, PAIRS)
                tl.store(p_acceleration + i_base + b_at, narrow(b_out, p_acceleration), mask=b_in)
            if GIVEN >= 2:
                b_dv, b_dv_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
                b_sum, b_sum_low = running_sum(b_dv, b_dv_low, PAIRS)
                b_velocity, b_velocity_low = add(b_v[None, :], b_v_low[None, :], b_sum, b_sum_low, PAIRS)
                b_mean = b_velocity
                b_mean_low = b_velocity_low
                if GIVEN == 3:
                    # From the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
                    THIRD: tl.constexpr = 1.0 / 3.0
                    b_half, b_half_low = add(
                        0.5 * b_acceleration, 0.5 * b_acceleration_low, -THIRD * b_da, -THIRD * b_da_low, PAIRS
                    )
                    b_gain, b_gain_low = multiply(b_half, b_half_low, b_dt, b_dt_low, PAIRS)
                    b_mean, b_mean_low = add(b_mean, b_mean_low, -b_dv, -b_dv_low, PAIRS)
                    b_mean, b_mean_low = add(b_mean, b_mean_low, b_gain, b_gain_low, PAIRS)
                elif not SEMI_IMPLICIT:
                    b_mean, b_mean_low = add(b_mean, b_mean_low, -0.5 * b_dv, -0.5 * b_dv_low, PAIRS)
                b_out = rounded(b_velocity, b_velocity_low, PAIRS)
                tl.store(p_velocity + i_base + b_at, narrow(b_out, p_velocity), mask=b_in)
            b_dp, b_dp_low = multiply(b_mean, b_mean_low, b_dt, b_dt_low, PAIRS)
            b_sum, b_sum_low = running_sum(b_dp, b_dp_low, PAIRS)
            b_position, b_position_low = add(b_p[None, :], b_p_low[None, :], b_sum, b_sum_low, PAIRS)
            tl.store(
                p_position + i_base + b_at, narrow(rounded(b_position, b_position_low, PAIRS), p_position), mask=b_in
            )
            if not SINGLE:
                if GIVEN == 3:
                    b_a, b_a_low = last_row(b_acceleration, b_acceleration_low, ROWS, PAIRS)
                if GIVEN >= 2:
                    b_v, b_v_low = last_row(b_velocity, b_velocity_low, ROWS, PAIRS)
                b_p, b_p_low = last_row(b_position, b_position_low, ROWS, PAIRS)


@triton.jit
def _given_row(p_u, b_at, b_in, b_is_action, b_before):
    """An earlier row of the given output in float64: an action, or the start state before the first one."""
    b_action = tl.load(p_u + b_at, mask=b_in & b_is_action, other=0).to(tl.float64)
    return tl.where(b_is_action, b_action, b_before[None, :])
