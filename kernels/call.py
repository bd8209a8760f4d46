"""From the public functions to their operators: chooses what checks and computes a call.

In the ordinary case, real CPU tensors outside of tracing and transforms, the C++ extension is called directly, with one
node of autograd (`native.FastMap`). All other calls, and those with wrong arguments, go through the validators and the
operators. Both ways compute the same numbers and record the same derivatives.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from torch import Tensor
from torch.compiler import is_compiling

from .backends import Backend, check_backend, native_kernels
from .operator import StepOperator
from .signature import all_values
from .splines.form import SplineForm
from .types import Inputs, Trajectory
from .validation import prepare_step

if TYPE_CHECKING:
    from .native import FastMap


def step(
    operator: StepOperator,
    values: tuple[Tensor | None, ...],
    indices: tuple[Tensor | None, Tensor | None],
    dt: float | Tensor,
    dt_per: str,
    backend: Backend | str | None,
    *scheme: object,
) -> Trajectory:
    """Check the arguments of a public step function and run the forward operator.

    `values` are those of `Inputs` that the map takes.
    """
    if backend is None and not is_compiling():
        fast = fast_map(operator, *scheme)
        if fast is not None:
            trajectory = fast.step(values, indices, dt, dt_per)
            if trajectory is not None:
                return trajectory
    action, *rows = values
    if any(isinstance(row, Tensor) and row.dim() == 1 for row in rows):  # of all trajectories
        rows = [row[None] if isinstance(row, Tensor) and row.dim() == 1 else row for row in rows]
        return step(operator, (action, *rows), indices, dt, dt_per, backend, *scheme)
    if operator.goals:
        scheme = SplineForm(*scheme).scheme
    inputs = prepare_step(operator, Inputs(all_values(values), indices, dt), dt_per)
    return Trajectory(*operator.forward(*inputs.arguments, *scheme, check_backend(backend)))


@functools.lru_cache(maxsize=256, typed=True)
def fast_map(operator: StepOperator, *scheme: object) -> FastMap | None:
    """Return the map's fast path; None if there is no C++ extension. Raises ValueError for a spline's wrong form."""
    native = native_kernels()
    return None if native is None else native.FastMap(operator, scheme)
