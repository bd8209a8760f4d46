"""The launchers of the NATIVE backend: tensors of any strides in, new tensors out, without autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from ..arguments import is_watched
from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import AccelerationIntegrator, BsplineLayout, Inputs, VjpInputs
from .extension import UNFIT
from .extension import extension as _C

_HALVES = (torch.float16, torch.bfloat16)
_WIDE = {"bspline": torch.float64}
"""Type in which float16 and bfloat16 are computed, if it is not float32."""


@functools.lru_cache(maxsize=64)
def spline_form(form: SplineForm) -> object:
    """Return the form with its tables, which the extension takes in place of a map's number."""
    weights = np.concatenate(row_weights(form.degree, form.steps), axis=1)
    states = np.array(STATE_WEIGHTS[form.degree, form.head, form.has_jerk])
    return _C.spline_form(form.layout is BsplineLayout.CUROBO, weights, states)


def map_of(name: str, integrator: AccelerationIntegrator | None = None, form: SplineForm | None = None) -> object:
    """Return the extension's name of a map with its scheme: a number, or a form."""
    if form is not None:
        return spline_form(form)
    return _C.map_numbers[name if integrator is None else f"{name}_{integrator.value}"]


def launchers(name: str) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor | None, ...]]]:
    """Return forward and vjp of the map `name`, as `backends` describes them."""
    wide = _WIDE.get(name, torch.float32)

    def forward(inputs: Inputs, **scheme: object) -> tuple[Tensor, ...]:
        dtype = inputs.action.dtype
        if dtype in _HALVES:
            inputs = inputs._replace(values=[None if value is None else value.to(wide) for value in inputs.values])
        outputs = _C.forward(map_of(name, **scheme), *_readable(inputs), None)
        return tuple(output.to(dtype) for output in outputs) if dtype in _HALVES else outputs

    def vjp(
        inputs: VjpInputs, *, truncate_terminal_gradient: bool = False, **scheme: object
    ) -> tuple[Tensor | None, ...]:
        upstream, dtype = _plain(inputs.upstream), inputs.like.dtype
        *indices, dt = _plain((*inputs.indices, inputs.dt))
        if dtype in _HALVES:
            upstream = [None if gradient is None else gradient.to(wide) for gradient in upstream]
        start, goal = inputs.rows
        counts = [inputs.action_horizon, *[start] * 4, *[goal] * 4]
        wanted = [count if want else None for want, count in zip(inputs.needs, counts, strict=True)]
        options = truncate_terminal_gradient, goal >= 0
        results = _C.vjp(map_of(name, **scheme), upstream, indices, dt.double(), *options, wanted)
        return tuple(None if result is None else result.to(dtype) for result in results)

    return forward, vjp


def dt_gradient(name: str, inputs: Inputs, upstream: Sequence[Tensor | None], **scheme: object) -> Tensor | None:
    """Return the gradient of dt, float64, in its shape; None, having done nothing, if a tensor or mode rules it out."""
    tensors = [inputs.dt, *upstream, *inputs.values]
    recorded = any(tensor is not None and tensor.requires_grad for tensor in tensors)
    if is_watched() or (recorded and torch.is_grad_enabled()):
        return None
    result = torch.empty(inputs.dt.shape, dtype=torch.float64)
    gradients = [None if gradient is None else gradient.to(inputs.action.dtype) for gradient in upstream]
    try:
        _C.dt_gradient(map_of(name, **scheme), *_readable(inputs), gradients, result)
    except UNFIT:  # a dtype without loops, or a tensor without memory
        return None
    return result


def _readable(inputs: Inputs) -> Inputs:
    *indices, dt = _plain((*inputs.indices, inputs.dt))
    return Inputs(_plain(inputs.values), indices, dt.double())


def _plain(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors, converted from subclasses."""
    return [one if one is None or type(one) is Tensor else one.as_subclass(Tensor) for one in tensors]
