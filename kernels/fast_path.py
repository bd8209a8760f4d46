"""The short cut of the public functions on the CPU: checks, autograd and loops in one call into the C++ extension.

It takes the ordinary case, real CPU tensors in float32 or float64 with nobody tracing or transforming, and leaves every
other one, wrong arguments too, to `StepOperator`: both compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from .types import AccelerationIntegrator, Trajectory

# Map and scheme arguments to the extension's number of the map and truncate_terminal_gradient.
_VARIANTS: dict[tuple[object, ...], tuple[int, bool]] = {
    ("clique",): (0, False),
    ("clique_central", False): (1, False),
    ("clique_central", True): (1, True),
    ("acceleration", AccelerationIntegrator.ZOH.value): (2, False),
    ("acceleration", AccelerationIntegrator.SEMI_IMPLICIT_EULER.value): (3, False),
    ("velocity",): (4, False),
    ("jerk",): (5, False),
}
_DT_PER = {"step": False, "trajectory": True}


def quick_step(
    name: str,
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    scheme: Sequence[object],
) -> Trajectory | None:
    """Return the trajectory, or None, having done nothing, where the general way has to take over."""
    if torch.compiler.is_compiling():
        return None
    per_trajectory = _DT_PER.get(dt_per)
    variant = _VARIANTS.get((name, *scheme))
    if variant is None or per_trajectory is None:
        return None
    number, truncate = variant
    jerk = start[3] if len(start) == 4 else None
    return _native_step(number, action, start[0], start[1], start[2], jerk, dt, start_index, per_trajectory, truncate)


def _first_step(*arguments: object) -> Trajectory | None:
    """Load the extension, or say that it is not there, at the first step of the process."""
    global _native_step
    try:
        from .native import step
    except ImportError as error:
        message = "CPU tensors are computed by the reference kernels in plain torch, not by the C++ kernels: %s"
        logging.getLogger(__package__).warning(message, error)
        _native_step = _no_short_cut
    else:
        _native_step = step
    return _native_step(*arguments)


def _no_short_cut(*_: object) -> None:
    return None


_native_step: Callable[..., Trajectory | None] = _first_step
