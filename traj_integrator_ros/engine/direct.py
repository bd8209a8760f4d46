"""The runner of the CPU: the C++ loops read the caller's arrays and write the results, without copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from .buffers import Buffers, fitting
from .call import Call, Ends
from .types import Array

_FOUR = 4


class DirectRunner:
    """Calls the C++ kernels on the caller's arrays; converts only those with another dtype or not contiguous.

    Raises:
        ImportError: there is no C++ extension.

    """

    def __init__(self, dtype: torch.dtype) -> None:
        from ..kernels import native

        self._native = native
        self._step_into: Callable[..., bool] = native.step_into
        self._vjp_into: Callable[..., bool] = native.vjp_into
        self._buffers = Buffers(torch.device("cpu"), dtype)
        self._dtype_name = str(dtype).removeprefix("torch.")

    def run(self, call: Call) -> None:
        """Compute a call."""
        if call.kernel.operator.goals:
            return self._spline(call) if call.upstream is None else self._spline_vjp(call)
        number = self._native.MAP_NUMBERS[call.kernel.name]
        if call.upstream is None:
            self._forward(number, call)
        else:
            self._vjp(number, call)

    def release(self) -> None:
        """Free the memory for converted inputs."""
        self._buffers.clear()

    def _forward(self, number: int, call: Call) -> None:
        (out,) = call.results
        index = call.start.index
        if self._step_into(number, call.actions, *call.start.rows, index, call.dt, out):
            return
        inputs = [self._fitting(name, value) for name, value in _named(call)]
        result = self._contiguous(out)
        if not self._step_into(number, *inputs, index, np.ascontiguousarray(call.dt), result):
            raise ValueError(_unfit(call))
        if result is not out:
            out.copy_(result)

    def _vjp(self, number: int, call: Call) -> None:
        index, into = call.start.index, call.results[:_FOUR]
        if self._vjp_into(number, *call.upstream, index, call.dt, False, *into):
            return
        inputs = [self._fitting(name, value) for name, value in _named(call)]
        if not self._vjp_into(number, *inputs, index, np.ascontiguousarray(call.dt), False, *into):
            raise ValueError(_unfit(call))

    def _spline(self, call: Call) -> None:
        (out,) = call.results
        result = self._contiguous(out)
        ends = [part for name, end in (("start", call.start), ("goal", call.goal)) for part in self._end(name, end)]
        action = self._shared("actions", call.actions)
        self._native.bspline_forward(action, *ends, _tensor(call.dt), form=_form(call), out=result.unbind())
        if result is not out:
            out.copy_(result)

    def _spline_vjp(self, call: Call) -> None:
        action, *rows = call.results
        out = (action, *_four(rows[:3]), *_four(rows[3:]))
        self._native.bspline_vjp(
            *(self._shared(f"upstream_{place}", gradient) for place, gradient in enumerate(call.upstream)),
            _tensor(call.start.index),
            _tensor(call.goal.index),
            _tensor(call.dt),
            start_rows=call.start.count,
            goal_rows=-1 if call.goal.count is None else call.goal.count,
            action_horizon=call.shape[1],
            needs=[into is not None for into in out],
            form=_form(call),
            out=out,
        )

    def _end(self, name: str, end: Ends) -> tuple[Tensor | None, ...]:
        rows = [self._shared(f"{name}_{place}", values) for place, values in enumerate(end.rows)]
        return (*_four(rows), _tensor(end.index))

    def _contiguous(self, out: Tensor) -> Tensor:
        return out if out.is_contiguous() else self._buffers.view("input", "out", tuple(out.shape))

    def _fitting(self, name: str, value: Array | None) -> Tensor | None:
        return None if value is None else fitting(self._buffers, name, value)

    def _shared(self, name: str, value: Array | None) -> Tensor | None:
        """A tensor on the array's memory, or on that of its copy where it does not fit."""
        if isinstance(value, np.ndarray) and value.flags.c_contiguous and value.dtype.name == self._dtype_name:
            return _tensor(value)
        return self._fitting(name, value)


class _Writable:
    """An array's memory, declared writable: torch has no read-only tensors, and the launchers only read it."""

    def __init__(self, array: np.ndarray) -> None:
        interface = dict(array.__array_interface__)
        interface["data"] = (interface["data"][0], False)
        self.__array_interface__ = interface
        self._array = array


def _tensor(array: np.ndarray | None) -> Tensor | None:
    """A tensor that reads the array's memory."""
    if array is None:
        return None
    return torch.from_numpy(array if array.flags.writeable else np.asarray(_Writable(array)))


def _named(call: Call) -> list[tuple[str, Array | None]]:
    """What the loops take first: actions and start rows, or upstream gradients."""
    action, *others = call.inputs.items()
    return [action, *others[: _FOUR - 1]] if call.upstream is None else others[:_FOUR]


def _form(call: Call) -> object:
    return call.kernel.operator.scheme((*call.kernel.scheme, None))["form"]


def _four(rows: list[Tensor | None]) -> tuple[Tensor | None, ...]:
    return (*rows, *[None] * (_FOUR - len(rows)))


def _unfit(call: Call) -> str:
    given = ", ".join(f"{name} {list(np.shape(value))}" for name, value in call.inputs.items() if value is not None)
    return f"arrays: expected real numbers in shapes that belong together, got {given}"
