"""The launchers of the NATIVE backend: tensors of any strides in, new or given tensors out, without autograd."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..arguments import is_watched
from ..signature import first_given
from ..splines.form import SplineForm
from ..types import AccelerationIntegrator, BsplineLayout, End
from .extension import extension as _C

_HALVES = (torch.float16, torch.bfloat16)
_WIDE = {"bspline": torch.float64}
"""What float16 and bfloat16 are computed in, where it is not float32."""
_RESULTS = 9
"""Gradients of a vjp: of the action, and of four rows each of start and goal."""


@functools.lru_cache(maxsize=64)
def spline_form(form: SplineForm) -> object:
    """Return the form with its tables, as the extension takes it in place of the number of a map."""
    return _C.spline_form(form.degree, form.steps, form.layout is BsplineLayout.CUROBO)


def map_of(name: str, integrator: AccelerationIntegrator | None = None, form: SplineForm | None = None) -> object:
    """Return what the extension calls a map with its scheme: a number, or a form."""
    if form is not None:
        return spline_form(form)
    return _C.map_numbers[name if integrator is None else f"{name}_{integrator.value}"]


def launchers(name: str) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor | None, ...]]]:
    """Return forward and vjp of the map `name`, as `backends` describes them; `out` are tensors to write to."""
    wide = _WIDE.get(name, torch.float32)

    def forward(
        action: Tensor, *ends_dt: Tensor | None, out: Sequence[Tensor] | None = None, **scheme: object
    ) -> tuple[Tensor, ...]:
        if action.dtype in _HALVES:
            rows = [row.to(wide) if row is not None and row.dtype is action.dtype else row for row in ends_dt]
            outputs = forward(action.to(wide), *rows, **scheme)
            if out is None:
                return tuple(output.to(action.dtype) for output in outputs)
            return tuple(to.copy_(output) for to, output in zip(out, outputs, strict=True))
        *given, dt = [_readable(tensor) for tensor in ends_dt]
        ends = (given[:4], given[4], given[5:9], given[9]) if name == "bspline" else (given[:-1], given[-1], None, None)
        results = _C.forward(map_of(name, **scheme), _readable(action), *ends, dt.double(), out)
        if out is None:
            return results
        torch.autograd.graph.increment_version(out)
        return tuple(out)

    def vjp(
        *upstream_indices_dt: Tensor | None,
        start_rows: int,
        action_horizon: int,
        needs: Sequence[bool],
        goal_rows: int = -1,
        truncate_terminal_gradient: bool = False,
        out: Tensor | Sequence[Tensor | None] | None = None,
        **scheme: object,
    ) -> tuple[Tensor | None, ...]:
        given = [_readable(tensor) for tensor in upstream_indices_dt]
        upstream, indices, dt = given[:4], given[4:-1], given[-1].double()
        dtype = first_given(upstream).dtype
        if dtype in _HALVES:
            upstream = [None if gradient is None else gradient.to(wide) for gradient in upstream]
        into = [None] * _RESULTS if out is None else [out, *[None] * 8] if isinstance(out, Tensor) else [*out]
        counts = [action_horizon, *[start_rows] * 4, *[goal_rows] * 4]
        wanted = [*needs, *[False] * (_RESULTS - len(needs))]
        sizes = [
            None if not want else count if to is None else to
            for want, count, to in zip(wanted, counts, into, strict=True)
        ]
        goal, goal_index = (None, None) if goal_rows < 0 else (sizes[5:], indices[1])
        results = _C.vjp(
            map_of(name, **scheme),
            upstream,
            indices[0],
            goal_index,
            dt,
            truncate_terminal_gradient,
            sizes[0],
            sizes[1:5],
            goal,
        )
        written = [to for want, to in zip(wanted, into, strict=True) if want and to is not None]
        if written:
            torch.autograd.graph.increment_version(written)
        results = [result if to is None else to for result, to, _ in zip(results, into, needs, strict=False)]
        return tuple(None if result is None else result.to(dtype) for result in results)

    return forward, vjp


def dt_gradient(
    name: str,
    upstream: tuple[Tensor | None, ...],
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    **scheme: object,
) -> Tensor | None:
    """Return the gradient of dt, float64, in its shape; None, having done nothing, if a tensor or mode rules it out."""
    tensors = [action, dt, *upstream, *(row for end in ends for row in end.rows)]
    if not _are_plain([tensor for tensor in tensors if tensor is not None]):
        return None
    result = torch.empty(dt.shape, dtype=torch.float64)
    flat = [argument for end in (*ends, End((), None))[:2] for argument in (list(map(_readable, end.rows)), end.index)]
    gradients = [None if gradient is None else gradient.to(action.dtype) for gradient in upstream]
    _C.dt_gradient(map_of(name, **scheme), action, *flat, dt.double(), gradients, result)
    return result


def _readable(tensor: Tensor | None) -> Tensor | None:
    """The tensor as the extension reads it: no subclass."""
    return tensor if tensor is None or type(tensor) is Tensor else tensor.as_subclass(Tensor)


def _are_plain(tensors: Sequence[Tensor]) -> bool:
    """Whether no tracing, transform or differentiation is active, and the loops have code for the dtype."""
    if is_watched() or tensors[0].dtype not in (torch.float32, torch.float64):
        return False
    if any(type(tensor) not in (Tensor, torch.nn.Parameter) for tensor in tensors):
        return False
    if any(torch._C._functorch.is_legacy_batchedtensor(tensor) for tensor in tensors):  # of is_grads_batched
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors))
