"""Host memory for the results of a call, in all the forms in which they are needed."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from torch import Tensor

from ..kernels import Trajectory
from .types import Gradient, GradientArrays


class ForwardResults(NamedTuple):
    """`[4, B, H, dof]` in three forms."""

    tensor: Tensor
    array: np.ndarray
    trajectory: Trajectory

    @classmethod
    def of(cls, flat: Tensor, shape: tuple[int, ...]) -> ForwardResults:
        """View flat memory as results of `shape`."""
        tensor = flat.view(shape)
        return cls(tensor, tensor.numpy(), Trajectory(*tensor.unbind()))


class VjpResults(NamedTuple):
    """Gradients of actions and start rows in two forms."""

    tensors: Gradient
    arrays: GradientArrays

    @classmethod
    def of(cls, flat: Tensor, shape: tuple[int, ...]) -> VjpResults:
        """View flat memory as results of `shape`, which is that of `gradient_size`."""
        rows, batch, horizon, dof, goal_rows, goals = shape
        parts = flat.split([batch * horizon * dof, *[rows * dof] * 3, *[goal_rows * dof] * goals])
        views = [parts[0].view(batch, horizon, dof), *(part.view(-1, dof) for part in parts[1:])]
        arrays = [view.numpy() for view in views]
        return cls(Gradient(*views[:4], None, *views[4:]), GradientArrays(*arrays[:4], None, flat.numpy(), *arrays[4:]))


def gradient_size(shape: tuple[int, ...]) -> int:
    """Size of all gradients except that of dt: `shape` is start rows, B, Ha, dof, goal rows, and kinds of goal row."""
    rows, batch, horizon, dof, goal_rows, goals = shape
    return (batch * horizon + 3 * rows + goals * goal_rows) * dof
