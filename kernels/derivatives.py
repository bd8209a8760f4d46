"""Derivatives of the step operators: their autograd nodes, and the gradient of dt.

The maps are linear in actions, start and goal, so that a map and its vjp are each other's derivative, and one kind of
node serves both. A node saves the step lengths and the indices, and other inputs only if the gradient of dt is wanted.
A C++ kernel computes that gradient, or the reference in float64, which torch can differentiate again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import reference_backend
from .backends import Backend, native_kernels
from .signature import Signature
from .types import TENSORS, Inputs, VjpInputs, decoded_rows, encoded_rows, first_given

Tensors = Sequence[Tensor | None]


def dt_gradient(
    name: str, inputs: Inputs, upstream: Tensors, scheme: dict[str, object], backend: str | None = None
) -> Tensor:
    """Return the gradient of dt, given those of the map's four outputs (None for zero)."""
    native = native_kernels() if backend in (None, Backend.NATIVE) and inputs.action.device.type == "cpu" else None
    # The loops do not compute it if it is differentiated itself.
    gradient = None if native is None else native.dt_gradient(name, inputs, upstream, **scheme)
    if gradient is None:
        gradient = reference_backend.dt_gradient(name, inputs, upstream, **scheme)
    return gradient.to(inputs.dt.dtype)


class _Call(NamedTuple):
    """A call of a map, or of its vjp, without the tensors in which it is linear."""

    indices: Tensors
    """Indices of start and goal."""
    dt: Tensor
    counts: Sequence[int]
    """Numbers of start and goal rows, as `VjpInputs` has them."""
    shape: tuple[int, int, int]
    """Shape of the actions."""
    needs: Sequence[bool]
    """Flags of the wanted results of a vjp."""
    options: Sequence[object]

    def vjp_inputs(self, upstream: Tensors, needs: Sequence[bool]) -> VjpInputs:
        """Inputs of the vjp with these upstream gradients."""
        return VjpInputs(upstream, self.indices, self.dt, self.counts, self.shape[1], needs)

    def moved(self, values: Tensors) -> Inputs:
        """Return the inputs of the map for tangents; actions without a tangent are zeros.

        A goal without a tangent is zeros, too, because the map without a goal is another map. If no row has a tangent,
        there is no pool, and so no index.
        """
        values, batch = list(values), self.shape[0]
        if values[0] is None:
            values[0] = first_given(values).new_zeros(self.shape)
        goals = decoded_rows(self.counts, self.indices, batch)[1]
        if goals >= 0 and values[5] is None:
            values[5] = values[0].new_zeros(goals, self.shape[2])
        ends = Inputs(values, self.indices, self.dt).ends
        indices = [end.index if any(row is not None for row in end.rows) else None for end in ends]
        return Inputs(values, indices, self.dt)


