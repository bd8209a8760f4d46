"""The gradient of the step lengths: needs the actions, and memory of its own at each call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap, dt_derivatives
from .split import PartSizes
from .types import Array
from .work import part_of_dt


class DtWork(NamedTuple):
    """What the gradient of dt depends on; shapes as in `work`."""

    kernel: ControlMap
    upstream: tuple[Array | None, ...]
    actions: Array
    start: tuple[Array | None, ...]
    start_index: np.ndarray | None
    dt: np.ndarray


def vjp_dt(work: DtWork, device: torch.device, dtype: torch.dtype, sizes: PartSizes) -> Tensor:
    """Return the gradient of dt, float64, `[1 or B, 1 or Ha]`, on the CPU; in parts where the whole does not fit."""
    total = torch.zeros(work.dt.shape, dtype=torch.float64)
    batch = work.actions.shape[0]
    own_rows = work.start_index is None and any(rows is not None and rows.shape[0] != 1 for rows in work.start)

    def real(value: Array | None, begin: int, end: int) -> Tensor | None:
        return None if value is None else _to_device(value[begin:end], device, dtype)

    def part(begin: int, end: int) -> None:
        rows = (begin, end) if own_rows else (0, None)
        index = None if work.start_index is None else work.start_index[begin:end]
        gradient = _differentiate(
            work.kernel,
            [real(value, begin, end) for value in work.upstream],
            real(work.actions, begin, end),
            [real(value, *rows) for value in work.start],
            None if index is None else _to_device(index, device, torch.int64),
            _to_device(part_of_dt(work.dt, begin, end), device, torch.float64),
        )
        part_of_total = total if total.shape[0] == 1 else total[begin:end]
        part_of_total += gradient.cpu()

    sizes.run(("dt", work.kernel.name, work.actions.shape[1]), batch, part)
    return total


def _differentiate(
    kernel: ControlMap,
    upstream: list[Tensor | None],
    actions: Tensor,
    start: list[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
) -> Tensor:
    operator = kernel.operator
    rows = [*start, *[None] * (operator.starts - len(start))]
    scheme = operator.scheme(kernel.scheme)
    with torch.no_grad():
        return dt_derivatives.vjp(operator.name, actions, rows, start_index, dt, upstream, scheme)


def _to_device(value: Array, device: torch.device, dtype: torch.dtype) -> Tensor:
    # Arrays are copied, because they may be read-only and torch has no such tensors.
    source = torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value.detach()
    return source.to(device, dtype)
