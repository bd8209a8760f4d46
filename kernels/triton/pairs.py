"""Sums and products with their rounding errors.

Arithmetic is float64 for tensors of float64 and float32 for all others: GPUs of robots and desktops compute float64 at
a 64th of the rate. Differences of neighbouring positions leave few digits, so what float32 rounds off is kept beside
the value: names that end in `_lo` hold the rounding error of the value before them. Kernels are compiled without
contraction of products and sums, which would change such errors; where a fused operation is wanted it stands as
`tl.fma`. Rounding errors of float64 are small enough, and count as 0.
"""

import triton
import triton.language as tl


@triton.jit
def two_sum(b_x, b_y):
    """Sum and its rounding error (Knuth)."""
    b_sum = b_x + b_y
    b_lo = tl.zeros_like(b_sum)
    if b_sum.dtype != tl.float64:
        b_part = b_sum - b_x
        b_lo = (b_x - (b_sum - b_part)) + (b_y - b_part)
    return b_sum, b_lo


@triton.jit
def two_difference(b_x, b_y):
    """Difference and its rounding error; unlike Triton's -x, which is 0 - x, nothing but x - y."""
    b_difference = b_x - b_y
    b_lo = tl.zeros_like(b_difference)
    if b_difference.dtype != tl.float64:
        b_part = b_difference - b_x
        b_lo = (b_x - (b_difference - b_part)) - (b_y + b_part)
    return b_difference, b_lo


@triton.jit
def two_product(b_x, b_y):
    """Product and its rounding error."""
    b_product = b_x * b_y
    b_lo = tl.zeros_like(b_product)
    if b_product.dtype != tl.float64:
        b_lo = tl.fma(b_x, b_y, b_product * -1.0)
    return b_product, b_lo


@triton.jit
def plus(b_x, b_x_lo, b_y, b_y_lo):
    """Sum of two numbers with their rounding errors, and its own; the second may have none."""
    b_sum, b_lo = two_sum(b_x, b_y)
    if b_sum.dtype != tl.float64:
        b_lo += b_x_lo
        if b_y_lo is not None:
            b_lo += b_y_lo
    return b_sum, b_lo


@triton.jit
def product(b_x, b_x_lo, b_y, b_y_lo):
    """Product of two numbers with their rounding errors, and its own; the first may have none."""
    b_product, b_lo = two_product(b_x, b_y)
    if b_product.dtype != tl.float64:
        if b_x_lo is not None:
            b_lo = tl.fma(b_x_lo, b_y, b_lo)
        b_lo = tl.fma(b_x, b_y_lo, b_lo)
    return b_product, b_lo


@triton.jit
def running_sum(b_before, b_before_lo, b_x, b_x_lo, ROWS: tl.constexpr, SPLIT: tl.constexpr):
    """A running sum in a block of rows, and after it with its rounding error.

    With SPLIT, the sum that is carried on loses nothing: rounding errors of the rows count, which may be 0, and bits
    above a bound are added up by themselves, as many as are exact. Without a finite bound, nothing is split.
    """
    b_sum = b_before + (tl.cumsum(b_x, 0) + b_before_lo)
    if SPLIT:
        b_bound = tl.max(tl.abs(b_x), 0)[None, :] * (2 * ROWS)
        b_bound = tl.where(b_bound < float("inf"), b_bound, 0.0)
        b_high = (b_x + b_bound) - b_bound
        b_low = (b_x - b_high) - (0.0 - b_x_lo)  # x - 0 costs nothing, x + 0 does: it makes a 0 of -0
        b_before_lo += tl.sum(b_low, 0)[None, :]
        b_x = b_high
    b_after, b_after_lo = plus(b_before, b_before_lo, tl.sum(b_x, 0)[None, :], None)
    return b_sum, b_after, b_after_lo


@triton.jit
def second_difference(b_x0, b_x1, b_x2):
    """The number x0 - 2 x1 + x2, and its rounding error: the difference of near numbers is exact."""
    b_sum, b_lo = two_sum(b_x0, b_x2)
    return tl.fma(b_x1, -2.0, b_sum), b_lo


@triton.jit
def third_difference(b_x0, b_x1, b_x2, b_x3):
    """The number x0 - 3 x1 + 3 x2 - x3, and its rounding error."""
    b_second, b_lo = second_difference(b_x0, b_x1, b_x2)
    b_before, b_before_lo = second_difference(b_x1, b_x2, b_x3)
    return b_second - b_before, b_lo - b_before_lo


@triton.jit
def reciprocal(b_x, b_x_lo):
    """1 / x, and its rounding error."""
    b_rate = 1.0 / b_x
    b_lo = b_x_lo
    if b_rate.dtype != tl.float64:
        b_missing = tl.fma(b_x_lo * -1.0, b_rate, tl.fma(b_x * -1.0, b_rate, 1.0))
        b_rate, b_lo = two_sum(b_rate, b_rate * b_missing)
    return b_rate, b_lo
