"""Forward kernel of positions, velocities, accelerations and jerks; the equations are in chain.py."""

import triton
import triton.language as tl

from .addressing import load_start, load_steps, narrow, reciprocal_double, start_row

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
    HALF: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and running sums over blocks of rows."""
    DTYPE: tl.constexpr = tl.float64 if p_action.dtype.element_ty == tl.float64 else tl.float32
    EXACT: tl.constexpr = DTYPE == tl.float64
    SUM: tl.constexpr = tl.float32 if HALF else tl.float64
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
            b_dt = tl.where((b_h > 0) & (b_h < H), b_step.to(SUM), 0.0)[:, None]
            b_mean = b_u.to(SUM)
            if GIVEN == 3:
                b_da = b_mean * b_dt
                b_acceleration = b_a[None, :] + tl.cumsum(b_da, 0)
                b_mean = b_acceleration - 0.5 * b_da
                tl.store(p_acceleration + i_base + b_at, narrow(b_acceleration, p_acceleration), mask=b_in)
            if GIVEN >= 2:
                b_dv = b_mean * b_dt
                b_velocity = b_v[None, :] + tl.cumsum(b_dv, 0)
                b_mean = b_velocity
                if GIVEN == 3:
                    # From the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
                    THIRD: tl.constexpr = 1.0 / 3.0
                    b_mean = b_velocity - b_dv + (0.5 * b_acceleration - THIRD * b_da) * b_dt
                elif not SEMI_IMPLICIT:
                    b_mean = b_velocity - 0.5 * b_dv
                tl.store(p_velocity + i_base + b_at, narrow(b_velocity, p_velocity), mask=b_in)
            b_position = b_p[None, :] + tl.cumsum(b_mean * b_dt, 0)
            tl.store(p_position + i_base + b_at, narrow(b_position, p_position), mask=b_in)
            if not SINGLE:
                if GIVEN == 3:
                    b_a = _last_row(b_acceleration, ROWS)
                if GIVEN >= 2:
                    b_v = _last_row(b_velocity, ROWS)
                b_p = _last_row(b_position, ROWS)


@triton.jit
def _last_row(b_rows, ROWS: tl.constexpr):
    """The last of the rows: what running sums carry on to the next block, without adding it up again."""
    b_is_last = (tl.arange(0, ROWS) == ROWS - 1)[:, None]
    return tl.sum(tl.where(b_is_last, b_rows, 0.0), 0)


@triton.jit
def _given_row(p_u, b_at, b_in, b_is_action, b_before):
    """An earlier row of the given output in float64: an action, or the start state before the first one."""
    b_action = tl.load(p_u + b_at, mask=b_in & b_is_action, other=0).to(tl.float64)
    return tl.where(b_is_action, b_action, b_before[None, :])
