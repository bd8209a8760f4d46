"""The runner of the CPU: the C++ loops read the caller's arrays and write the results, without copies."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..kernels.call import fast_map
from .buffers import Buffers, fitting
from .call import Call
from .types import Array

_STARTS = 3
"""Kinds of start rows: position, velocity and acceleration."""


class DirectRunner:
    """Calls the C++ kernels on the caller's arrays; converts only those with another dtype or not contiguous.

    Raises:
        ImportError: there is no C++ extension.

    """

    def __init__(self, dtype: torch.dtype) -> None:
        from ..kernels import native

        self._step_into, self._vjp_into = native.step_into, native.vjp_into
        self._buffers = Buffers(torch.device("cpu"), dtype)

    def run(self, call: Call) -> None:
        """Compute a call."""
        kind = fast_map(call.kernel.operator, *call.kernel.scheme).kind
        has_goal = bool(call.kernel.operator.goals) and call.goal.count is not None
        if call.upstream is None:
            self._forward(kind, has_goal, call)
        else:
            self._vjp(kind, has_goal, call)

    def release(self) -> None:
        """Free the memory for converted inputs."""
        self._buffers.clear()

    def _forward(self, kind: object, has_goal: bool, call: Call) -> None:
        (out,) = call.results
        start, goal = call.start, call.goal
        goal_rows = goal.rows if has_goal else None
        if self._step_into(kind, call.actions, start.rows, start.index, goal_rows, goal.index, call.dt, out):
            return
        action, start_rows = self._fitting("actions", call.actions), self._all_fitting("start", start.rows)
        goal_rows = self._all_fitting("goal", goal.rows) if has_goal else None
        result = out if out.is_contiguous() else self._buffers.view("input", "out", tuple(out.shape))
        dt = np.ascontiguousarray(call.dt)
        if not self._step_into(kind, action, start_rows, start.index, goal_rows, goal.index, dt, result):
            raise ValueError(_unfit(call))
        if result is not out:
            out.copy_(result)

    def _vjp(self, kind: object, has_goal: bool, call: Call) -> None:
        action, *rows = call.results
        into = (False, action, tuple(rows[:_STARTS]), tuple(rows[_STARTS:]) if has_goal else None)
        indices = call.start.index, call.goal.index
        if self._vjp_into(kind, call.upstream, *indices, call.dt, *into):
            return
        upstream = self._all_fitting("upstream", call.upstream)
        if not self._vjp_into(kind, upstream, *indices, np.ascontiguousarray(call.dt), *into):
            raise ValueError(_unfit(call))

    def _all_fitting(self, name: str, values: tuple[Array | None, ...]) -> tuple[Tensor | None, ...]:
        return tuple(self._fitting(f"{name}_{place}", value) for place, value in enumerate(values))

    def _fitting(self, name: str, value: Array | None) -> Tensor | None:
        return None if value is None else fitting(self._buffers, name, value)


def _unfit(call: Call) -> str:
    given = ", ".join(f"{name} {list(np.shape(value))}" for name, value in call.inputs.items() if value is not None)
    return f"arrays: expected real numbers in shapes that belong together, got {given}"
