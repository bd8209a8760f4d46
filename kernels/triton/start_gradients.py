"""Gradients of the start pools: the sum over the trajectories that start from a row, always in the same order.

    grad start[s] = sum over b with start_index[b] == s of row[b]

The vjp kernels write one row for each trajectory. Where trajectories share start rows, one kernel then sums the rows of
all starts: one program for each row of the pool and each part of its trajectories; a second launch adds the parts. A
program finds its trajectories by reading the whole index if pool and batch are small, and otherwise in the sorted
index: the work is then proportional to the batch, not to pool times batch. There are no atomics, so equal inputs give
results that are equal to the last bit.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .addressing import advance_carry
from .launch import contiguous, output, run

_TILE_ELEMENTS = 1024
_ROWS_PER_PART = 512
_PROGRAMS_WANTED = 1024
# Pool times batch up to which reading the index for each row takes less time than the launches of a sort.
MOST_SCANNED = 1 << 20
_MOST_STARTS = 4


class StartGradients:
    """Where a vjp kernel writes start rows, and the pool gradients that are computed from them.

    `needs` says for each start state (position, velocity, ...) whether its gradient is wanted, `[start_rows, dof]`, and
    `out` where to.
    """

    def __init__(
        self,
        needs: Sequence[bool],
        start_rows: int,
        start_index: Tensor | None,
        batch: int,
        dof: int,
        like: Tensor,
        out: Sequence[Tensor | None] | None = None,
    ) -> None:
        if start_index is None and start_rows not in (1, batch):
            raise ValueError(f"start_rows: expected 1 or {batch} without start_index, got {start_rows}")
        self._pool, self._batch, self._dof, self._like = start_rows, batch, dof, like
        self._start_index = contiguous(start_index)
        self._are_answer = start_index is None and start_rows == batch
        self._out = list(out) if out is not None else [None] * len(needs)
        if self._are_answer:
            self._rows = self._results(needs)
        else:
            self._rows = [self._empty(batch) if needed else None for needed in needs]

    def arguments(self, names: str) -> dict[str, Tensor | None]:
        """Kernel arguments `p_grad_<name>0`: `[B, D]` each, None if not needed."""
        return {f"p_grad_{name}0": rows for name, rows in zip(names, self._rows, strict=True)}

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Return the gradients `[S, D]` once the rows are written."""
        if self._are_answer or not any(rows is not None for rows in self._rows):
            return tuple(self._rows)
        results = self._results([rows is not None for rows in self._rows])
        _, column_programs = _columns(self._dof)
        wanted = -(-_PROGRAMS_WANTED // max(self._pool * column_programs, 1))
        parts = max(min(-(-self._batch // _ROWS_PER_PART), wanted), 1)
        if parts == 1:
            self._sum_to(results, 1)
        else:
            partial = [None if rows is None else self._empty(parts * self._pool) for rows in self._rows]
            self._sum_to(partial, parts)
            flat = [None if rows is None else rows.view(parts, -1) for rows in partial]
            sum_rows(flat, results, pool=1)
        return tuple(results)

    def _sum_to(self, results: Sequence[Tensor | None], parts: int) -> None:
        index, order, offset = self._start_index, None, None
        if index is not None and self._pool * self._batch > MOST_SCANNED:
            found = torch.sort(index, stable=True)
            index, order = None, found.indices
            bounds = torch.arange(self._pool + 1, dtype=found.values.dtype, device=order.device)
            offset = torch.searchsorted(found.values, bounds)
        sum_rows(self._rows, results, self._pool, parts, index, order, offset)

    def _results(self, needs: Sequence[bool]) -> list[Tensor | None]:
        shape = (self._pool, self._dof)
        return [
            output(out, shape, self._like, f"start_out[{i}]") if needed else None
            for i, (needed, out) in enumerate(zip(needs, self._out, strict=True))
        ]

    def _empty(self, rows: int) -> Tensor:
        """Memory for rows that are still to be summed."""
        dtype = torch.float64 if self._like.dtype == torch.float64 else torch.float32
        return torch.empty(rows, self._dof, dtype=dtype, device=self._like.device)


def sum_rows(
    rows: Sequence[Tensor | None],
    results: Sequence[Tensor | None],
    pool: int,
    parts: int = 1,
    start_index: Tensor | None = None,
    order: Tensor | None = None,
    offset: Tensor | None = None,
) -> None:
    """Sum each of `rows [N, W]` to its result `[parts, pool, W]`, contiguous and of any shape of that size.

    The rows that belong to row s of the pool are given by `start_index`, or by `order` from `offset[s]` to `offset[s +
    1]`; if neither is given, all rows do.
    """
    batch, width = next(tensor.shape for tensor in rows if tensor is not None)
    columns, column_programs = _columns(width)
    absent = [None] * (_MOST_STARTS - len(rows))
    arguments = {
        **{f"p_row{i}": tensor for i, tensor in enumerate([*rows, *absent])},
        **{f"p_sum{i}": tensor for i, tensor in enumerate([*results, *absent])},
        "p_idx": start_index,
        "p_order": order,
        "p_offset": offset,
        "n_batch": batch,
        "n_pool": pool,
        "width": width,
        "n_parts": parts,
        "n_column_programs": column_programs,
        "ROWS": _TILE_ELEMENTS // columns,
        "COLUMNS": columns,
    }
    run(start_rows_sum_kernel, parts * pool * column_programs, arguments, 4)


def _columns(width: int) -> tuple[int, int]:
    """Columns of a program, and programs side by side."""
    columns = min(1 << max(width - 1, 0).bit_length(), 64)
    return columns, -(-width // columns)


@triton.jit(
    do_not_specialize=["n_batch", "n_pool", "width", "n_parts", "n_column_programs"],
    do_not_specialize_on_alignment=[
        *("p_row0", "p_row1", "p_row2", "p_row3", "p_sum0", "p_sum1", "p_sum2", "p_sum3"),
        *("p_idx", "p_order", "p_offset"),
    ],
)
def start_rows_sum_kernel(
    p_row0,
    p_row1,
    p_row2,
    p_row3,
    p_sum0,
    p_sum1,
    p_sum2,
    p_sum3,
    p_idx,
    p_order,
    p_offset,
    n_batch,
    n_pool,
    width,
    n_parts,
    n_column_programs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sums of the rows of one part that start from one row of the pool, a block of columns at a time."""
    i_column, i_rest = tl.program_id(0) % n_column_programs, tl.program_id(0) // n_column_programs
    i_pool, i_part = i_rest % n_pool, i_rest // n_pool
    b_column = i_column * COLUMNS + tl.arange(0, COLUMNS)
    i_first = 0
    i_last = n_batch
    if p_offset is not None:
        i_first = tl.load(p_offset + i_pool).to(tl.int32)
        i_last = tl.load(p_offset + i_pool + 1).to(tl.int32)
    n_rows = (i_last - i_first).to(tl.int64)
    i_begin = i_first + (n_rows * i_part // n_parts).to(tl.int32)
    i_end = i_first + (n_rows * (i_part + 1) // n_parts).to(tl.int32)
    i_result = (i_part.to(tl.int64) * n_pool + i_pool) * width
    _sum_one(p_row0, p_sum0, p_idx, p_order, i_begin, i_end, i_pool, b_column, i_result, width, ROWS, COLUMNS)
    _sum_one(p_row1, p_sum1, p_idx, p_order, i_begin, i_end, i_pool, b_column, i_result, width, ROWS, COLUMNS)
    _sum_one(p_row2, p_sum2, p_idx, p_order, i_begin, i_end, i_pool, b_column, i_result, width, ROWS, COLUMNS)
    _sum_one(p_row3, p_sum3, p_idx, p_order, i_begin, i_end, i_pool, b_column, i_result, width, ROWS, COLUMNS)


@triton.jit
def _sum_one(
    p_row,
    p_sum,
    p_idx,
    p_order,
    i_begin,
    i_end,
    i_pool,
    b_column,
    i_result,
    width,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sum for one start; each thread compensates its own rounding errors."""
    if p_row is not None:
        DTYPE: tl.constexpr = p_row.dtype.element_ty
        b_high = tl.zeros([ROWS, COLUMNS], DTYPE)
        b_low = tl.zeros([ROWS, COLUMNS], DTYPE)
        for i_first in range(i_begin, i_end, ROWS):
            b_row = i_first + tl.arange(0, ROWS)
            b_mine = b_row < i_end
            if p_order is not None:
                b_row = tl.load(p_order + b_row, mask=b_mine, other=0).to(tl.int32)
            if p_idx is not None:
                b_mine &= tl.load(p_idx + b_row, mask=b_mine, other=-1) == i_pool
            b_at = b_row.to(tl.int64)[:, None] * width + b_column[None, :]
            b_value = tl.load(p_row + b_at, mask=b_mine[:, None] & (b_column < width)[None, :], other=0)
            b_high, b_low = advance_carry(b_high, b_low, b_value)
        tl.store(p_sum + i_result + b_column, tl.sum(b_high, 0) + tl.sum(b_low, 0), mask=b_column < width)
