"""Gradients of the start pools: the sum over the trajectories that start from a row, always in the same order.

    grad start[s] = sum over b with start_index[b] == s of row[b]

The vjp kernels write one row for each trajectory. Where trajectories share start rows, torch sums them in float64.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..reference_backend import collect_rows
from ..types import VjpInputs
from .launch import output


class StartGradients:
    """Where a vjp kernel writes the rows of start (`end` 0) or goal (1), and the pool gradients computed from them.

    `out` has contiguous tensors for the gradients of `Inputs.values`, or None.
    """

    def __init__(self, inputs: VjpInputs, end: int, out: Sequence[Tensor | None] | None = None) -> None:
        of_end, name = slice(1 + 4 * end, 5 + 4 * end), ("start", "goal")[end]
        needs, index, start_rows, like = inputs.needs[of_end], inputs.indices[end], inputs.rows[end], inputs.like
        batch, _, dof = like.shape
        if any(needs) and index is None and start_rows not in (1, batch):
            raise ValueError(f"{name}_rows: expected 1 or {batch} without {name}_index, got {start_rows}")
        self._index = index
        self._results = [
            output(buffer, (start_rows, dof), like, f"out[{of_end.start + i}]") if needed else None
            for i, (needed, buffer) in enumerate(zip(needs, out[of_end] if out else [None] * 4, strict=True))
        ]
        self._rows = self._results
        if index is not None or start_rows != batch:
            dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
            rows = (torch.empty(batch, dof, dtype=dtype, device=like.device) if needed else None for needed in needs)
            self._rows = list(rows)

    def arguments(self, names: str, pattern: str = "p_grad_{}0") -> dict[str, Tensor | None]:
        """Kernel arguments, named after each letter of `names`: `[B, D]` each, None if not needed."""
        return {pattern.format(name): rows for name, rows in zip(names, self._rows, strict=False)}

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Return the gradients `[S, D]` once the rows are written."""
        index, inside = self._index, None
        for rows, result in zip(self._rows, self._results, strict=True):
            if rows is result:
                continue
            rows, pool = rows.double(), len(result)
            if index is not None:
                inside = ((index >= 0) & (index < pool))[:, None] if inside is None else inside
                rows = torch.where(inside, rows, 0.0)  # what starts outside of the pool counts nowhere
            result.copy_(collect_rows(rows, None if index is None else index.clamp(0, pool - 1), pool, rows))
        return tuple(self._results)
