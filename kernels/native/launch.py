"""The launchers of the NATIVE backend: tensors of any strides in, new or given tensors out, without autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..arguments import is_watched
from ..outputs import output_or_new
from ..reference import CENTRAL_EXTRA_HORIZON
from ..splines.form import SplineForm
from ..types import AccelerationIntegrator, BsplineLayout, Inputs, VjpInputs
from .extension import UNFIT
from .extension import extension as _C

_HALVES = (torch.float16, torch.bfloat16)
_WIDE = {"bspline": torch.float64}
"""Type in which float16 and bfloat16 are computed, if it is not float32."""
_EXTRA_ROWS = {"clique_central": CENTRAL_EXTRA_HORIZON}
"""Output rows beyond the actions."""
_RESULTS = 9
"""Gradients of a vjp: for the action, and for four rows each of start and goal."""


@functools.lru_cache(maxsize=64)
def spline_form(form: SplineForm) -> object:
    """Return the form with its tables, which the extension takes in place of a map's number."""
    return _C.spline_form(form.degree, form.steps, form.layout is BsplineLayout.CUROBO)


def map_of(name: str, integrator: AccelerationIntegrator | None = None, form: SplineForm | None = None) -> object:
    """Return the extension's name of a map with its scheme: a number, or a form."""
    if form is not None:
        return spline_form(form)
    return _C.map_numbers[name if integrator is None else f"{name}_{integrator.value}"]


def launchers(name: str) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor | None, ...]]]:
    """Return forward and vjp of the map `name`, as `backends` describes them."""
    wide = _WIDE.get(name, torch.float32)

    def forward(inputs: Inputs, *, out: Sequence[Tensor] | None = None, **scheme: object) -> tuple[Tensor, ...]:
        action = inputs.action
        if out is not None and action.dim() == 3:  # others are refused by the extension
            batch, actions, dof = action.shape
            rows = scheme["form"].rows(actions) if "form" in scheme else actions + _EXTRA_ROWS.get(name, 0)
            out = [output_or_new(to, (batch, rows, dof), action, f"out[{place}]") for place, to in enumerate(out)]
        if action.dtype in _HALVES:
            values = [None if value is None else value.to(wide) for value in inputs.values]
            outputs = forward(inputs._replace(values=values), **scheme)
            if out is None:
                return tuple(output.to(action.dtype) for output in outputs)
            return tuple(to.copy_(output) for to, output in zip(out, outputs, strict=True))
        results = _C.forward(map_of(name, **scheme), *_readable(inputs), out)
        if out is None:
            return results
        torch.autograd.graph.increment_version(out)
        return tuple(out)

    def vjp(
        inputs: VjpInputs,
        *,
        truncate_terminal_gradient: bool = False,
        out: Sequence[Tensor | None] | None = None,
        **scheme: object,
    ) -> tuple[Tensor | None, ...]:
        upstream, like = _plain(inputs.upstream), inputs.like
        *indices, dt = _plain((*inputs.indices, inputs.dt))
        is_half = like.dtype in _HALVES
        if is_half:
            upstream = [None if gradient is None else gradient.to(wide) for gradient in upstream]
        start, goal = inputs.rows
        counts = [inputs.action_horizon, *[start] * 4, *[goal] * 4]
        into = [None] * _RESULTS if out is None else _checked(out, inputs, counts)
        wanted = [
            None if not want else count if to is None or is_half else to
            for want, count, to in zip(inputs.needs, counts, into, strict=True)
        ]
        options = truncate_terminal_gradient, goal >= 0
        results = _C.vjp(map_of(name, **scheme), upstream, indices, dt.double(), *options, wanted)
        if is_half:
            results = [None if result is None else result.to(like.dtype) for result in results]
        written = [to for to in into if to is not None]
        if written and not is_half:
            torch.autograd.graph.increment_version(written)
        pairs = zip(results, into, strict=True)
        return tuple(result if to is None else to.copy_(result) if is_half else to for result, to in pairs)

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


def _checked(out: Sequence[Tensor | None], inputs: VjpInputs, counts: Sequence[int]) -> list[Tensor | None]:
    """The caller's memory for the gradients that are needed."""
    batch, _, dof = inputs.like.shape
    return [
        output_or_new(to, (count, dof) if place else (batch, count, dof), inputs.like, f"out[{place}]")
        if to is not None and want
        else None
        for place, (to, want, count) in enumerate(zip(out, inputs.needs, counts, strict=True))
    ]


def _readable(inputs: Inputs) -> Inputs:
    *indices, dt = _plain((*inputs.indices, inputs.dt))
    return Inputs(_plain(inputs.values), indices, dt.double())


def _plain(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The tensors, converted from subclasses."""
    return [one if one is None or type(one) is Tensor else one.as_subclass(Tensor) for one in tensors]
