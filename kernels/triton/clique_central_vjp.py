"""Vjp kernel of central differences; the equations are in clique_central.py."""

import triton
import triton.language as tl

from .addressing import difference, flat_places, load_gradient, narrow, reciprocal, reciprocal_double, split

_SCALARS = ("n_batch", "Ha", "D", "n_magic", "n_start_programs")
_VJP_POINTERS = ("p_grad_action", "p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt")


@triton.jit(
    do_not_specialize=_SCALARS,
    do_not_specialize_on_alignment=[*_VJP_POINTERS, "p_grad_p0", "p_grad_v0", "p_grad_a0", "p_grad_j0"],
)
def clique_central_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    p_grad_action,
    p_grad_p0,
    p_grad_v0,
    p_grad_a0,
    p_grad_j0,
    n_batch,
    Ha,
    D,
    n_magic,
    n_start_programs,
    DT_PER_TRAJECTORY: tl.constexpr,
    SHORT: tl.constexpr,
    TRUNCATE: tl.constexpr,
    DOUBLE: tl.constexpr,
    START_LANES: tl.constexpr,
    LANES: tl.constexpr,
):
    """Start gradients in the first `n_start_programs` programs, the gradient of the action in the others."""
    i_program = tl.program_id(0)
    if i_program < n_start_programs:
        b_lane = tl.arange(0, START_LANES)
        n_elements = n_batch.to(tl.int64) * D
        i_first = i_program.to(tl.int64) * START_LANES
        i_row, b_row, b_column = split(i_first, b_lane, D)
        b_in = i_first + b_lane < n_elements
        b_row = i_row + b_row
        b_at = b_row * ((Ha + 4).to(tl.int64) * D) + b_column
        if DT_PER_TRAJECTORY:
            b_dt = tl.load(p_dt + b_row, mask=b_in, other=1).to(tl.float64)
        else:
            b_dt = tl.load(p_dt + tl.zeros_like(b_column), mask=b_in, other=1).to(tl.float64)
        b_r = reciprocal_double(b_dt, DOUBLE)
        # Gradients of the points e[0], e[-1], e[-2], e[-3].
        b_e0 = tl.zeros_like(b_dt)
        b_e1 = tl.zeros_like(b_dt)
        b_e2 = tl.zeros_like(b_dt)
        b_e3 = tl.zeros_like(b_dt)
        if p_grad_position is not None:
            b_e0 += load_gradient(p_grad_position, b_at + D, b_in, tl.float64)
            b_e1 += load_gradient(p_grad_position, b_at, b_in, tl.float64)
        if p_grad_velocity is not None:
            b_scale = b_r * (1.0 / 12.0)
            b_g0 = load_gradient(p_grad_velocity, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_velocity, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_velocity, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_velocity, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += b_g3 - 8.0 * (b_g2 - b_g0)
            b_e1 += b_g2 - 8.0 * b_g1
            b_e2 += b_g1 - 8.0 * b_g0
            b_e3 += b_g0
        if p_grad_acceleration is not None:
            b_scale = b_r * b_r * (1.0 / 12.0)
            b_g0 = load_gradient(p_grad_acceleration, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_acceleration, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_acceleration, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_acceleration, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += 16.0 * (b_g0 + b_g2) - 30.0 * b_g1 - b_g3
            b_e1 += 16.0 * b_g1 - 30.0 * b_g0 - b_g2
            b_e2 += 16.0 * b_g0 - b_g1
            b_e3 -= b_g0
        if p_grad_jerk is not None:
            b_scale = 0.5 * b_r * b_r * b_r
            b_g0 = load_gradient(p_grad_jerk, b_at, b_in, tl.float64) * b_scale
            b_g1 = load_gradient(p_grad_jerk, b_at + D, b_in, tl.float64) * b_scale
            b_g2 = load_gradient(p_grad_jerk, b_at + 2 * D, b_in, tl.float64) * b_scale
            b_g3 = load_gradient(p_grad_jerk, b_at + 3 * D, b_in, tl.float64) * b_scale
            b_e0 += 2.0 * (b_g2 - b_g0) - b_g3
            b_e1 += 2.0 * b_g1 - b_g2
            b_e2 += 2.0 * b_g0 - b_g1
            b_e3 -= b_g0
        if p_grad_p0 is not None:
            b_p0 = b_e0 + b_e1 + b_e2 + b_e3
            tl.store(p_grad_p0 + i_first + b_lane, narrow(b_p0, p_grad_p0), mask=b_in)
        if p_grad_v0 is not None:
            b_v0 = -b_dt * (b_e1 + 2.0 * b_e2 + 3.0 * b_e3)
            tl.store(p_grad_v0 + i_first + b_lane, narrow(b_v0, p_grad_v0), mask=b_in)
        if p_grad_a0 is not None:
            b_a0 = 0.5 * b_dt * b_dt * (b_e1 + 4.0 * b_e2 + 9.0 * b_e3)
            tl.store(p_grad_a0 + i_first + b_lane, narrow(b_a0, p_grad_a0), mask=b_in)
        if p_grad_j0 is not None:
            b_j0 = -b_dt * b_dt * b_dt * (1.0 / 6.0) * (b_e1 + 8.0 * b_e2 + 27.0 * b_e3)
            tl.store(p_grad_j0 + i_first + b_lane, narrow(b_j0, p_grad_j0), mask=b_in)
        return
    DTYPE: tl.constexpr = tl.float64 if DOUBLE else tl.float32
    size = Ha * D
    i_first, i_row, b_row, b_place, b_in = flat_places(
        i_program - n_start_programs, n_batch, size, n_magic, SHORT, LANES
    )
    b_lane = tl.arange(0, LANES)
    b_last = b_place >= size - D
    # Row m of the gradients, whose trajectories are 4 rows longer; m + 4 is their last row at most.
    i_base = i_first + i_row * (4 * D)
    b_at = b_lane + b_row * (4 * D)
    if DT_PER_TRAJECTORY:
        b_r = reciprocal(tl.load(p_dt + i_row + b_row, mask=b_in, other=1), DTYPE)
    else:
        b_r = reciprocal(tl.load(p_dt), DTYPE)
    b_grad = tl.zeros([LANES], DTYPE)
    if p_grad_jerk is not None:
        p_row = p_grad_jerk + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_d0, b_e0 = difference(b_g0, b_g1)
        b_d1, b_e1 = difference(b_g1, b_g2)
        b_d2, b_e2 = difference(b_g2, b_g3)
        b_d3, b_e3 = difference(b_g3, b_g4)
        b_inner = ((b_d0 - b_d1) - (b_d2 - b_d3)) + ((b_e0 - b_e1) - (b_e2 - b_e3))
        b_held = b_d0 - b_d2
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (0.5 * b_r * b_r * b_r)
    if p_grad_acceleration is not None:
        p_row = p_grad_acceleration + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_centre = (b_g3 - b_g2) - (b_g2 - b_g1)
        b_outer = ((b_g2 - b_g1) - (b_g1 - b_g0)) + ((b_g4 - b_g3) - (b_g3 - b_g2))
        b_inner = 12.0 * b_centre + (2.0 * b_centre - b_outer)
        b_held = 15.0 * (b_g1 - b_g2) - (b_g0 - b_g3)
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (b_r * b_r * (1.0 / 12.0))
    if p_grad_velocity is not None:
        p_row = p_grad_velocity + i_base
        b_g0 = load_gradient(p_row, b_at, b_in, DTYPE)
        b_g1 = load_gradient(p_row + D, b_at, b_in, DTYPE)
        b_g2 = load_gradient(p_row + 2 * D, b_at, b_in & b_last, DTYPE)
        b_g3 = load_gradient(p_row + 3 * D, b_at, b_in, DTYPE)
        b_g4 = load_gradient(p_row + 4 * D, b_at, b_in, DTYPE)
        b_inner = 8.0 * (b_g1 - b_g3) - (b_g0 - b_g4)
        b_held = 7.0 * (b_g1 + b_g2) - (b_g0 + b_g3)
        b_grad += _choose(b_inner, b_held, b_last, TRUNCATE) * (b_r * (1.0 / 12.0))
    if p_grad_position is not None:
        p_row = p_grad_position + i_base
        b_grad += load_gradient(p_row + 2 * D, b_at, b_in, DTYPE)
        b_grad += load_gradient(p_row + 3 * D, b_at, b_in & b_last, DTYPE)
        b_grad += load_gradient(p_row + 4 * D, b_at, b_in & b_last, DTYPE)
    tl.store(p_grad_action + i_first + b_lane, b_grad, mask=b_in)


@triton.jit
def _choose(b_inner, b_held, b_last, TRUNCATE: tl.constexpr):
    """The stencil of an inner action, or of the last one; 0 for the last one if truncated."""
    if TRUNCATE:
        b_held = tl.zeros_like(b_held)
    return tl.where(b_last, b_held, b_inner)
