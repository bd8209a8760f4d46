"""Converts arguments to tensors of one dtype: numbers, arrays, lists, and mixed precisions under autocast.

All functions can be traced by `torch.compile` and `torch.export`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
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


def step_lengths(dt: object, device: torch.device) -> Tensor | float:
    """Return `dt` as a tensor or a number of seconds; an array or a list becomes a float64 tensor on `device`.

    Raises:
        TypeError: neither a tensor, nor numbers.
        ValueError: numbers that are not finite and > 0. The values of tensors are not checked.

    """
    if isinstance(dt, Tensor):
        return dt
    if _is_array(dt):
        steps = _tensor("dt", dt, "numbers of seconds", torch.float64)
        if not values_hidden() and not bool(((steps > 0) & (steps < math.inf)).all()):
            raise ValueError(f"dt: expected finite numbers of seconds > 0, got {steps.tolist()}")
        return steps.to(device)
    try:
        seconds = float(dt)
    except (TypeError, ValueError):
        raise TypeError(f"dt: expected a number of seconds or a tensor, got {type(dt).__name__}") from None
    if not 0 < seconds < math.inf:
        raise ValueError(f"dt: expected a finite number of seconds > 0, got {seconds}")
    return seconds


def row_indices(name: str, index: object, device: torch.device) -> Tensor | None:
    """Return `index` as a tensor; whole numbers in an array or a list become an int64 tensor on `device`.

    Raises:
        TypeError: neither an int32 or int64 tensor, nor whole numbers.

    """
    if index is None:
        return None
    if _is_array(index):
        rows = _tensor(name, index, "whole numbers", None if len(index) else torch.int64)  # floats, for torch
        if rows.dtype not in _INTEGERS:
            raise TypeError(f"{name}: expected whole numbers in an array or a list, got {rows.dtype}")
        return rows.to(device, torch.int64)
    if not isinstance(index, Tensor) or index.dtype not in (torch.int32, torch.int64):
        got = index.dtype if isinstance(index, Tensor) else type(index).__name__
        raise TypeError(f"{name}: expected an int32 or int64 tensor, got {got}")
    return index


_INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32)


def _is_array(value: object) -> bool:
    return isinstance(value, (list, tuple)) or (isinstance(value, np.ndarray) and value.ndim > 0)


def _tensor(name: str, value: object, what: str, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array, or a list of numbers or of lists of them, into a tensor."""
    try:
        return torch.tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError) as error:
        got = value.dtype if isinstance(value, np.ndarray) else value
        raise TypeError(f"{name}: expected {what} in an array or a list, got {got} ({error})") from None
