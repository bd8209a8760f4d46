"""Gradients of the start pools: the sum over the trajectories that start from a row, always in the same order.

    grad start[s] = sum over b with start_index[b] == s of row[b]

The transpose kernels put one row for each trajectory. Where that is not yet the answer, one program for each row of the
pool and part of the batch adds the rows that belong to it; a second launch adds the parts. No atomics: equal inputs
give equal bits.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from .addressing import narrow
from .launch import contiguous, run

_TILE_ELEMENTS = 2048
_ROWS_PER_PART = 512
_PROGRAMS_WANTED = 1024


class StartGradients:
    """Where a transpose kernel writes start rows, and the pool gradients that come of them.

    `needs` and `start_rows` are for each start state (position, velocity, ...); `start_rows` may be one number for all.
    """

    def __init__(
        self,
        needs: Sequence[bool],
        start_rows: int | Sequence[int],
        start_index: Tensor | None,
        batch: int,
        dof: int,
        like: Tensor,
    ) -> None:
        pools = [start_rows] * len(needs) if isinstance(start_rows, int) else list(start_rows)
        if len(pools) != len(needs):
            raise ValueError(f"start_rows: expected one number or {len(needs)}, got {len(pools)}")
        for rows in pools:
            if start_index is None and rows not in (1, batch):
                raise ValueError(f"start_rows: expected 1 or {batch} without start_index, got {rows}")
        self._pools, self._batch, self._dof, self._like = pools, batch, dof, like
        self._start_index = contiguous(start_index)
        self._rows = [self._empty(rows) if needed else None for rows, needed in zip(pools, needs, strict=True)]

    def arguments(self, names: str) -> dict[str, Tensor | None]:
        """Kernel arguments `p_grad_<name>0`: `[B, D]` each, None if not needed."""
        return {f"p_grad_{name}0": rows for name, rows in zip(names, self._rows, strict=True)}

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Return the gradients `[S, D]` once the rows are written."""
        return tuple(
            rows if rows is None or self._is_pool(pool) else self._reduce(rows, pool)
            for rows, pool in zip(self._rows, self._pools, strict=True)
        )

    def _is_pool(self, pool: int) -> bool:
        return self._start_index is None and pool == self._batch

    def _empty(self, pool: int) -> Tensor:
        sums = torch.float64 if self._like.dtype == torch.float64 else torch.float32
        dtype = self._like.dtype if self._is_pool(pool) else sums
        return torch.empty(self._batch, self._dof, dtype=dtype, device=self._like.device)

    def _reduce(self, rows: Tensor, pool: int) -> Tensor:
        result = torch.empty(pool, self._dof, dtype=self._like.dtype, device=rows.device)
        columns = min(1 << max(self._dof - 1, 0).bit_length(), 64)
        column_programs = -(-self._dof // columns)
        wanted = -(-_PROGRAMS_WANTED // max(pool * column_programs, 1))
        parts = max(min(-(-self._batch // _ROWS_PER_PART), wanted), 1)
        if parts == 1:
            _sum_rows(rows, self._start_index, result, pool, 1)
        else:
            partial = torch.empty(parts, pool * self._dof, dtype=rows.dtype, device=rows.device)
            _sum_rows(rows, self._start_index, partial, pool, parts)
            _sum_rows(partial, None, result, 1, 1)
        return result


def _sum_rows(rows: Tensor, start_index: Tensor | None, result: Tensor, pool: int, parts: int) -> None:
    """Sum `rows [N, W]` to `result [parts, pool, W]` (`result` contiguous, of whatever shape)."""
    batch, width = rows.shape
    columns = min(1 << max(width - 1, 0).bit_length(), 64)
    column_programs = -(-width // columns)
    arguments = {
        "p_row": rows,
        "p_idx": start_index,
        "p_sum": result,
        "n_batch": batch,
        "n_pool": pool,
        "width": width,
        "n_per_part": -(-batch // parts),
        "n_column_programs": column_programs,
        "ROWS": _TILE_ELEMENTS // columns,
        "COLUMNS": columns,
    }
    run(start_rows_sum_kernel, parts * pool * column_programs, arguments, 4)


@triton.jit(do_not_specialize=["n_batch", "n_pool", "width", "n_per_part", "n_column_programs"])
def start_rows_sum_kernel(
    p_row,
    p_idx,
    p_sum,
    n_batch,
    n_pool,
    width,
    n_per_part,
    n_column_programs,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Sum of the rows of one part that start from one row of the pool, a block of columns at a time, in float64."""
    i_column, i_rest = tl.program_id(0) % n_column_programs, tl.program_id(0) // n_column_programs
    i_pool, i_part = i_rest % n_pool, i_rest // n_pool
    b_column = i_column * COLUMNS + tl.arange(0, COLUMNS)
    b_lane = tl.arange(0, ROWS)
    i_begin = i_part * n_per_part
    i_end = tl.minimum(i_begin + n_per_part, n_batch)
    b_sum = tl.zeros([ROWS, COLUMNS], tl.float64)
    for i_first in range(i_begin, i_end, ROWS):
        b_row = i_first + b_lane
        b_mine = b_row < i_end
        if p_idx is not None:
            b_mine &= tl.load(p_idx + b_row, mask=b_mine, other=-1) == i_pool
        b_at = b_row.to(tl.int64)[:, None] * width + b_column[None, :]
        b_sum += tl.load(p_row + b_at, mask=b_mine[:, None] & (b_column < width)[None, :], other=0).to(tl.float64)
    p_result = p_sum + (i_part.to(tl.int64) * n_pool + i_pool) * width
    tl.store(p_result + b_column, narrow(tl.sum(b_sum, 0), p_sum), mask=b_column < width)
