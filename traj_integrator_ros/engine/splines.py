"""B-splines on the CPU: the C++ launchers take tensors that share the memory of the caller's arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers, fitting
from .types import Array
from .work import ForwardWork, VjpWork

_STATE = ("position", "velocity", "acceleration")


class SplineCalls:
    """Forward and vjp calls of the maps that take a goal state.

    Args:
        buffers: of the runner.

    """

    def __init__(self, buffers: Buffers) -> None:
        self._buffers = buffers

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""
        from ..kernels import native

        form = work.kernel.operator.scheme((*work.kernel.scheme, None))["form"]
        action = self._tensor("actions", work.actions)
        start = self._tensors(_STATE, work.start)
        goal = self._tensors([f"goal {kind}" for kind in _STATE], work.goal)
        out = work.out if work.out.is_contiguous() else self._buffers.view("input", "out", tuple(work.out.shape))
        ends = (*start, None, _index(work.start_index), *goal, None, _index(work.goal_index))
        native.bspline_forward(action, *ends, _shared(work.dt), form=form, out=out.unbind())
        if out is not work.out:
            work.out.copy_(out)

    def vjp(self, work: VjpWork) -> None:
        """Compute the vector-Jacobian product."""
        from ..kernels import native

        form = work.kernel.operator.scheme((*work.kernel.scheme, None))["form"]
        upstream = self._tensors([f"grad_{kind}" for kind in (*_STATE, "jerk")], work.upstream)
        goal = work.goal or (None,) * 3
        out = (work.action, *work.start, None, *goal, None)
        native.bspline_vjp(
            *upstream,
            _index(work.start_index),
            _index(work.goal_index),
            _shared(work.dt),
            start_rows=work.start_rows,
            goal_rows=work.goal[0].shape[0] if work.goal else -1,
            action_horizon=work.action.shape[1],
            needs=[into is not None for into in out],
            form=form,
            out=out,
        )

    def _tensors(self, names: Sequence[str], values: Sequence[Array | None]) -> list[Tensor | None]:
        given = [*values, *[None] * (len(names) - len(values))]
        return [None if value is None else self._tensor(name, value) for name, value in zip(names, given, strict=True)]

    def _tensor(self, name: str, value: Array) -> Tensor:
        dtype = self._buffers.dtype
        if isinstance(value, np.ndarray) and value.flags.c_contiguous and _torch_dtype(value) == dtype:
            return _shared(value)
        return fitting(self._buffers, name, value)


class _Borrowed:
    """An array's memory, declared writable: torch has no read-only tensors, and the launchers only read it."""

    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._array = array


def _shared(array: np.ndarray) -> Tensor:
    """A tensor that reads the array's memory."""
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Borrowed(array)))


def _index(index: np.ndarray | None) -> Tensor | None:
    return None if index is None else _shared(index)


def _torch_dtype(array: np.ndarray) -> torch.dtype | None:
    return {"float32": torch.float32, "float64": torch.float64}.get(array.dtype.name)
