"""What all kernels consist of: the places of a program's lanes, and loads and stores of them.

Tensors `[B, rows, D]` are flat arrays, and neighbouring lanes take neighbouring elements whatever the alignment of the
rows. Offsets are int64, because an array may have more than 2^31 elements.
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
def places(n_batch, n_rows, D, LANES: tl.constexpr):
    """Trajectory (int64), row and column of each lane on `[n_batch, n_rows, D]`, and whether it has an element."""
    i_first = tl.program_id(0).to(tl.int64) * LANES
    size = n_rows * D
    i_batch = i_first // size
    b_flat = (i_first - i_batch * size).to(tl.int32) + tl.arange(0, LANES)
    b_ahead = b_flat // size
    b_place = b_flat - b_ahead * size
    b_batch = i_batch + b_ahead
    b_row = b_place // D
    return b_batch, b_row, b_place - b_row * D, b_batch < n_batch


@triton.jit
def load_dt(p_dt, n_dt_batch, n_dt_row, b_batch, b_row, b_mask):
    """Step lengths, whose strides are 0 where one is for all; 1 outside of the mask."""
    return tl.load(p_dt + b_batch * n_dt_batch + b_row * n_dt_row, mask=b_mask, other=1).to(tl.float64)


@triton.jit
def load_gradient(p_gradient, b_at, b_mask):
    """Upstream gradients; 0 where there are none, and outside of the mask."""
    if p_gradient is None:
        b_value = tl.zeros_like(b_at).to(tl.float64)
    else:
        b_value = tl.load(p_gradient + b_at, mask=b_mask, other=0).to(tl.float64)
    return b_value


@triton.jit
def state_row(p_index, n_rows, b_batch, b_mask):
    """Rows of the start or goal of trajectories."""
    if p_index is None:
        b_row = tl.where(n_rows > 1, b_batch, 0)
    else:
        b_row = tl.load(p_index + b_batch, mask=b_mask, other=0).to(tl.int64)
    return b_row


@triton.jit
def load_state(p_rows, n_rows, b_row, b_column, D, b_mask):
    """Values of start or goal; 0 where there are none, NaN outside of the pool."""
    if p_rows is None:
        b_value = tl.zeros_like(b_column).to(tl.float64)
    else:
        b_found = b_mask & (b_row >= 0) & (b_row < n_rows)
        b_value = tl.load(p_rows + b_row * D + b_column, mask=b_found, other=float("nan")).to(tl.float64)
    return b_value


@triton.jit
def put(p_target, b_at, b_value, b_mask):
    """Store values in the dtype of memory, half types by way of float32; nothing where no target is given."""
    if p_target is not None:
        if p_target.dtype.element_ty != tl.float64:
            b_value = b_value.to(tl.float32)
        tl.store(p_target + b_at, b_value, mask=b_mask)
