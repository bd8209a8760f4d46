"""How the public functions reach their operators: what checks and computes a call is chosen here.

In the ordinary case, real CPU tensors outside of tracing and transforms, the C++ extension is called directly, with one
node of autograd (`native.FastMap`). All others, including wrong arguments, go through the validators and the operators:
both compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling

from .backends import Backend, check_backend, native_kernels
from .leading import Leading
from .operator import StepOperator
from .signature import four
from .splines.form import SplineForm
from .types import End, Trajectory
from .validation import prepare_step

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
            given = action, start, start_index, goal, goal_index, dt, dt_per
            trajectory = fast.step(*given)
            if trajectory is None and forward_ad._current_level >= 0:
                trajectory = fast.dual_step(*given)
            if trajectory is not None:
                return trajectory
    leading = Leading.of(action)
    if leading is not None:
        action, dt = leading.action(action), leading.dt(dt, dt_per)
        (start, start_index), (goal, goal_index) = (
            (tuple(map(leading.rows, rows)), leading.index(index))
            for rows, index in ((start, start_index), (goal, goal_index))
        )
        options = {"goal": goal, "goal_index": goal_index}
        return leading.trajectory(step(operator, action, start, dt, start_index, dt_per, backend, *scheme, **options))
    if operator.goals:
        scheme = SplineForm(*scheme).scheme
    inputs = prepare_step(operator, action, End(four(start), start_index), End(four(goal), goal_index), dt, dt_per)
    return Trajectory(*operator.forward(*inputs.arguments, *scheme, check_backend(backend)))


@functools.lru_cache(maxsize=256, typed=True)
def fast_map(operator: StepOperator, *scheme: object) -> FastMap | None:
    """Return the map's fast path; None if there is no C++ extension. Raises ValueError for a spline's wrong form."""
    native = native_kernels()
    return None if native is None else native.FastMap(operator, scheme)
