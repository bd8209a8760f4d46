"""Shared parts of all kernels: which element each lane computes, loads and stores.

Offsets within a trajectory are int32; those of trajectories are int64, because a tensor may have more than 2^31
elements.
"""

import inspect

import triton
import triton.language as tl

from .pairs import reciprocal


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
def load(p_values, b_at, b_mask, WIDE: tl.constexpr):
    """Load values in the dtype of arithmetic; they are 0 outside of the mask, and everywhere without a tensor."""
    if p_values is None:
        b_value = tl.zeros_like(b_at).to(tl.float64 if WIDE else tl.float32)
    else:
        b_value = tl.load(p_values + b_at, mask=b_mask, other=0).to(tl.float64 if WIDE else tl.float32)
    return b_value


@triton.jit
def put(p_target, b_at, b_value, b_mask):
    """Store values in the dtype of memory; no effect without a target."""
    if p_target is not None:
        tl.store(p_target + b_at, b_value, mask=b_mask)


@triton.jit
def load_dt(p_dt, b_at, b_mask, WIDE: tl.constexpr):
    """Return step lengths, and their difference from float64; 1 outside of the mask.

    A float64 is split with integer operations, since its conversion would have the rate of float64.
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
def state_row(p_index, n_rows, b_trajectory, b_mask):
    """Return the rows of the pool that have the start or goal of trajectories."""
    if p_index is None:
        b_row = tl.where(n_rows > 1, b_trajectory, 0)
    else:
        b_row = tl.load(p_index + b_trajectory, mask=b_mask, other=0).to(tl.int64)
    return b_row


@triton.jit
def load_state(p_rows, n_rows, b_row, b_column, D, b_mask, WIDE: tl.constexpr):
    """Return values of start or goal; 0 if there are none, and outside of the mask; NaN outside of the pool."""
    b_value = load(p_rows, b_row * D + b_column, b_mask & (b_row >= 0) & (b_row < n_rows), WIDE)
    if p_rows is not None:
        b_value = tl.where(b_mask & ((b_row < 0) | (b_row >= n_rows)), float("nan"), b_value)
    return b_value


@triton.jit
def row_offsets(D: tl.constexpr, ROWS: tl.constexpr):
    """Return the offsets of rows, as int64, so that a thread needs one address and constants."""
    return tl.arange(ROWS, 2 * ROWS)[:, None].to(tl.int64) * D - ROWS * D


@triton.jit
def trajectories(p_dt, n_batch, n_steps, SHARED_DT: tl.constexpr, WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr):
    """Return trajectories, whether they exist, the time of `n_steps` with its rounding error, and 1 / that time."""
    b_trajectory = tl.program_id(0).to(tl.int64) * TRAJECTORIES + tl.arange(0, TRAJECTORIES)[:, None]
    b_there = b_trajectory < n_batch
    b_dt, b_dt_lo = load_dt(p_dt, 0 if SHARED_DT else b_trajectory, True if SHARED_DT else b_there, WIDE)
    b_rate, _b_lo = reciprocal(b_dt * n_steps, b_dt_lo * n_steps)
    return b_trajectory, b_there, b_dt * n_steps, b_dt_lo * n_steps, b_rate


@triton.jit
def places(b_there, size, i_chunk, D: tl.constexpr, LANES: tl.constexpr):
    """Return each lane's place in a trajectory of that size, its row and column, and whether there is such an element.

    A chunk is the same part of some trajectories, so that all lanes of a program depend on the start, the end, or
    neither.
    """
    b_place = i_chunk * LANES + tl.arange(0, LANES)[None, :]
    b_row = b_place // D
    return b_place, b_row, b_place - b_row * D, b_there & (b_place < size)
