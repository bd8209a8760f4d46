"""What all kernels consist of: places of lanes, loads and stores, and sums and products with their rounding errors.

Arithmetic is float64 for tensors of float64 and float32 for all others: GPUs of robots and desktops compute float64 at
a 64th of the rate. Differences of neighbouring positions leave few digits, so what float32 rounds off is kept beside
the value: names that end in `_lo` hold the rounding error of the value before them. Kernels are compiled without
contraction of products and sums, which would change such errors; where a fused operation is wanted it stands as
`tl.fma`.

Offsets within a trajectory are int32; those of trajectories are int64, because a tensor may have more than 2^31
elements.
"""

import inspect

import triton
import triton.language as tl


def jit_kernel(function):
    """Compile a kernel once for all sizes and alignments: sizes are numbers, pointers begin with `p_`.

    If the compiler knew of an alignment, it would give each thread four neighbours of a long vector, and unaligned rows
    would then cost four times the transactions.
    """
    names = [name for name, one in inspect.signature(function).parameters.items() if one.annotation is one.empty]
    sizes = [name for name in names if not name.startswith("p_")]
    pointers = [name for name in names if name.startswith("p_")]
    return triton.jit(function, do_not_specialize=sizes, do_not_specialize_on_alignment=pointers)


@triton.jit
def two_sum(b_x, b_y):
    """Sum and its rounding error (Knuth)."""
    b_sum = b_x + b_y
    b_part = b_sum - b_x
    return b_sum, (b_x - (b_sum - b_part)) + (b_y - b_part)


@triton.jit
def two_product(b_x, b_y):
    """Product and its rounding error."""
    b_product = b_x * b_y
    return b_product, tl.fma(b_x, b_y, -b_product)


@triton.jit
def product(b_x, b_x_lo, b_y, b_y_lo):
    """Product of two numbers with their rounding errors, and its own."""
    b_product, b_lo = two_product(b_x, b_y)
    return b_product, b_lo + tl.fma(b_x, b_y_lo, b_x_lo * b_y)


@triton.jit
def second_difference(b_x0, b_x1, b_x2):
    """The number x0 - 2 x1 + x2, and its rounding error: the difference of near numbers is exact."""
    b_sum, b_lo = two_sum(b_x0, b_x2)
    return b_sum - 2.0 * b_x1, b_lo


@triton.jit
def third_difference(b_x0, b_x1, b_x2, b_x3):
    """The number x0 - 3 x1 + 3 x2 - x3, and its rounding error."""
    b_second, b_lo = second_difference(b_x0, b_x1, b_x2)
    b_before, b_before_lo = second_difference(b_x1, b_x2, b_x3)
    return b_second - b_before, b_lo - b_before_lo


@triton.jit
def load(p_values, b_at, b_mask, WIDE: tl.constexpr):
    """Values in the dtype of arithmetic; 0 where no tensor is given, and outside of the mask."""
    if p_values is None:
        b_value = tl.zeros_like(b_at).to(tl.float64 if WIDE else tl.float32)
    else:
        b_value = tl.load(p_values + b_at, mask=b_mask, other=0).to(tl.float64 if WIDE else tl.float32)
    return b_value


@triton.jit
def put(p_target, b_at, b_value, b_mask):
    """Store values in the dtype of memory; nothing where no target is given."""
    if p_target is not None:
        tl.store(p_target + b_at, b_value, mask=b_mask)


@triton.jit
def load_dt(p_dt, b_at, b_mask, WIDE: tl.constexpr):
    """Step lengths and what is missing to their float64; 1 outside of the mask.

    The words of a float64 are taken apart as integers, since converting them has the rate of float64.
    """
    if WIDE:
        b_dt = tl.load(p_dt + b_at, mask=b_mask, other=1).to(tl.float64)
        b_lo = tl.zeros_like(b_dt)
    elif p_dt.dtype.element_ty == tl.float64:
        p_bits = p_dt.to(tl.pointer_type(tl.int64), bitcast=True)
        b_bits = tl.load(p_bits + b_at, mask=b_mask, other=1023 << 52)
        # The first 23 bits of the fraction, and the exponent with the bias of float32.
        b_high = ((b_bits >> 29) - ((1023 - 127) << 23)).to(tl.int32)
        b_dt = b_high.to(tl.float32, bitcast=True)
        b_unit = ((b_high & 0x7F800000) - (52 << 23)).to(tl.float32, bitcast=True)
        b_lo = (b_bits & 0x1FFFFFFF).to(tl.int32).to(tl.float32) * b_unit
    else:
        b_dt = tl.load(p_dt + b_at, mask=b_mask, other=1).to(tl.float32)
        b_lo = tl.zeros_like(b_dt)
    return b_dt, b_lo


@triton.jit
def reciprocal(b_x, b_x_lo):
    """1 / x, and its rounding error."""
    b_rate = 1.0 / b_x
    b_missing = tl.fma(-b_x_lo, b_rate, tl.fma(-b_x, b_rate, 1.0))
    return two_sum(b_rate, b_rate * b_missing)


@triton.jit
def state_row(p_index, n_rows, b_trajectory, b_mask):
    """Rows of the start or goal of trajectories."""
    if p_index is None:
        b_row = tl.where(n_rows > 1, b_trajectory, 0)
    else:
        b_row = tl.load(p_index + b_trajectory, mask=b_mask, other=0).to(tl.int64)
    return b_row


@triton.jit
def load_state(p_rows, n_rows, b_row, b_column, D, b_mask, WIDE: tl.constexpr):
    """Values of start or goal; 0 where there are none, and outside of the mask; NaN outside of the pool."""
    b_value = load(p_rows, b_row * D + b_column, b_mask & (b_row >= 0) & (b_row < n_rows), WIDE)
    if p_rows is not None:
        b_value = tl.where(b_mask & ((b_row < 0) | (b_row >= n_rows)), float("nan"), b_value)
    return b_value


@triton.jit
def places(b_there, size, i_chunk, D: tl.constexpr, LANES: tl.constexpr):
    """Place in a trajectory of that size, row and column of each lane, and whether there is such an element.

    A chunk is the same part of some trajectories, so that all lanes of a program see the start, the end, or neither.
    """
    b_place = i_chunk * LANES + tl.arange(0, LANES)[None, :]
    b_row = b_place // D
    return b_place, b_row, b_place - b_row * D, b_there & (b_place < size)
