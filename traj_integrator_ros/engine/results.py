"""Host memory for the results of a call, as tensors for the runners and as arrays for the caller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from .types import GradientArrays


class Results(NamedTuple):
    """The same memory in two forms."""

    tensors: tuple[Tensor, ...]
    """As `Call.results` has them."""
    arrays: np.ndarray | GradientArrays


def trajectory_memory(shape: tuple[int, ...], flat: Tensor) -> Results:
    """View flat memory as trajectories `[4, B, H, dof]`."""
    tensor = flat.view(shape)
    return Results((tensor,), tensor.numpy())


def gradient_memory(shape: tuple[int, ...], flat: Tensor) -> Results:
    """View flat memory as gradients; `shape` is that of `gradient_size`."""
    rows, batch, horizon, dof, goal_rows, goals = shape
    parts = flat.split([batch * horizon * dof, *[rows * dof] * 3, *[goal_rows * dof] * goals])
    views = (parts[0].view(batch, horizon, dof), *(part.view(-1, dof) for part in parts[1:]))
    arrays = [view.numpy() for view in views]
    return Results(views, GradientArrays(*arrays[:4], None, flat.numpy(), *arrays[4:]))


def gradient_size(shape: tuple[int, ...]) -> int:
    """Size of all gradients except that of dt: `shape` is start rows, B, Ha, dof, goal rows, and kinds of goal row."""
    rows, batch, horizon, dof, goal_rows, goals = shape
    return (batch * horizon + 3 * rows + goals * goal_rows) * dof
