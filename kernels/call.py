"""How the public functions reach their operators: what checks and computes a call is chosen here.

In the ordinary case, real CPU tensors outside of tracing and transforms, the C++ extension is called directly, with one
node of autograd (`native.FastMap`). All others, including wrong arguments, go through the validators and the operators:
both compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING

from torch import Tensor
from torch.compiler import is_compiling

from .backends import Backend, check_backend
from .operator import StepOperator
from .signature import first_given
from .splines.form import SplineForm
from .types import End, Trajectory, own_rows
from .validation import prepare_step, prepare_vjp

if TYPE_CHECKING:
    from .native import FastMap


def step(
    operator: StepOperator,
    action: Tensor,
    start: tuple[Tensor | None, ...],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    backend: Backend | str | None,
    *scheme: object,
    goal: tuple[Tensor | None, ...] = (),
    goal_index: Tensor | None = None,
) -> Trajectory:
    """Check the arguments of a public step function and run the forward operator."""
    if backend is None and not is_compiling():
        fast = fast_map(operator, *scheme)
        if fast is not None:
            trajectory = fast.step(action, start, start_index, goal, goal_index, dt, dt_per)
            if trajectory is not None:
                return trajectory
    if operator.goals:
        scheme = SplineForm(*scheme).scheme
    ends = [End(start, start_index), End(goal, goal_index)][: len(operator.ends)]
    inputs = prepare_step(operator, action, ends, dt, dt_per)
    return Trajectory(*operator.forward(*inputs.arguments, *scheme, check_backend(backend)))


def step_vjp(
    operator: StepOperator,
    scheme: Sequence[object],
    upstream: Sequence[Tensor | None],
    ends: dict[str, tuple[int | None, Tensor | None]],
    dt: float | Tensor,
    dt_per: str,
    action_horizon: int,
    needs: Sequence[bool],
    backend: Backend | str | None,
) -> tuple[Tensor | None, ...]:
    """Check the arguments of `ControlMap.vjp` and run the vjp operator; `ends` are as in `prepare_vjp`."""
    horizons = action_horizon, operator.output_horizon(action_horizon, scheme)
    upstream, indices, lengths = prepare_vjp(operator, upstream, ends, dt, dt_per, horizons)
    batch, count = first_given(upstream).shape[0], len(operator.ends)
    numbers = zip((rows for rows, _ in ends.values()), indices, strict=True)
    rows = [-1 if rows is None else own_rows(rows, index, batch) for rows, index in numbers]
    call = *indices[:count], lengths, *rows[:count], action_horizon, needs, *scheme, check_backend(backend)
    return operator.vjp(*upstream, *call)


@functools.lru_cache(maxsize=256, typed=True)
def fast_map(operator: StepOperator, *scheme: object) -> FastMap | None:
    """Return the map's fast path; None if there is no C++ extension. Raises ValueError for a spline's wrong form."""
    native = native_kernels()
    return None if native is None else native.FastMap(operator, scheme)


@functools.cache
def native_kernels() -> ModuleType | None:
    """Return the C++ kernels; None if they cannot be imported, which is logged once."""
    try:
        from . import native
    except ImportError as error:
        message = "CPU tensors are computed by the reference kernels in plain torch, not by the C++ kernels: %s"
        logging.getLogger(__package__).warning(message, error)
        return None
    return native
