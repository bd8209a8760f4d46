"""The maps' launchers on device tensors, writing into tensors of the caller's wherever the backend can."""

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
) -> None:
    """Integrate into `out`, contiguous `[4, B, H, dof]`; the other arguments as for the launchers in `kernels`."""
    operator = kernel.operator
    launch = launcher(operator.name, "forward", None, action.device.type)
    rows = [*start, *[None] * (operator.starts - len(start))]
    scheme = operator.scheme((*kernel.scheme, None))
    outputs = out.unbind()
    if _writes_into(action.device):
        launch(action, *rows, start_index, dt, out=outputs, **scheme)
        return
    for target, output in zip(outputs, launch(action, *rows, start_index, dt, **scheme), strict=True):
        target.copy_(output)


def launch_vjp(
    kernel: ControlMap,
    upstream: Sequence[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    action: Tensor,
    start: Sequence[Tensor],
) -> None:
    """Pull `upstream` back into `action`, `[B, Ha, dof]`, and `start`, three times `[S, dof]`."""
    operator = kernel.operator
    launch = launcher(operator.name, "vjp", None, action.device.type)
    needs = (True, *(i < len(start) for i in range(operator.starts)))
    arguments = {
        "start_rows": start[0].shape[0],
        "action_horizon": action.shape[1],
        "needs": needs,
        **operator.scheme((*kernel.scheme, None), vjp=True),
    }
    into = {"out": action} if _writes_into(action.device) else {}
    gradients = launch(*upstream, start_index, dt, **arguments, **into)
    if not into:
        action.copy_(gradients[0])
    for target, rows in zip(start, gradients[1:], strict=False):
        target.copy_(rows)


def _writes_into(device: torch.device) -> bool:
    return default_backend(device) is not Backend.REFERENCE
