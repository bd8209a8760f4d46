"""B-splines between two states: launchers. The equations are those of `control_points`."""

import functools
from collections.abc import Sequence

import numpy as np
from torch import Tensor

from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import Inputs, VjpInputs
from .control_points import Segments


def bspline_forward(inputs: Inputs, *, form: SplineForm, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    used = form.used(inputs.action.shape[1], inputs.ends[1].rows[0] is not None)
    unused = {} if form.has_jerk else {"p_start_j": None, "p_goal_j": None}
    return _segments(form).forward(inputs, used, out, **unused)


def bspline_vjp(
    inputs: VjpInputs, *, form: SplineForm, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it."""
    return _segments(form).vjp(inputs, form.used(inputs.action_horizon, inputs.rows[1] >= 0), out)


@functools.lru_cache(maxsize=64)
def _segments(form: SplineForm) -> Segments:
    degree = form.degree
    states = np.array(STATE_WEIGHTS[degree, form.head, form.has_jerk])
    weights = row_weights(degree, form.steps)
    return Segments(weights, states, (degree - 1) / 2, (degree + 1) / 12, form.steps, closed=True)
