"""The runner of a device, with any backend: inputs go there, kernels compute, results come back. Nothing is kept."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap
from ..kernels.backends import launcher
from ..kernels.signature import four
from ..kernels.types import Inputs, VjpInputs
from .call import STARTS, Array, Call

# Dtypes of inputs whose dtype is not the engine's.
_DTYPES = {"start_index": torch.int64, "goal_index": torch.int64, "dt": torch.float64}


class DeviceRunner:
    """Computes on a device.

    Args:
        device: where the kernels run.
        dtype: of inputs and results.

    """

    def __init__(self, device: torch.device, dtype: torch.dtype) -> None:
        self._device, self._dtype = device, dtype

    def run(self, call: Call) -> None:
        """Compute a call."""
        given = to_device(call.inputs, self._device, self._dtype)
        with torch.no_grad():
            if call.upstream is None:
                found, results = _forward(call.kernel, given), call.results[0].unbind()
            else:
                found, results = _vjp(call, given), call.results
        for result, value in zip(results, found, strict=True):
            result.copy_(value)

    def release(self) -> None:
        """Free the memory that torch keeps on the device."""
        if self._device.type == "cuda":
            torch.cuda.empty_cache()


def to_device(values: Mapping[str, Array | None], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor | None]:
    """Return inputs of a call by name as tensors on a device."""
    return {name: _there(value, device, _DTYPES.get(name, dtype)) for name, value in values.items()}


def _there(value: Array | None, device: torch.device, dtype: torch.dtype) -> Tensor | None:
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(value.astype(str(dtype).removeprefix("torch."), order="C", casting="same_kind"))
    return None if value is None else value.detach().to(device, dtype)


def _forward(kernel: ControlMap, given: Mapping[str, Tensor | None]) -> Sequence[Tensor]:
    """Return the four outputs; `given` are the inputs of a call by name, on the device."""
    operator, inputs = kernel.operator, inputs_of(kernel, given)
    launch = launcher(operator.name, "forward", None, inputs.action.device.type)
    return launch(inputs, **operator.scheme((*kernel.scheme, None)))


def _vjp(call: Call, given: Mapping[str, Tensor | None]) -> list[Tensor]:
    """Return the gradients of the actions, of three start rows and of the goal rows."""
    operator, goals = call.kernel.operator, call.results[1 + STARTS :]
    _, indices, dt = inputs_of(call.kernel, given)
    counts = call.results[1].shape[0], goals[0].shape[0] if goals else -1
    needs = [True, *(k < STARTS for k in range(4)), *(k < len(goals) for k in range(4))]
    inputs = VjpInputs(rows_of(given, "upstream"), indices, dt, counts, call.shape[1], needs)
    launch = launcher(operator.name, "vjp", None, dt.device.type)
    found = launch(inputs, **operator.scheme((*call.kernel.scheme, None), vjp=True))
    return [gradient for gradient, need in zip(found, needs, strict=True) if need]


def inputs_of(kernel: ControlMap, given: Mapping[str, Tensor | None]) -> Inputs:
    """Return the inputs of a call by name, as the map takes them. A goal that replaces an action is left out."""
    goal, goal_index = (rows_of(given, "goal"), given["goal_index"]) if kernel.operator.goals else (four(()), None)
    return Inputs((given["actions"], *rows_of(given, "start"), *goal), (given["start_index"], goal_index), given["dt"])


def rows_of(given: Mapping[str, Tensor | None], name: str) -> tuple[Tensor | None, ...]:
    """Return the four rows of a kind among inputs by name."""
    return tuple(given.get(f"{name}_{place}") for place in range(4))
