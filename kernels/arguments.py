"""Arguments that need a look before the others: step lengths, indices, and mixed precisions under autocast.

All functions can be traced by `torch.compile` and `torch.export`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

_HALVES = (torch.float16, torch.bfloat16)


def values_hidden() -> bool:
    """Return whether the values of tensors cannot be read: torch traces, or a transform or a mode is active."""
    return torch.compiler.is_compiling() or _is_transformed()


def is_watched() -> bool:
    """Return whether a tensor may carry hidden data: a tangent, or what a transform or a mode adds."""
    return forward_ad._current_level >= 0 or _is_transformed()


def _is_transformed() -> bool:
    return torch._C._are_functorch_transforms_active() or torch._C._len_torch_dispatch_stack() > 0


def promoted(tensors: Sequence[Tensor | None]) -> Sequence[Tensor | None]:
    """Return the tensors; under autocast, float16 and bfloat16 beside other dtypes become float32.

    Torch's own operations treat operands of different dtypes in the same way (its "promote" list).
    """
    given = [tensor for tensor in tensors if isinstance(tensor, Tensor)]
    if not given or all(tensor.dtype == given[0].dtype for tensor in given):
        return tensors
    if not torch.is_autocast_enabled(given[0].device.type):
        return tensors
    return [tensor.float() if isinstance(tensor, Tensor) and tensor.dtype in _HALVES else tensor for tensor in tensors]


def step_lengths(dt: object) -> Tensor | float:
    """Return `dt` as a tensor or a number of seconds.

    Raises:
        TypeError: neither.
        ValueError: a number that is not finite and > 0. The values of tensors are not checked.

    """
    if isinstance(dt, Tensor):
        return dt
    try:
        seconds = float(dt)
    except (TypeError, ValueError):
        raise TypeError(f"dt: expected a number of seconds or a tensor, got {type(dt).__name__}") from None
    if not 0 < seconds < math.inf:
        raise ValueError(f"dt: expected a finite number of seconds > 0, got {seconds}")
    return seconds


def row_indices(name: str, index: object) -> Tensor | None:
    """Return `index`. Raises TypeError for anything but None, and tensors of int32 or int64."""
    if index is not None and (not isinstance(index, Tensor) or index.dtype not in (torch.int32, torch.int64)):
        got = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"{name}: expected an int32 or int64 tensor, got {got}")
    return index
