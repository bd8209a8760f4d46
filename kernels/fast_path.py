"""The fast path of the public functions on the CPU: checks, autograd and loops in one call into the C++ extension.

It takes the ordinary case, real CPU tensors in float32 or float64 outside of tracing and transforms, and leaves every
other one, including wrong arguments, to `StepOperator`: both compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .types import Trajectory

_DT_PER = {"step": False, "trajectory": True}


def fast_step(
    name: str,
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    scheme: Sequence[object],
) -> Trajectory | None:
    """Return the trajectory, or None, having done nothing, where the operator has to take over."""
    if torch.compiler.is_compiling():
        return None
    per_trajectory = _DT_PER.get(dt_per)
    native = _native_map(name, *scheme)
    if native is None or per_trajectory is None:
        return None
    step, number, truncate = native
    jerk = start[3] if len(start) == 4 else None
    return step(number, action, start[0], start[1], start[2], jerk, dt, start_index, per_trajectory, truncate)


@functools.cache
def _native_map(name: str, *scheme: object) -> tuple[Callable[..., Trajectory | None], int, bool] | None:
    """The extension's step, number of the map and truncate_terminal_gradient; None if it has no such map."""
    try:
        from . import native
    except ImportError as error:
        _warn(str(error))
        return None
    parts = [part for part in scheme if isinstance(part, str)]
    number = native.MAP_NUMBERS.get("_".join([name, *parts]))
    return None if number is None else (native.step, number, True in scheme)


@functools.cache
def _warn(reason: str) -> None:
    message = "CPU tensors are computed by the reference kernels in plain torch, not by the C++ kernels: %s"
    logging.getLogger(__package__).warning(message, reason)
