"""Numbers as pairs of float32, high and low: sums and products that keep twice the digits without float64.

On GPUs that compute float64 at 1/64 of the rate of float32 this is faster than float64; on those with half the rate it
is not. Every function takes `PAIRS`; without it the low parts are ignored, and the high ones may have any dtype. The
error-free transformations (Knuth's sum, and the rest of a product by one fused multiply-add) hold only as written:
kernels that use them with `PAIRS` are compiled without contraction to further ones.
"""

import triton
import triton.language as tl


@triton.jit
def add(b_high, b_low, b_other, b_other_low, PAIRS: tl.constexpr):
    """The sum of two numbers."""
    if PAIRS:
        b_high, b_low = combine(b_high, b_low, b_other, b_other_low)
    else:
        b_high = b_high + b_other
    return b_high, b_low


@triton.jit
def multiply(b_high, b_low, b_other, b_other_low, PAIRS: tl.constexpr):
    """The product of two numbers."""
    b_product = b_high * b_other
    if PAIRS:
        b_rest = tl.fma(b_high, b_other, -b_product)
        b_low = tl.fma(b_high, b_other_low, tl.fma(b_low, b_other, b_rest))
    return b_product, b_low


@triton.jit
def running_sum(b_high, b_low, PAIRS: tl.constexpr):
    """Sums along the first dimension up to each row."""
    if PAIRS:
        b_high, b_low = tl.associative_scan((b_high, b_low), 0, combine)
    else:
        b_high = tl.cumsum(b_high, 0)
    return b_high, b_low


@triton.jit
def last_row(b_high, b_low, ROWS: tl.constexpr, PAIRS: tl.constexpr):
    """The last of `ROWS` rows: what running sums carry on to the next block, without adding it up again."""
    b_is_last = (tl.arange(0, ROWS) == ROWS - 1)[:, None]
    b_high = tl.sum(tl.where(b_is_last, b_high, 0.0), 0)
    if PAIRS:
        b_low = tl.sum(tl.where(b_is_last, b_low, 0.0), 0)
    else:
        b_low = tl.zeros_like(b_high)
    return b_high, b_low


@triton.jit
def rounded(b_high, b_low, PAIRS: tl.constexpr):
    """The pair as one number; the low part of a sum is the rounding error of the high one and may be large."""
    if PAIRS:
        b_high = b_high + b_low
    return b_high


@triton.jit
def combine(b_high, b_low, b_other, b_other_low):
    """The sum of two pairs."""
    b_sum = b_high + b_other
    b_seen = b_sum - b_high
    b_rest = (b_high - (b_sum - b_seen)) + (b_other - b_seen)
    return b_sum, b_rest + (b_low + b_other_low)
