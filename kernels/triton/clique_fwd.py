"""Forward kernel of the clique map with backward differences; the equations stand in clique.py."""

import triton
import triton.language as tl

from .addressing import difference, load_start, narrow, reciprocal, reciprocal_double, split, third_difference


@triton.jit(do_not_specialize=["n_p0", "n_v0", "n_a0", "n_dt", "n_rows", "H", "D", "dof", "n_start_programs"])
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
    dof,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    H_FASTEST: tl.constexpr,
    LANES: tl.constexpr,
    ACCESSES: tl.constexpr,
):
    """Forward map; a row is a trajectory `[H, D]`, or with `H_FASTEST` one joint of it `[H, 1]`."""
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        _forward_start_rows(
            i_program,
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
            dof,
            DT_PER_TRAJECTORY,
            DT_PER_STEP,
            H_FASTEST,
            LANES,
            ACCESSES,
        )
    else:
        _forward_interior(
            i_program - n_start_programs,
            p_action,
            p_dt,
            n_dt,
            p_position,
            p_velocity,
            p_acceleration,
            p_jerk,
            n_rows,
            H,
            D,
            dof,
            DT_PER_TRAJECTORY,
            DT_PER_STEP,
            H_FASTEST,
            LANES,
            ACCESSES,
        )


@triton.jit
def _forward_start_rows(
    i_program,
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
    dof,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    H_FASTEST: tl.constexpr,
    LANES: tl.constexpr,
    ACCESSES: tl.constexpr,
):
    """Rows 0 to 3 of every trajectory, in float64."""
    INDEXED: tl.constexpr = p_idx is not None
    b_lane = tl.arange(0, LANES)
    size = tl.minimum(H, 4) * D
    n_elements = n_rows.to(tl.int64) * size
    for i_access in tl.static_range(ACCESSES):
        i_first = (i_program.to(tl.int64) * ACCESSES + i_access) * LANES
        i_row, b_row, b_place = split(i_first, b_lane, size)
        b_in = i_first + b_lane < n_elements
        b_row = i_row + b_row
        b_h = b_place // D
        b_column = b_place - b_h * D
        b_at = b_row * (H.to(tl.int64) * D) + b_place
        b_trajectory = b_row
        if H_FASTEST:
            b_trajectory = b_row // dof
            b_column = (b_row - b_trajectory * dof).to(tl.int32)
        b_start_row = b_trajectory
        if p_idx is not None:
            b_start_row = tl.load(p_idx + b_trajectory, mask=b_in, other=0).to(tl.int64)
        b_p0 = load_start(p_p0, n_p0, b_start_row, b_column, dof, b_in, INDEXED)
        b_v0 = load_start(p_v0, n_v0, b_start_row, b_column, dof, b_in, INDEXED)
        b_a0 = load_start(p_a0, n_a0, b_start_row, b_column, dof, b_in, INDEXED)
        # Positions p[h], p[h-1], p[h-2], p[h-3], which are p0 where the index is 0, and not used where below.
        b_x0 = tl.where(b_h > 0, tl.load(p_action + b_at - D, mask=b_in & (b_h > 0), other=0).to(tl.float64), b_p0)
        b_x1 = tl.where(b_h > 1, tl.load(p_action + b_at - 2 * D, mask=b_in & (b_h > 1), other=0).to(tl.float64), b_p0)
        b_x2 = tl.where(b_h > 2, tl.load(p_action + b_at - 3 * D, mask=b_in & (b_h > 2), other=0).to(tl.float64), b_p0)
        p_row_dt = p_dt
        if DT_PER_TRAJECTORY:
            p_row_dt = p_dt + b_trajectory * n_dt
        b_dt_start = tl.load(p_row_dt + tl.zeros_like(b_h), mask=b_in, other=1).to(tl.float64)
        if DT_PER_STEP:
            b_r0 = 1.0 / tl.load(p_row_dt + b_h, mask=b_in, other=1).to(tl.float64)
            b_r1 = 1.0 / tl.load(p_row_dt + b_h - 1, mask=b_in & (b_h > 0), other=1).to(tl.float64)
            b_r2 = 1.0 / tl.load(p_row_dt + b_h - 2, mask=b_in & (b_h > 1), other=1).to(tl.float64)
        else:
            b_r0 = 1.0 / b_dt_start
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


@triton.jit
def _forward_interior(
    i_program,
    p_action,
    p_dt,
    n_dt,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_rows,
    H,
    D,
    dof,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    H_FASTEST: tl.constexpr,
    LANES: tl.constexpr,
    ACCESSES: tl.constexpr,
):
    """Rows from 4 on."""
    DOUBLE: tl.constexpr = p_action.dtype.element_ty == tl.float64
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    b_lane = tl.arange(0, LANES)
    size = H * D
    n_elements = n_rows.to(tl.int64) * size
    for i_access in tl.static_range(ACCESSES):
        i_first = (i_program.to(tl.int64) * ACCESSES + i_access) * LANES
        i_row, b_row, b_place = split(i_first, b_lane, size)
        b_in = (i_first + b_lane < n_elements) & (b_place >= 4 * D)
        p_first = p_action + i_first
        b_x0 = tl.load(p_first + (b_lane - D), mask=b_in, other=0).to(DTYPE)
        b_x1 = tl.load(p_first + (b_lane - 2 * D), mask=b_in, other=0).to(DTYPE)
        b_x2 = tl.load(p_first + (b_lane - 3 * D), mask=b_in, other=0).to(DTYPE)
        b_x3 = tl.load(p_first + (b_lane - 4 * D), mask=b_in, other=0).to(DTYPE)
        p_row_dt = p_dt
        if DT_PER_TRAJECTORY:
            b_trajectory = b_row
            if H_FASTEST:
                i_trajectory = i_row // dof
                b_trajectory = ((i_row - i_trajectory * dof).to(tl.int32) + b_row) // dof
                i_row = i_trajectory
            p_row_dt = p_dt + i_row * n_dt + b_trajectory.to(tl.int64) * n_dt
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
