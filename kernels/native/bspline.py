"""Launchers of the B-spline map."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch._functorch.pyfunctorch import temporarily_clear_interpreter_stack
from torch.utils._python_dispatch import _disable_current_modes

from ..arguments import is_watched
from ..splines.form import SplineForm
from ..splines.weights import row_weights, state_weights
from ..types import BsplineLayout, End
from .extension import extension as _C


def bspline_forward(
    action: Tensor, *ends_dt: Tensor | None, form: SplineForm, out: Sequence[Tensor] | None = None
) -> tuple[Tensor, ...]:
    """Rows of a spline from control points, start, goal and dt; see `backends`."""
    start, start_index, goal, goal_index, dt = ends_dt[:4], ends_dt[4], ends_dt[5:9], ends_dt[9], ends_dt[10]
    return tuple(_C.spline_forward(spline_form(form), action, start, start_index, goal, goal_index, dt, out))


def bspline_vjp(
    *upstream_indices_dt: Tensor | None,
    start_rows: int,
    goal_rows: int,
    action_horizon: int,
    needs: Sequence[bool],
    form: SplineForm,
    out: Tensor | Sequence[Tensor | None] | None = None,
) -> tuple[Tensor | None, ...]:
    """Gradients of control points, start and goal; see `backends`. `out` may be all nine of them."""
    *upstream, start_index, goal_index, dt = upstream_indices_dt
    into = (out, *[None] * 8) if isinstance(out, Tensor) else out
    counts = (start_rows, goal_rows, action_horizon)
    return tuple(_C.spline_vjp(spline_form(form), upstream, start_index, goal_index, dt, *counts, needs, into))


def bspline_dt_gradient(
    upstream: Sequence[Tensor | None], action: Tensor, ends: Sequence[End], dt: Tensor, form: SplineForm
) -> Tensor | None:
    """Gradient of dt, float64 in its shape; None (nothing is done) if a tensor or an active mode rules it out."""
    start, goal = ends
    tensors = [action, dt, *upstream, *start.rows, *goal.rows]
    if not _is_plain([tensor for tensor in tensors if tensor is not None]):
        return None
    states = (start.rows, start.index, goal.rows, goal.index)
    return _C.spline_dt_gradient(spline_form(form), upstream, action, *states, dt)


def _is_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether no tracing, transform or differentiation is active, and the loops have code for the dtype."""
    if is_watched() or tensors[0].dtype not in (torch.float32, torch.float64):
        return False
    if any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in tensors):
        return False
    if any(torch._C._functorch.is_legacy_batchedtensor(tensor) for tensor in tensors):  # of is_grads_batched
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))


@functools.lru_cache(maxsize=64)
def spline_form(form: SplineForm) -> _C.SplineForm:
    """Return the form with its tables, as the loops take it."""
    weights = np.concatenate(row_weights(form.degree, form.steps), axis=1)
    states = state_weights(form.degree, form.head, form.has_jerk).copy()
    ignores_last = form.layout is BsplineLayout.CUROBO
    # The tables are kept: what a transform or a mode adds to tensors that are made while it is active must not be.
    with temporarily_clear_interpreter_stack(), _disable_current_modes():
        tables = (torch.from_numpy(weights), torch.from_numpy(states))
    return _C.SplineForm(form.degree, form.steps, form.head, ignores_last, *tables)
