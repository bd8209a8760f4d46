"""Device functions that all kernels share: the address of an element, its start state and its step length.

A tensor `[R, H, D]` is traversed as a flat array, one element for each thread and access, so that neighbouring threads
access neighbouring elements for any alignment of the rows (a dof of 7 rules out wider accesses). Its length may exceed
2^31: the index of a program's first element is an int64 scalar, and only the offset from it is an int32 vector.

Kernels do not specialize on the alignment of pointers: if the compiler knew of it, it would give each thread four
neighbours of a long vector, and unaligned rows would then cost four times the transactions. All loads of a program come
before its first store, since the compiler may not move one past the other.
"""

import triton
import triton.language as tl


@triton.jit
def flat_places(i_program, n_rows, size, n_magic, SHORT: tl.constexpr, LANES: tl.constexpr):
    """First element (int64) of a program on `[n_rows, size]` and its row, then row and place in it of each lane, mask.

    Rows of the lanes count from the first. One division for a program; the lanes divide by `n_magic` (see
    `launch.flat_division`), or not at all where a row is longer than a program.
    """
    b_lane = tl.arange(0, LANES)
    i_first = i_program.to(tl.int64) * LANES
    i_row = i_first // size
    b_flat = (i_first - i_row * size).to(tl.int32) + b_lane
    if SHORT:
        SHIFT: tl.constexpr = 21
        b_row = ((b_flat.to(tl.uint32) * n_magic.to(tl.uint32)) >> SHIFT).to(tl.int32)
    else:
        b_row = (b_flat >= size).to(tl.int32)
    n_left = tl.minimum(n_rows.to(tl.int64) * size - i_first, LANES).to(tl.int32)
    return i_first, i_row, b_row, b_flat - b_row * size, b_lane < n_left


@triton.jit
def split(i_first, b_lane, size):
    """Rows and places in the row of the elements `i_first + b_lane` (int64 scalar, int32 vector) of `[*, size]`."""
    i_row = i_first // size
    b_flat = (i_first - i_row * size).to(tl.int32) + b_lane
    b_row = b_flat // size
    return i_row, b_row, b_flat - b_row * size


@triton.jit
def load_gradient(p_gradient, b_offset, b_mask, DTYPE: tl.constexpr):
    """An upstream gradient in the dtype of the arithmetic; 0 outside of the mask."""
    return tl.load(p_gradient + b_offset, mask=b_mask, other=0).to(DTYPE)


@triton.jit
def load_start(p_start, n_rows, b_row, b_column, width, b_mask, INDEXED: tl.constexpr):
    """Start values in float64: 0 if the pool is None, its only row for all, NaN if the row is not in the pool."""
    if p_start is None:
        b_value = tl.zeros_like(b_column).to(tl.float64)
    else:
        if not INDEXED:
            b_row = tl.where(n_rows > 1, b_row, 0)
        b_found = b_mask & (b_row >= 0) & (b_row < n_rows)
        b_value = tl.load(p_start + b_row * width + b_column, mask=b_found, other=float("nan")).to(tl.float64)
    return b_value


@triton.jit
def reciprocal(b_dt, DTYPE: tl.constexpr):
    """1 / dt, rounded to nearest."""
    if DTYPE == tl.float32:
        b_result = tl.div_rn(1.0, b_dt.to(tl.float32))
    else:
        b_result = 1.0 / b_dt.to(tl.float64)
    return b_result


@triton.jit
def reciprocal_double(b_dt, EXACT: tl.constexpr):
    """1 / dt in float64; where not `EXACT`, to 1e-13 by one Newton step: float64 division is slow on small devices."""
    b_dt = b_dt.to(tl.float64)
    if EXACT:
        b_result = 1.0 / b_dt
    else:
        b_guess = (1.0 / b_dt.to(tl.float32)).to(tl.float64)
        b_result = b_guess * (2.0 - b_dt * b_guess)
    return b_result


@triton.jit
def load_steps(p_dt, n_dt, i_trajectory, b_h, b_mask, DT_PER_TRAJECTORY: tl.constexpr, DT_PER_STEP: tl.constexpr):
    """Step lengths of the rows `b_h` of one trajectory; 1 outside of the mask."""
    if DT_PER_TRAJECTORY:
        p_dt += i_trajectory * n_dt
    if DT_PER_STEP:
        b_dt = tl.load(p_dt + b_h, mask=b_mask, other=1)
    else:
        b_dt = tl.broadcast_to(tl.load(p_dt), b_h.shape)
    return b_dt


@triton.jit
def start_row(p_idx, i_trajectory):
    """Row of the start pool of one trajectory."""
    if p_idx is None:
        i_row = i_trajectory
    else:
        i_row = tl.load(p_idx + i_trajectory).to(tl.int64)
    return i_row


@triton.jit
def narrow(b_value, p_target):
    """Convert a float64 value to the dtype of memory; half types are converted through float32."""
    if p_target.dtype.element_ty != tl.float64:
        b_value = b_value.to(tl.float32)
    return b_value


@triton.jit
def difference(b_x, b_y):
    """X - y, and its rounding error.

    Neighbours of one sign subtract exactly; where a motion passes through 0, the rounding error matters in third
    differences.
    """
    b_difference = b_x - b_y
    b_y_seen = b_x - b_difference
    b_x_seen = b_difference + b_y_seen
    return b_difference, (b_x - b_x_seen) - (b_y - b_y_seen)


@triton.jit
def add_carry(b_high, b_low, b_local):
    """Running sums of a block of rows, added to the carry of the previous blocks."""
    return b_high[None, :] + (b_low[None, :] + b_local)


@triton.jit
def advance_carry(b_high, b_low, b_sum):
    """The carry of a running sum after one more block: two numbers, the second being the rounding error of the first.

    Sums within a block are a tree over few rows, so that float32 loses only some units in the last place; the error of
    the sum over all blocks would grow with time, and is compensated.
    """
    b_total = b_high + b_sum
    b_sum_seen = b_total - b_high
    b_rest = (b_high - (b_total - b_sum_seen)) + (b_sum - b_sum_seen)
    return b_total, b_low + b_rest
