"""Vjp kernel of backward differences; the equations are in clique.py."""

import triton
import triton.language as tl

from .addressing import (
    difference,
    flat_places,
    load_gradient,
    narrow,
    reciprocal,
    reciprocal_double,
    split,
    third_difference,
)

_SCALARS = ("n_dt", "n_rows", "H", "D", "n_magic", "n_magic_dof", "n_start_programs")
_VJP_POINTERS = ("p_grad_action", "p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt")


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
    n_magic_dof,
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
        if SHORT:
            b_step = short_quotient(b_place, n_magic_dof)
        else:
            b_step = b_place // D
        p_step = p_row_dt + b_step
        b_r = reciprocal_double(tl.load(p_step + 1, mask=b_in0, other=1), DOUBLE)
        b_r1 = reciprocal_double(tl.load(p_step + 2, mask=b_in1, other=1), DOUBLE)
        b_r2 = reciprocal_double(tl.load(p_step + 3, mask=b_in2, other=1), DOUBLE)
        b_r3 = reciprocal_double(tl.load(p_step + 4, mask=b_in3, other=1), DOUBLE)
    elif DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_row_dt, mask=b_in0, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_row_dt), DTYPE)
    # With step lengths of their own, what is scaled alike is summed first: ga + Wj - Wj[h+1], then gv + Wa - Wa[h+1].
    b_a = tl.zeros([LANES], DTYPE)
    b_a1 = tl.zeros([LANES], DTYPE)
    b_a2 = tl.zeros([LANES], DTYPE)
    b_v = tl.zeros([LANES], DTYPE)
    b_v1 = tl.zeros([LANES], DTYPE)
    b_grad = tl.zeros([LANES], DTYPE)
    if p_grad_acceleration is not None:
        p_next = p_grad_acceleration + i_first + D
        b_a = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_a1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
        b_a2 = load_gradient(p_next + 2 * D, b_lane, b_in2, DTYPE)
    if p_grad_velocity is not None:
        p_next = p_grad_velocity + i_first + D
        b_v = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_v1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
    if p_grad_position is not None:
        b_grad = load_gradient(p_grad_position + i_first + D, b_lane, b_in0, DTYPE)
    if p_grad_jerk is not None:
        p_next = p_grad_jerk + i_first + D
        b_j = load_gradient(p_next, b_lane, b_in0, DTYPE)
        b_j1 = load_gradient(p_next + D, b_lane, b_in1, DTYPE)
        b_j2 = load_gradient(p_next + 2 * D, b_lane, b_in2, DTYPE)
        b_j3 = load_gradient(p_next + 3 * D, b_lane, b_in3, DTYPE)
        if DT_PER_STEP:
            b_a += b_j * b_r - b_j1 * b_r1
            b_a1 += b_j1 * b_r1 - b_j2 * b_r2
            b_a2 += b_j2 * b_r2 - b_j3 * b_r3
        else:
            b_d, b_e = difference(b_j, b_j1)
            b_d1, b_e1 = difference(b_j1, b_j2)
            b_d2, b_e2 = difference(b_j2, b_j3)
            b_grad += third_difference(b_d, b_e, b_d1, b_e1, b_d2, b_e2) * (b_r * b_r * b_r)
    if DT_PER_STEP:
        if p_grad_jerk is not None or p_grad_acceleration is not None:
            b_v += b_a * b_r - b_a1 * b_r1
            b_v1 += b_a1 * b_r1 - b_a2 * b_r2
        if (p_grad_jerk is not None or p_grad_acceleration is not None) or p_grad_velocity is not None:
            b_grad += b_v * b_r - b_v1 * b_r1
    else:
        if p_grad_acceleration is not None:
            b_grad += ((b_a - b_a1) - (b_a1 - b_a2)) * (b_r * b_r)
        if p_grad_velocity is not None:
            b_grad += (b_v - b_v1) * b_r
    tl.store(p_grad_action + i_first + b_lane, narrow(b_grad, p_grad_action), mask=b_in)


@triton.jit
def short_quotient(b_place, n_magic):
    """Which step a place in a short row belongs to, without a division: see `launch.flat_division`."""
    SHIFT: tl.constexpr = 21
    return ((b_place.to(tl.uint32) * n_magic.to(tl.uint32)) >> SHIFT).to(tl.int32)
