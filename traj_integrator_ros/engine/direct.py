"""The runner of the CPU: the C++ loops read the caller's arrays and write the results, without copies."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers, fitting
from .splines import SplineCalls
from .types import Array
from .work import ForwardWork, VjpWork


class DirectRunner:
    """Calls the C++ kernels on the caller's arrays; converts only those with another dtype or not contiguous.

    Raises:
        ImportError: there is no C++ extension.

    """

    def __init__(self, dtype: torch.dtype) -> None:
        from ..kernels import native

        self._numbers = native.MAP_NUMBERS
        self._step_into: Callable[..., bool] = native.step_into
        self._vjp_into: Callable[..., bool] = native.vjp_into
        self._buffers = Buffers(torch.device("cpu"), dtype)
        self._splines = SplineCalls(self._buffers)

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""
        if work.kernel.operator.goals:
            return self._splines.forward(work)
        kernel, actions, start, start_index, dt, out, *_ = work
        number = self._numbers[kernel.name]
        if self._step_into(number, actions, *start, start_index, dt, out):
            return
        inputs = self._converted(("actions", "position", "velocity", "acceleration"), (actions, *start))
        result = out if out.is_contiguous() else self._buffers.view("input", "out", tuple(out.shape))
        if not self._step_into(number, *inputs, start_index, np.ascontiguousarray(dt), result):
            raise ValueError(_unfit(work))
        if result is not out:
            out.copy_(result)

    def vjp(self, work: VjpWork) -> None:
        """Compute the vector-Jacobian product."""
        if work.kernel.operator.goals:
            return self._splines.vjp(work)
        kernel, upstream, start_index, dt, action, start, *_ = work
        number = self._numbers[kernel.name]
        if self._vjp_into(number, *upstream, start_index, dt, False, action, *start):
            return
        names = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")
        inputs = self._converted(names, upstream)
        steps = np.ascontiguousarray(dt)
        if not self._vjp_into(number, *inputs, start_index, steps, False, action, *start):
            raise ValueError(_unfit(work))

    def release(self) -> None:
        """Free the memory for converted inputs."""
        self._buffers.clear()

    def _converted(self, names: Sequence[str], values: Sequence[Array | None]) -> list[Tensor | None]:
        """Inputs in the engine's dtype, contiguous; converted only if they are not."""
        named = zip(names, values, strict=True)
        return [None if value is None else fitting(self._buffers, name, value) for name, value in named]


def _unfit(work: ForwardWork | VjpWork) -> str:
    given = ", ".join(f"{type(value).__name__} {list(np.shape(value))}" for value in work if hasattr(value, "shape"))
    return f"arrays: expected real numbers in shapes that belong together, got {given}"
