"""The adjoint of differences over dt: the gradients of an output from those of its derivatives (`chain`)."""

import triton
import triton.language as tl

from .device import load, load_dt
from .pairs import product, reciprocal, second_difference, third_difference, two_difference, two_sum


@triton.jit
def uniform_adjoint(p_x, p_x1, p_x2, p_x3, b_at, b_h, Ha, D: tl.constexpr, b_rate, b_in, WIDE: tl.constexpr):
    """Return the gradient of an output, from row 1 on, including those of its differences of each order over dt."""
    b_grad = _row(p_x, 0, b_at, b_h, Ha, D, b_in, WIDE)
    if p_x1 is not None:
        b_grad += (_row(p_x1, 0, b_at, b_h, Ha, D, b_in, WIDE) - _row(p_x1, 1, b_at, b_h, Ha, D, b_in, WIDE)) * b_rate
    if p_x2 is not None:
        b_g1, b_g2 = _row(p_x2, 1, b_at, b_h, Ha, D, b_in, WIDE), _row(p_x2, 2, b_at, b_h, Ha, D, b_in, WIDE)
        b_second, b_lo = second_difference(_row(p_x2, 0, b_at, b_h, Ha, D, b_in, WIDE), b_g1, b_g2)
        b_grad += (b_second + b_lo) * (b_rate * b_rate)
    if p_x3 is not None:
        b_g0, b_g1 = _row(p_x3, 0, b_at, b_h, Ha, D, b_in, WIDE), _row(p_x3, 1, b_at, b_h, Ha, D, b_in, WIDE)
        b_g2 = _row(p_x3, 2, b_at, b_h, Ha, D, b_in, WIDE)
        b_third, b_lo = third_difference(b_g0, b_g1, b_g2, _row(p_x3, 3, b_at, b_h, Ha, D, b_in, WIDE))
        b_grad += (b_third + b_lo) * (b_rate * b_rate * b_rate)
    return b_grad


@triton.jit
def adjoint(
    p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_h, b_dt, Ha, D: tl.constexpr, b_in, UNIFORM: tl.constexpr, WIDE: tl.constexpr
):
    """Return the gradients of an output and of its first two derivatives, for steps of any length.

    Each derivative is a difference of the output below it, to which it passes on a part of its own gradient, from the
    third derivative down. The gradient of the second derivative is complete in row 0 only.
    """
    b_r0, b_r0_lo = rate_of(p_dt, b_h, Ha, UNIFORM, WIDE)
    b_r1, b_r1_lo = rate_of(p_dt, b_h + 1, Ha, UNIFORM, WIDE)
    b_a0 = _row(p_x2, 0, b_at, b_h, Ha, D, b_in, WIDE)
    b_v0, b_v1 = _row(p_x1, 0, b_at, b_h, Ha, D, b_in, WIDE), _row(p_x1, 1, b_at, b_h, Ha, D, b_in, WIDE)
    b_a0_lo = tl.zeros_like(b_a0)
    b_v0_lo, b_v1_lo, b_second = b_a0_lo, b_a0_lo, b_a0
    if p_x2 is not None or p_x3 is not None:
        b_r2, b_r2_lo = rate_of(p_dt, b_h + 2, Ha, UNIFORM, WIDE)
        b_a1, b_a2 = _row(p_x2, 1, b_at, b_h, Ha, D, b_in, WIDE), _row(p_x2, 2, b_at, b_h, Ha, D, b_in, WIDE)
        b_a1_lo, b_a2_lo = b_a0_lo, b_a0_lo
        if p_x3 is not None:
            b_r3, b_r3_lo = rate_of(p_dt, b_h + 3, Ha, UNIFORM, WIDE)
            b_w0, b_lo0 = product(_row(p_x3, 0, b_at, b_h, Ha, D, b_in, WIDE), None, b_r0, b_r0_lo)
            b_w1, b_lo1 = product(_row(p_x3, 1, b_at, b_h, Ha, D, b_in, WIDE), None, b_r1, b_r1_lo)
            b_w2, b_lo2 = product(_row(p_x3, 2, b_at, b_h, Ha, D, b_in, WIDE), None, b_r2, b_r2_lo)
            b_w3, b_lo3 = product(_row(p_x3, 3, b_at, b_h, Ha, D, b_in, WIDE), None, b_r3, b_r3_lo)
            b_a0, b_a0_lo = _passed_on(b_a0, b_w0, b_lo0, b_w1, b_lo1)
            b_a1, b_a1_lo = _passed_on(b_a1, b_w1, b_lo1, b_w2, b_lo2)
            b_a2, b_a2_lo = _passed_on(b_a2, b_w2, b_lo2, b_w3, b_lo3)
        b_w0, b_lo0 = product(b_a0, b_a0_lo, b_r0, b_r0_lo)
        b_w1, b_lo1 = product(b_a1, b_a1_lo, b_r1, b_r1_lo)
        b_w2, b_lo2 = product(b_a2, b_a2_lo, b_r2, b_r2_lo)
        b_v0, b_v0_lo = _passed_on(b_v0, b_w0, b_lo0, b_w1, b_lo1)
        b_v1, b_v1_lo = _passed_on(b_v1, b_w1, b_lo1, b_w2, b_lo2)
        # The arc before the start: a0 has an effect on the velocity that the first difference continues, too.
        b_second = b_a0 + b_a0_lo + 0.5 * b_dt * b_w1
    b_grad = load(p_x, b_at, b_in, WIDE)
    if (p_x1 is not None or p_x2 is not None) or p_x3 is not None:
        b_w0, b_lo0 = product(b_v0, b_v0_lo, b_r0, b_r0_lo)
        b_w1, b_lo1 = product(b_v1, b_v1_lo, b_r1, b_r1_lo)
        b_grad, b_lo = _passed_on(b_grad, b_w0, b_lo0, b_w1, b_lo1)
        b_grad += b_lo
    return b_grad, b_v0 + b_v0_lo, b_second


@triton.jit
def rate_of(p_dt, b_h, Ha, UNIFORM: tl.constexpr, WIDE: tl.constexpr):
    """Return 1 / dt of rows, and its rounding error; 0 outside of rows 1 to Ha - 1."""
    b_there = (b_h > 0) & (b_h < Ha)
    b_dt, b_dt_lo = load_dt(p_dt, 0 if UNIFORM else b_h, True if UNIFORM else b_there, WIDE)
    b_rate, b_rate_lo = reciprocal(b_dt, b_dt_lo)
    if not WIDE:
        b_rate_lo = tl.where(b_there, b_rate_lo, 0.0)
    return tl.where(b_there, b_rate, 0.0), b_rate_lo


@triton.jit
def _row(p_values, k: tl.constexpr, b_at, b_h, Ha, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """Return values k rows later; 0 beyond the horizon."""
    return load(p_values, b_at + k * D, b_in & (b_h + k < Ha), WIDE)


@triton.jit
def _passed_on(b_own, b_in0, b_in0_lo, b_in1, b_in1_lo):
    """Return a gradient plus what the differences of its row and of the next row pass on, and the rounding error."""
    b_difference, b_lo = two_difference(b_in0, b_in1)
    b_sum, b_sum_lo = two_sum(b_own, b_difference)
    if b_sum.dtype != tl.float64:
        b_sum_lo += b_lo + (b_in0_lo - b_in1_lo)
    return b_sum, b_sum_lo
