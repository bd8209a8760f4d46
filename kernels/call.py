"""How the public functions reach their operators: what checks and computes a call is chosen here.

In the ordinary case, real CPU tensors outside of tracing and transforms, one call into the C++ extension does checks,
autograd and computation. All others, including wrong arguments, go through the validators and the operators: both
compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Sequence
from types import ModuleType

import torch
from torch import Tensor

from .backends import Backend, check_backend
from .operator import StepOperator
from .sharding import is_sharded, rules
from .signature import some
from .splines.form import SplineForm
from .types import BsplineLayout, Trajectory, own_rows
from .validation import prepare_step, prepare_vjp


def step(
    operator: StepOperator,
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    backend: Backend | str | None,
    *scheme: object,
    goal: Sequence[Tensor | None] = (),
    goal_index: Tensor | None = None,
) -> Trajectory:
    """Check the arguments of a public step function and run the forward operator."""
    if backend is None and not operator.goals:
        trajectory = _fast_step(operator, action, start, dt, start_index, dt_per, scheme)
        if trajectory is not None:
            return trajectory
    if is_sharded(action):
        ends = {"start": (start, start_index), "goal": (goal, goal_index)}
        rules().check_step(action, operator.action_name, ends, dt)
    inputs = prepare_step(
        action,
        start,
        dt,
        start_index,
        dt_per,
        one_dt_for=operator.one_dt_for,
        goal=goal,
        goal_index=goal_index,
        action_name=operator.action_name,
    )
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
    inputs = prepare_vjp(
        upstream,
        dt,
        start_index,
        dt_per,
        start_rows=start_rows,
        action_horizon=action_horizon,
        output_horizon=operator.output_horizon(action_horizon, scheme),
        one_dt_for=operator.one_dt_for,
        goal_rows=goal_rows,
        goal_index=goal_index,
    )
    batch = some(inputs.upstream).shape[0]
    wanted = [*needs, *(False for _ in range(operator.starts + operator.goals + 1 - len(needs)))]
    return operator.vjp(
        *inputs.upstream,
        inputs.start_index,
        *((inputs.goal_index,) if operator.goals else ()),
        rules().step_lengths(inputs.dt, like) if is_sharded(like) else inputs.dt,
        own_rows(start_rows, start_index, batch),
        *((-1 if goal_rows is None else own_rows(goal_rows, inputs.goal_index, batch),) if operator.goals else ()),
        action_horizon,
        wanted,
        *scheme,
        check_backend(backend),
    )


_DT_PER = {"step": False, "trajectory": True}


def _fast_step(
    operator: StepOperator,
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    scheme: Sequence[object],
) -> Trajectory | None:
    """Return the trajectory, or None, having done nothing, if the operator has to compute it."""
    if torch.compiler.is_compiling():
        return None
    per_trajectory = _DT_PER.get(dt_per)
    number = map_number(operator, *scheme)
    if number is None or per_trajectory is None:
        return None
    jerk = start[3] if len(start) == 4 else None
    truncate = True in scheme
    native_step = native_kernels().step
    return native_step(number, action, start[0], start[1], start[2], jerk, dt, start_index, per_trajectory, truncate)


def fast_spline(
    operator: StepOperator,
    control_points: Tensor,
    start: tuple[Tensor | None, ...],
    goal: tuple[Tensor | None, ...],
    dt: float | Tensor,
    start_index: Tensor | None,
    goal_index: Tensor | None,
    dt_per: str,
    scheme: tuple[int, int, BsplineLayout | str],
) -> Trajectory | None:
    """`_fast_step` for splines, whose scheme is degree, steps and layout."""
    if torch.compiler.is_compiling():
        return None
    per_trajectory = _DT_PER.get(dt_per)
    form = _spline_form(operator, *scheme)
    if form is None or per_trajectory is None:
        return None
    native_spline = native_kernels().spline_step
    return native_spline(form, control_points, start, goal, start_index, goal_index, dt, per_trajectory)


@functools.lru_cache(maxsize=64, typed=True)
def _spline_form(operator: StepOperator, degree: int, steps: int, layout: BsplineLayout | str) -> object | None:
    """Return the form as the C++ extension takes it; None where there is none. Raises ValueError for a wrong form."""
    form = SplineForm(degree, steps, layout)
    native = native_kernels()
    if native is None:
        return None
    _OPERATORS[_SPLINES] = operator, []
    return native.spline_form(form)


def fast_step_with_buffers(operator: StepOperator, scheme: Sequence[object], *arguments: object) -> Trajectory | None:
    """Call `native.step_with_buffers`; None, having written nothing, if the operator has to compute the step."""
    if torch.compiler.is_compiling():
        return None
    number = map_number(operator, *scheme)
    return None if number is None else native_kernels().step_with_buffers(number, *arguments)


@functools.cache
def map_number(operator: StepOperator, *scheme: object) -> int | None:
    """Number of a map in the C++ extension; None if there is no extension, or if it has no such map."""
    native = native_kernels()
    if native is None:
        return None
    parts = [part for part in scheme if isinstance(part, str)]
    number = native.MAP_NUMBERS.get("_".join([operator.name, *parts]))
    if number is not None:
        _OPERATORS[number] = operator, parts
    return number


# The extension has no number for splines.
_SPLINES = -1
_OPERATORS: dict[int, tuple[StepOperator, list[str]]] = {}


def numbered_map(number: int) -> tuple[StepOperator, list[str]]:
    """Return the operator for a number returned by `map_number`, and its scheme if that is a name."""
    return _OPERATORS[number]


def _general_vjp(
    number: int,
    upstream: Sequence[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    start_rows: int,
    action_horizon: int,
    needs: Sequence[bool],
    truncate: bool,
) -> tuple[Tensor | None, ...]:
    """Compute by the operator those gradients of a fast step that are differentiated again, batched or traced."""
    operator, parts = numbered_map(number)
    scheme = [truncate] if operator.truncates else parts
    wanted = list(needs[: operator.starts + 1])
    return operator.vjp(*upstream, start_index, dt, start_rows, action_horizon, wanted, *scheme, None)


def _general_spline_vjp(
    upstream: Sequence[Tensor | None],
    start_index: Tensor | None,
    goal_index: Tensor | None,
    dt: Tensor,
    start_rows: int,
    goal_rows: int,
    points: int,
    needs: Sequence[bool],
    *scheme: int | str,
) -> tuple[Tensor | None, ...]:
    """`_general_vjp` for splines."""
    operator, _ = numbered_map(_SPLINES)
    counts = (start_rows, goal_rows, points)
    return operator.vjp(*upstream, start_index, goal_index, dt, *counts, list(needs), *scheme, None)


@functools.cache
def native_kernels() -> ModuleType | None:
    """Return the C++ kernels; None if they cannot be imported, which is logged once."""
    try:
        from . import native
    except ImportError as error:
        message = "CPU tensors are computed by the reference kernels in plain torch, not by the C++ kernels: %s"
        logging.getLogger(__package__).warning(message, error)
        return None
    native.set_general_vjp(_general_vjp)
    native.set_general_spline_vjp(_general_spline_vjp)
    return native
