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
from .sharding import is_sharded, rules
from .signature import first_given
from .splines.form import SplineForm
from .types import Trajectory, own_rows
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
    if is_sharded(action):
        ends = {"start": (start, start_index), "goal": (goal, goal_index)}
        rules().check_step(action, operator.action_name, ends, dt)
    inputs = prepare_step(operator, action, start, dt, start_index, dt_per, goal, goal_index)
    goal_arguments = (*inputs.goal, inputs.goal_index) if operator.goals else ()
    outputs = operator.forward(
        inputs.action,
        *inputs.start,
        inputs.start_index,
        *goal_arguments,
        rules().step_lengths(inputs.dt, action) if is_sharded(action) else inputs.dt,
        *scheme,
        check_backend(backend),
    )
    return Trajectory(*outputs)


def step_vjp(
    operator: StepOperator,
    upstream: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    backend: Backend | str | None,
    *scheme: object,
    action_horizon: int,
    start_rows: int,
    needs: Sequence[bool],
    goal_rows: int | None = None,
    goal_index: Tensor | None = None,
) -> tuple[Tensor | None, ...]:
    """Check the arguments of `ControlMap.vjp` and run the vjp operator."""
    like = next((gradient for gradient in upstream if gradient is not None), None)
    if is_sharded(like):
        indices = {"start_index": start_index, "goal_index": goal_index}
        rules().check_vjp(upstream, like, indices, dt)
    upstream, start_index, goal_index, lengths = prepare_vjp(
        operator,
        upstream,
        dt,
        start_index,
        dt_per,
        start_rows=start_rows,
        action_horizon=action_horizon,
        output_horizon=operator.output_horizon(action_horizon, scheme),
        goal_rows=goal_rows,
        goal_index=goal_index,
    )
    batch = first_given(upstream).shape[0]
    wanted = [*needs, *(False for _ in range(operator.starts + operator.goals + 1 - len(needs)))]
    return operator.vjp(
        *upstream,
        start_index,
        *((goal_index,) if operator.goals else ()),
        rules().step_lengths(lengths, like) if is_sharded(like) else lengths,
        own_rows(start_rows, start_index, batch),
        *((-1 if goal_rows is None else own_rows(goal_rows, goal_index, batch),) if operator.goals else ()),
        action_horizon,
        wanted,
        *scheme,
        check_backend(backend),
    )


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
