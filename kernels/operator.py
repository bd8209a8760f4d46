"""One differentiable torch operator for each control map, and one for its vjp.

`StepOperator` registers `traj_integrator::<map>_forward` and `traj_integrator::<map>_vjp` with torch: schema, shapes
(fake), batching (`torch.vmap`) and derivatives of any order in reverse and forward mode. Each is the other's
derivative, since the maps are linear in everything but dt (`step_derivatives`). What computes them is a backend
(`backends`); derivatives with respect to dt are computed in float64 if they are requested, by kernels or by
compositions (`dt_derivatives`).

The derivatives are registered at torch's autograd key: they belong to the operator itself, which stays one opaque node
for `torch.compile` and `torch.export`, and it behaves the same under every `torch.func` transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from .arguments import is_watched
from .backends import launcher
from .batching import fold, fold_dt, fold_start_index, unfold
from .sharding import is_sharded, rules
from .signature import Signature, first_given
from .step_derivatives import forward_derivative, vjp_derivative
from .types import End, counted


class StepOperator(Signature):
    """The operator pair of one control map: `forward` and `vjp`, registered with torch under its name."""

    def __init__(self, name: str, *rows: Sequence[str], **signature: object) -> None:
        """Register the operators; the arguments are those of `Signature`."""
        super().__init__(name, *rows, **signature)
        _REGISTERED[name] = self
        self.forward = _register(
            f"{name}_forward",
            self.forward_schema,
            run=self._run_forward,
            fake=self._fake_forward,
            vmap=self._vmap_forward,
            derivative=forward_derivative(self),
            dt_place=self.dt_place,
            ensure_rules=self.ensure_rules,
        )
        self.vjp = _register(
            f"{name}_vjp",
            self.vjp_schema,
            run=self._run_vjp,
            fake=self._fake_vjp,
            vmap=self._vmap_vjp,
            derivative=vjp_derivative(self),
            dt_place=self.vjp_dt_place,
            ensure_rules=self.ensure_rules,
        )

    def __reduce__(self) -> tuple[Callable[[str], StepOperator], tuple[str]]:
        """Pickle and copy by name: torch has one operator of each name."""
        return _registered, (self.name,)

    def ensure_rules(self) -> None:
        """Register the sharding rules, so that DTensors pass through the operators."""
        rules().ensure_rules(self)

    def _run_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, ends, dt, options = self.split(arguments)
        launch = launcher(self.name, "forward", options[-1], action.device.type)
        return tuple(launch(action, *self.flat(ends), dt, **self.scheme(options)))

    def _fake_forward(self, *arguments) -> tuple[Tensor, ...]:
        action, _, _, options = self.split(arguments)
        batch, horizon, dof = action.shape
        return tuple(action.new_empty(batch, self.output_horizon(horizon, options), dof) for _ in range(4))

    def _vmap_forward(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple, tuple]:
        size = info.batch_size
        action, ends, dt, options = self.split(arguments)
        action_dim, end_dims, dt_dim, _ = self.split(in_dims)
        action = fold(action, action_dim, size)
        batch = action.shape[0] // size
        folded = []
        for end, dims in zip(ends, end_dims, strict=True):
            rows = [fold(row, dim, size) for row, dim in zip(end.rows, dims.rows, strict=True)]
            count = next((row.shape[0] // size for row in rows if row is not None), batch)
            folded.append(End(rows, fold_start_index(end.index, dims.index, size, batch, count, action.device)))
        outputs = self.forward(action, *self.flat(folded), fold_dt(dt, dt_dim, size, batch), *options)
        return unfold(outputs, size), (0,) * len(outputs)

    def _run_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        upstream, indices, dt, counts, action_horizon, needs, options = self.split_vjp(arguments)
        like = first_given(upstream)
        return launcher(self.name, "vjp", options[-1], like.device.type)(
            *upstream,
            *indices,
            dt,
            **self.counts(counts, indices, like.shape[0]),
            action_horizon=action_horizon,
            needs=tuple(needs),
            **self.scheme(options, vjp=True),
        )

    def _fake_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        upstream, indices, _, counts, action_horizon, needs, _ = self.split_vjp(arguments)
        like = first_given(upstream)
        batch, _, dof = like.shape
        shapes = [(batch, action_horizon, dof)]
        for rows, count in zip(self.ends, counted(counts, indices, batch), strict=True):
            shapes += [(count, dof)] * rows
        return tuple(like.new_empty(shape) if needed else None for shape, needed in zip(shapes, needs, strict=True))

    def _vmap_vjp(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple[Tensor | None, ...], tuple]:
        size = info.batch_size
        upstream, indices, dt, counts, *rest, options = self.split_vjp(arguments)
        upstream_dims, index_dims, dt_dim, *_ = self.split_vjp(in_dims)
        upstream = [fold(g, dim, size) for g, dim in zip(upstream, upstream_dims, strict=True)]
        like = first_given(upstream)
        batch = like.shape[0] // size
        indices = [
            None if count < 0 else fold_start_index(index, dim, size, batch, count, like.device)
            for index, dim, count in zip(indices, index_dims, counted(counts, indices, batch), strict=True)
        ]
        dt = fold_dt(dt, dt_dim, size, batch)
        counts = [count if count < 0 else size * count for count in counts]
        gradients = self.vjp(*upstream, *indices, dt, *counts, *rest, *options)
        return unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)


_REGISTERED: dict[str, StepOperator] = {}


def _registered(name: str) -> StepOperator:
    return _REGISTERED[name]


_LIBRARY = torch.library.Library("traj_integrator", "FRAGMENT")


def _register(
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
    return is_watched() and torch._C._is_fwd_grad_enabled()
