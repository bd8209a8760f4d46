"""Positions to derivatives by five-point central differences: launchers.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

These are segments (`control_points`) of one row and five points, and the start is four points of its arc.
"""

import math
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..types import Inputs, VjpInputs
from .control_points import Segments

# The equations in terms of first, second and third differences of e[h-3] to e[h+1].
_WEIGHTS = [[0, 0, 1, 0, 0]], [[-1 / 12, 7 / 12, 7 / 12, -1 / 12]], [[-1 / 12, 14 / 12, -1 / 12]], [[1 / 2, 1 / 2]]
_STATES = [[place**kind / math.factorial(kind) for kind in range(4)] for place in (-3, -2, -1, 0)]
_SEGMENTS = Segments([np.array(one, dtype=float) for one in _WEIGHTS], np.array(_STATES), centre=3.0)


def clique_central_forward(inputs: Inputs, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    return _SEGMENTS.forward(inputs, inputs.action.shape[1], out)


def clique_central_vjp(
    inputs: VjpInputs, *, truncate_terminal_gradient: bool = False, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it; truncated, the last action has that of the positions alone."""
    return _SEGMENTS.vjp(inputs, inputs.action_horizon, out, truncate=truncate_terminal_gradient)
