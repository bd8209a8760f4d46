"""Derivatives of the control maps with respect to dt: by the C++ kernel, or by compositions.

Higher derivatives use the compositions in float64, since torch can differentiate each of their operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad

from . import reference_backend
from .backends import Backend
from .sharding import is_sharded, shards
from .types import End


def vjp(
    name: str,
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    upstream: Sequence[Tensor | None],
    scheme: dict[str, object],
    backend: str | None = None,
) -> Tensor:
    """Return the gradient of dt, given those of the map's four outputs (None for zero); `ends` are start and goal."""
    if is_sharded(action):
        compute = functools.partial(vjp, name, scheme=scheme, backend=backend)
        return shards().dt_gradient(compute, action, ends, dt, upstream)
    kernel = _kernel(backend, action.device)
    if kernel is not None:
        gradient = kernel(name, tuple(upstream), action, ends, dt, **scheme)
        if gradient is not None:
            return gradient.to(dt.dtype)
    widened = tuple(None if gradient is None else gradient.double() for gradient in upstream)
    gradient = reference_backend.dt_gradient(name, widened, action, ends, dt.double()[..., None], **scheme)
    if gradient is None:
        return torch.zeros_like(dt)
    for dim in (0, 1):
        if dt.shape[dim] == 1:
            gradient = gradient.sum(dim, keepdim=True)
    return gradient.to(dt.dtype)


def push_forward(launch: str, arguments: Sequence[object], dt_place: int, tangent: Tensor, **options: object) -> list:
    """Tangents of a reference launcher's results for a tangent of dt, the argument at `dt_place`; None if zero.

    Runs inside a dual level that the caller has entered: torch cannot nest dual levels.
    """
    dual = list(arguments)
    dual[dt_place] = forward_ad.make_dual(dual[dt_place], tangent, level=0)
    results = getattr(reference_backend, launch)(*dual, **options)
    return [None if result is None else _tangent(result) for result in results]


def primals(tensors: Sequence[Tensor | None]) -> list[Tensor | None]:
    """Return the tensors without their forward-mode tangents."""
    return [
        forward_ad.unpack_dual(tensor, level=0).primal if tensor is not None and tensor.is_floating_point() else tensor
        for tensor in tensors
    ]


@functools.cache
def _kernel(backend: str | None, device: torch.device) -> Callable[..., Tensor | None] | None:
    """The kernel that computes the gradient of dt where that is not differentiated itself; None if there is none."""
    if backend in (None, Backend.NATIVE) and device.type == "cpu":
        try:
            from . import native
        except ImportError:
            return None
        return native.dt_gradient
    return None


def _tangent(result: Tensor) -> Tensor:
    tangent = forward_ad.unpack_dual(result, level=0).tangent
    return torch.zeros_like(result) if tangent is None else tangent
