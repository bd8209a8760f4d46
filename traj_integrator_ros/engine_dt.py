"""The gradient of the step lengths: through the differentiable operators, with memory of its own at each call."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .engine_split import PartSizes
from .engine_types import Array
from .engine_work import part_of_dt
from .kernels import ControlMap


class DtWork(NamedTuple):
    """What the gradient of dt depends on; shapes as in `engine_work`."""

    kernel: ControlMap
    upstream: tuple[Array | None, ...]
    actions: Array
    start: tuple[Array | None, ...]
    start_index: np.ndarray | None
    dt: np.ndarray


def pull_back_dt(work: DtWork, device: torch.device, dtype: torch.dtype, sizes: PartSizes) -> Tensor:
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
    rest = actions.new_zeros(1, actions.shape[2]) if start[0] is None else start[0]
    with torch.enable_grad():
        leaf = dt.requires_grad_()
        outputs = kernel.step(actions, rest, *start[1:], dt=leaf, start_idx=start_index)
        pairs = [(output, gradient) for output, gradient in zip(outputs, upstream, strict=True) if gradient is not None]
        outputs, gradients = zip(*pairs, strict=True)
        (result,) = torch.autograd.grad(outputs, leaf, gradients, allow_unused=True, materialize_grads=True)
    return result


def _to_device(value: Array, device: torch.device, dtype: torch.dtype) -> Tensor:
    """Return a copy: torch has no read-only tensors, and must not mark the caller's own."""
    source = torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value.detach()
    return source.to(device, dtype, copy=True)
