"""The gradient of the step lengths: needs the actions, and allocates memory in each call."""

from __future__ import annotations

import torch
from torch import Tensor

from ..kernels import dt_derivatives
from ..kernels.types import End
from .buffers import Buffers
from .call import Call
from .packing import to_device
from .split import PartSizes


def vjp_dt(call: Call, device: torch.device, buffers: Buffers, sizes: PartSizes) -> Tensor:
    """Return the gradient of dt, float64, `[1 or B, 1 or Ha]`, on the CPU; in parts if the whole does not fit.

    `call` has actions, rows and upstream gradients; `buffers` take them to the device.
    """
    total = torch.zeros(call.dt.shape, dtype=torch.float64)
    operator = call.kernel.operator

    def part(begin: int, end: int) -> None:
        given = to_device(call.part(begin, end).inputs, buffers, device)

        def rows(name: str, count: int) -> list[Tensor | None]:
            return [given.get(f"{name}_{place}") for place in range(count)]

        ends = [End(rows("start", operator.starts), given["start_index"])]
        if operator.goals:
            ends.append(End(rows("goal", operator.goals), given["goal_index"]))
        arguments = (operator.name, given["actions"], ends, given["dt"], rows("upstream", 4))
        with torch.no_grad():
            gradient = dt_derivatives.vjp(*arguments, operator.scheme(call.kernel.scheme))
        part_of_total = total if total.shape[0] == 1 else total[begin:end]
        part_of_total += gradient.cpu()

    sizes.run(("dt", *call.kind), call.shape[0], part)
    return total
