"""Forward kernel of backward differences; the equations are in clique.py."""

import triton
import triton.language as tl

from .addressing import (
    difference,
    flat_places,
    load_start,
    narrow,
    reciprocal,
    reciprocal_double,
    split,
    third_difference,
)

_SCALARS = ("n_dt", "n_rows", "H", "D", "n_magic", "n_start_programs")
_POINTERS = ("p_action", "p_idx", "p_dt", "p_position", "p_velocity", "p_acceleration", "p_jerk")
_START_POINTERS = ("p_p0", "p_v0", "p_a0")


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
        # Positions p[h], p[h-1], p[h-2], which are p0 if the index is 0, and are not used if it is negative.
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
