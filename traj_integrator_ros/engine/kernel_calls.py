"""The maps' launchers on device tensors, writing into the caller's tensors wherever the backend can."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..kernels import Backend, ControlMap, default_backend
from ..kernels.backends import launcher


def launch_forward(
    kernel: ControlMap,
    action: Tensor,
    start: Sequence[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    out: Tensor,
    goal: Sequence[Tensor | None] = (),
    goal_index: Tensor | None = None,
) -> None:
    """Integrate into `out`, contiguous `[4, B, H, dof]`; the other arguments as for the launchers in `kernels`."""
    operator = kernel.operator
    launch = launcher(operator.name, "forward", None, action.device.type)
    ends = [*start, *[None] * (operator.starts - len(start)), start_index]
    if operator.goals:
        ends += [*goal, *[None] * (operator.goals - len(goal)), goal_index]
    scheme = operator.scheme((*kernel.scheme, None))
    outputs = out.unbind()
    if _writes_into(action.device):
        launch(action, *ends, dt, out=outputs, **scheme)
        return
    for target, output in zip(outputs, launch(action, *ends, dt, **scheme), strict=True):
        target.copy_(output)


def launch_vjp(
    kernel: ControlMap,
    upstream: Sequence[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    action: Tensor,
    start: Sequence[Tensor],
    goal: Sequence[Tensor] = (),
    goal_index: Tensor | None = None,
) -> None:
    """Compute the vjp of `upstream` into `action`, `[B, Ha, dof]`, `start` and `goal`, three times `[S, dof]` each."""
    operator = kernel.operator
    launch = launcher(operator.name, "vjp", None, action.device.type)
    needs = [True, *(i < len(start) for i in range(operator.starts))]
    indices = [start_index]
    arguments = {
        "start_rows": start[0].shape[0],
        "action_horizon": action.shape[1],
        "needs": needs,
        **operator.scheme((*kernel.scheme, None), vjp=True),
    }
    if operator.goals:
        needs += [i < len(goal) for i in range(operator.goals)]
        indices.append(goal_index)
        arguments["goal_rows"] = goal[0].shape[0] if goal else -1
    into = {"out": action} if _writes_into(action.device) else {}
    if default_backend(action.device) is Backend.TRITON and not operator.goals:
        into["start_out"] = [*start, *[None] * (operator.starts - len(start))]
    gradients = launch(*upstream, *indices, dt, **arguments, **into)
    if not into:
        action.copy_(gradients[0])
    first = 1 + operator.starts
    for targets, rows in ((start, gradients[1:first]), (goal, gradients[first:])):
        for target, row in zip(targets, rows, strict=False):
            if row is not target:
                target.copy_(row)


def _writes_into(device: torch.device) -> bool:
    return default_backend(device) is not Backend.REFERENCE