def derivative(operator: Signature, direction: str) -> type[_SingleLevelFunction]:
    """Build the autograd node of a map ("forward"), or of its vjp ("vjp"), without its forward, which the operator
    adds.

    The node's arguments are the dispatch keys, then those of the operator.
    """
    is_vjp = direction == "vjp"
    linear_places, dt_place = slice(1, 5 if is_vjp else 10), TENSORS[direction]
    launch = reference_backend.launchers(operator.name)[is_vjp]

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        linear, call = (_split_vjp if is_vjp else _split)(inputs[1:])
        ctx.set_materialize_grads(False)
        saved = (*call.indices, call.dt)
        ctx.save_for_backward(*saved, *(linear if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(*saved, *linear)
        ctx.call = call._replace(indices=(), dt=None)

    def restored(ctx, tensors: Tensors) -> tuple[Tensors, _Call]:
        return tensors[3:], ctx.call._replace(indices=tensors[:2], dt=tensors[2])

    def backward(ctx, *cotangents: Tensor | None) -> Tensors:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if all(cotangent is None for cotangent in cotangents):
            return tuple(results)
        linear, call = restored(ctx, ctx.saved_tensors)
        needs = ctx.needs_input_grad[linear_places]
        upstream = linear if is_vjp else cotangents
        inputs = call.moved(cotangents) if is_vjp else Inputs(linear, call.indices, call.dt)
        if any(needs):
            if is_vjp:
                gradients = _forward(operator, call, inputs, needs)
            else:
                gradients = operator.vjp(*call.vjp_inputs(upstream, needs).arguments, *call.options)
            results[linear_places] = [one if need else None for one, need in zip(gradients, needs, strict=True)]
        if ctx.needs_input_grad[dt_place]:
            results[dt_place] = _dt_gradient(operator, call, inputs, upstream, truncates=is_vjp)
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> Tensors:
        # Torch switches forward mode off for all levels; an outer one has to see these operations.
        with forward_ad._set_fwd_grad_enabled(True):
            linear, call = restored(ctx, [_primal(tensor) for tensor in ctx.saved_tensors])
            moved, dt = tangents[linear_places], tangents[dt_place]
            results = None
            if any(tangent is not None for tangent in moved):
                if is_vjp:
                    results = operator.vjp(*call.vjp_inputs(moved, call.needs).arguments, *call.options)
                else:
                    results = operator.forward(*call.moved(moved).arguments, *call.options)
            if dt is not None:
                # Inside a dual level that the caller has entered: torch cannot nest them.
                dual = call._replace(dt=forward_ad.make_dual(call.dt, dt, level=0))
                inputs = dual.vjp_inputs(linear, call.needs) if is_vjp else Inputs(linear, dual.indices, dual.dt)
                by_dt = launch(inputs, **operator.scheme(call.options, vjp=is_vjp))
                by_dt = [None if result is None else _tangent(result) for result in by_dt]
                results = by_dt if results is None else [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
            return tuple(results)

    name = "".join(word.capitalize() for word in operator.name.split("_")) + ("Vjp" if is_vjp else "Step")
    methods = {"setup_context": setup_context, "backward": backward, "jvp": jvp}
    return type(name, (_SingleLevelFunction,), {key: staticmethod(method) for key, method in methods.items()})


def _split(arguments: Sequence) -> tuple[Tensors, _Call]:
    """Split arguments into the tensors in which a map is linear, and the rest."""
    inputs, options = Inputs.split(arguments)
    start, goal = (end.count for end in inputs.ends)
    # A start that is all None counts as one row.
    counts = encoded_rows((1 if start < 0 else start, goal), inputs.indices, inputs.action.shape[0])
    return inputs.values, _Call(inputs.indices, inputs.dt, counts, inputs.action.shape, (), options)


def _split_vjp(arguments: Sequence) -> tuple[Tensors, _Call]:
    """Split arguments of a vjp into its tensors and the rest."""
    inputs, options = VjpInputs.split(arguments)
    batch, _, dof = inputs.like.shape
    shape = batch, inputs.action_horizon, dof
    return inputs.upstream, _Call(inputs.indices, inputs.dt, inputs.counts, shape, list(inputs.needs), options)


def _forward(operator: Signature, call: _Call, inputs: Inputs, needs: Sequence[bool]) -> list[Tensor | None]:
    """Run the map whose transpose the vjp is, for the outputs that are needed."""
    results: list[Tensor | None] = [None] * 4
    for variant, taken in operator.variants(inputs, call.options):
        if any(needs[i] for i in taken):
            outputs = operator.forward(*variant.arguments, *call.options)
            for i in taken:
                results[i] = outputs[i]
    return results


def _dt_gradient(
    operator: Signature, call: _Call, inputs: Inputs, upstream: Tensors, *, truncates: bool
) -> Tensor | None:
    """Return the gradient of dt of the map, or of the map whose transpose the vjp is."""
    scheme, backend = operator.scheme(call.options), call.options[-1]
    total = None
    for variant, taken in operator.variants(inputs, call.options) if truncates else [(inputs, range(4))]:
        seen = [gradient if i in taken else None for i, gradient in enumerate(upstream)]
        if any(gradient is not None for gradient in seen):
            total = _sum(total, dt_gradient(operator.name, variant, seen, scheme, backend))
    return total


def _primal(tensor: Tensor | None) -> Tensor | None:
    if tensor is None or not tensor.is_floating_point():
        return tensor
    return forward_ad.unpack_dual(tensor, level=0).primal


def _tangent(result: Tensor) -> Tensor:
    tangent = forward_ad.unpack_dual(result, level=0).tangent
    return torch.zeros_like(result) if tangent is None else tangent


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
