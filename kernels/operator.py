"""One differentiable torch operator for each control map, and one for its vjp.

`StepOperator` registers `traj_integrator::<map>_forward` and `traj_integrator::<map>_vjp` with torch: schema, shapes
(fake), batching (`torch.vmap`) and derivatives of any order in reverse and forward mode. Each is the other's
derivative, since the maps are linear in everything but dt (`derivatives`). What computes them is a backend
(`backends`); derivatives with respect to dt are computed in float64 if they are requested, by kernels or by
the reference.

The derivatives are registered at torch's autograd key: they belong to the operator itself, which stays one opaque node
for `torch.compile` and `torch.export`, and it behaves the same under every `torch.func` transform.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from .arguments import is_watched
from .backends import launcher
from .derivatives import derivative
from .signature import Signature
from .types import TENSORS, Inputs, VjpInputs, decoded_rows, first_given


class StepOperator(Signature):
    """The operator pair of one control map: `forward` and `vjp`, registered with torch under its name."""

    def __init__(self, name: str, starts: int = 3, **signature: object) -> None:
        """Register the operators; the arguments are those of `Signature`."""
        super().__init__(name, starts, **signature)
        _REGISTERED[name] = self
        self.forward = self._register("forward", self.forward_schema)
        self.vjp = self._register("vjp", self.vjp_schema)

    def __reduce__(self) -> tuple[Callable[[str], StepOperator], tuple[str]]:
        """Pickle and copy by name: torch has one operator of each name."""
        return _registered, (self.name,)

    def _register(self, direction: str, schema: str) -> torch._ops.OpOverload:
        """Define an operator with everything that torch can do with it."""
        name = f"{self.name}_{direction}"
        _LIBRARY.define(name + schema, tags=torch.Tag.pt2_compliant_tag)
        operator, node = getattr(torch.ops.traj_integrator, name).default, derivative(self, direction)

        def below_autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
            with torch._C._AutoDispatchBelowAutograd():
                return operator.redispatch(keyset & torch._C._after_autograd_keyset, *arguments)

        def autograd(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
            if not _is_differentiated(arguments[: TENSORS[direction]]):
                return below_autograd(keyset, *arguments)
            if not torch._C._are_functorch_transforms_active():
                return node.apply(keyset, *arguments)
            with enable_single_level_autograd_function():
                return node.apply(keyset, *arguments)

        def forward(keyset: torch._C.DispatchKeySet, *arguments) -> tuple[Tensor | None, ...]:
            if not torch._C._are_functorch_transforms_active():
                return below_autograd(keyset, *arguments)
            # The node switches differentiation off for its own level; nested transforms need it for the outer levels.
            with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
                return below_autograd(keyset, *arguments)

        node.forward = staticmethod(forward)
        _LIBRARY.impl(name, getattr(self, f"_run_{direction}"), "CompositeExplicitAutograd")
        _LIBRARY.impl(name, autograd, "Autograd", with_keyset=True)
        torch.library.register_fake(f"traj_integrator::{name}", getattr(self, f"_fake_{direction}"), lib=_LIBRARY)
        torch.library.register_vmap(operator, getattr(self, f"_vmap_{direction}"), lib=_LIBRARY)
        return operator

    def _run_forward(self, *arguments) -> tuple[Tensor, ...]:
        inputs, options = Inputs.split(arguments)
        launch = launcher(self.name, "forward", options[-1], inputs.action.device.type)
        return tuple(launch(inputs, **self.scheme(options)))

    def _fake_forward(self, *arguments) -> tuple[Tensor, ...]:
        inputs, options = Inputs.split(arguments)
        batch, horizon, dof = inputs.action.shape
        return tuple(inputs.action.new_empty(batch, self.output_horizon(horizon, options), dof) for _ in range(4))

    def _vmap_forward(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple, tuple]:
        size = info.batch_size
        (inputs, options), (dims, _) = Inputs.split(arguments), Inputs.split(in_dims)
        values = [_fold(one, dim, size) for one, dim in zip(inputs.values, dims.values, strict=True)]
        batch = values[0].shape[0] // size
        counts = [end.count // size for end in inputs._replace(values=values).ends]
        indices = _fold_indices(inputs.indices, dims.indices, counts, size, batch, values[0].device)
        folded = Inputs(values, indices, _fold_dt(inputs.dt, dims.dt, size, batch))
        outputs = self.forward(*folded.arguments, *options)
        return _unfold(outputs, size), (0,) * len(outputs)

    def _run_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        inputs, options = VjpInputs.split(arguments)
        launch = launcher(self.name, "vjp", options[-1], inputs.like.device.type)
        return tuple(launch(inputs, **self.scheme(options, vjp=True)))

    def _fake_vjp(self, *arguments) -> tuple[Tensor | None, ...]:
        inputs, _ = VjpInputs.split(arguments)
        batch, _, dof = inputs.like.shape
        shapes = [(batch, inputs.action_horizon, dof)]
        for rows in inputs.rows:
            shapes += [(rows, dof)] * 4
        pairs = zip(shapes, inputs.needs, strict=True)
        return tuple(inputs.like.new_empty(shape) if needed else None for shape, needed in pairs)

    def _vmap_vjp(self, info, in_dims: Sequence[int | None], *arguments) -> tuple[tuple[Tensor | None, ...], tuple]:
        size = info.batch_size
        (inputs, options), (dims, _) = VjpInputs.split(arguments), VjpInputs.split(in_dims)
        upstream = [_fold(one, dim, size) for one, dim in zip(inputs.upstream, dims.upstream, strict=True)]
        like = first_given(upstream)
        batch = like.shape[0] // size
        rows = decoded_rows(inputs.counts, inputs.indices, batch)
        indices = _fold_indices(inputs.indices, dims.indices, rows, size, batch, like.device)
        counts = [count if count < 0 else size * count for count in inputs.counts]
        dt = _fold_dt(inputs.dt, dims.dt, size, batch)
        folded = inputs._replace(upstream=upstream, indices=indices, dt=dt, counts=counts)
        gradients = self.vjp(*folded.arguments, *options)
        return _unfold(gradients, size), tuple(None if gradient is None else 0 for gradient in gradients)


_LIBRARY = torch.library.Library("traj_integrator", "FRAGMENT")
_REGISTERED: dict[str, StepOperator] = {}


def _registered(name: str) -> StepOperator:
    return _REGISTERED[name]


def _is_differentiated(tensors: Sequence[Tensor | None]) -> bool:
    """Return whether autograd has to see an operator: a tensor requires grad, or may carry a tangent."""
    if torch.is_grad_enabled():
        for tensor in tensors:
            if tensor is not None and tensor.requires_grad:
                return True
    # Looking for a tangent takes longer than the backend itself, so it is skipped where no tangent can exist. While
    # torch traces a compiled graph, a dual level that the graph enters is not visible here, but then a mode is active.
    return is_watched() and torch._C._is_fwd_grad_enabled()


# How `torch.vmap` maps an operator over one more dimension: by folding it into the batch.


def _fold(tensor: Tensor | None, dim: int | None, size: int) -> Tensor | None:
    """Fold the mapped dimension (None: the same tensor for all) into the first one: `[V, N, ...]` to `[V N, ...]`."""
    if tensor is None:
        return None
    stacked = tensor.expand(size, *tensor.shape) if dim is None else tensor.movedim(dim, 0)
    return stacked.reshape(-1, *stacked.shape[2:])


def _fold_dt(dt: Tensor, dim: int | None, size: int, batch: int) -> Tensor:
    """Fold step lengths `[1 or B, 1 or H]`."""
    if dim is None:
        return dt if dt.shape[0] == 1 else dt.repeat(size, 1)
    stacked = dt.movedim(dim, 0)
    return stacked.expand(size, batch, stacked.shape[2]).reshape(size * batch, -1)


def _fold_indices(
    indices: Sequence[Tensor | None],
    dims: Sequence[int | None],
    counts: Sequence[int],
    size: int,
    batch: int,
    device: torch.device,
) -> list[Tensor | None]:
    """Row of the folded pool `[V S, D]` for each folded trajectory; None if they already correspond."""
    folded: list[Tensor | None] = []
    for index, dim, rows in zip(indices, dims, counts, strict=True):
        if index is None and (rows == batch or rows < 0):
            folded.append(None)
            continue
        offset = torch.arange(0, size * rows, rows, device=device)[:, None]
        # Without an index, one row for all trajectories becomes one row for each mapped slice.
        own = 0 if index is None else index if dim is None else index.movedim(dim, 0)
        folded.append((offset + own).expand(size, batch).reshape(-1))
    return folded


def _unfold(tensors: Sequence[Tensor | None], size: int) -> tuple[Tensor | None, ...]:
    """Restore the mapped dimension of the results, as the first one."""
    return tuple(None if tensor is None else tensor.unflatten(0, (size, -1)) for tensor in tensors)
