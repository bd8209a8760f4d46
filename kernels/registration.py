"""Registers an operator with torch: schema, computation, shapes, batching, and its autograd node."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from .sharding import is_sharded

_LIBRARY = torch.library.Library("traj_integrator", "FRAGMENT")


def register(
    name: str,
    schema: str,
    *,
    run: Callable,
    fake: Callable,
    vmap: Callable,
    derivative: type[_SingleLevelFunction],
    dt_place: int,
    ensure_rules: Callable[[], None],
) -> torch._ops.OpOverload:
    """Define an operator and everything that torch can do with it; its tensors are the arguments up to `dt_place`.

    `ensure_rules` is called before DTensors are passed to it.
    """
    _LIBRARY.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
    operator = getattr(torch.ops.traj_integrator, name).default

    def below_autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        with torch._C._AutoDispatchBelowAutograd():
            return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

    def autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        if is_sharded(next(tensor for tensor in arguments if tensor is not None)):
            ensure_rules()
        if not _is_differentiated(arguments[: dt_place + 1]):
            return below_autograd(keyset, *arguments)
        if not torch._C._are_functorch_transforms_active():
            return derivative.apply(keyset, *arguments)
        with enable_single_level_autograd_function():
            return derivative.apply(keyset, *arguments)

    def forward(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
        if not torch._C._are_functorch_transforms_active():
            return below_autograd(keyset, *arguments)
        # The node switches differentiation off for its own level; under nested transforms the outer levels need theirs.
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
            return below_autograd(keyset, *arguments)

    derivative.forward = staticmethod(forward)
    _LIBRARY.impl(name, run, "CompositeExplicitAutograd")
    _LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
    torch.library.register_fake(f"traj_integrator::{name}", fake, lib=_LIBRARY)
    torch.library.register_vmap(operator, vmap, lib=_LIBRARY)
    return operator


def _is_differentiated(tensors: Sequence[Tensor | None]) -> bool:
    """Whether autograd has to see an operator: a tensor requires grad, or one may carry a tangent."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    # Looking for a tangent takes longer than the backend itself, so it is skipped where no tangent can exist. While
    # torch traces a compiled graph, a dual level that the graph enters is not visible here, but then a mode is active.
    maybe_dual = (
        forward_ad._current_level >= 0
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
    )
    return maybe_dual and torch._C._is_fwd_grad_enabled()
