"""Derivatives of the step operators: their autograd nodes, and the gradient of dt.

The maps are linear in actions, start and goal: a map and its vjp are each other's derivative, and one kind of node
serves both. It saves the step lengths and the indices, and the rest only if the gradient of dt is wanted. That one is
computed by a C++ kernel, or by the reference in float64, which torch can differentiate again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import reference_backend
from .backends import Backend
from .sharding import is_sharded, shards
from .signature import Signature, first_given
from .types import End, counted, own_rows

Tensors = Sequence[Tensor | None]


def dt_gradient(
    name: str,
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    upstream: Tensors,
    scheme: dict[str, object],
    backend: str | None = None,
) -> Tensor:
    """Return the gradient of dt, given those of the map's four outputs (None for zero); `ends` are start and goal."""
    if is_sharded(action):
        compute = functools.partial(dt_gradient, name, scheme=scheme, backend=backend)
        return shards().dt_gradient(compute, action, ends, dt, upstream)
    kernel = _dt_kernel(backend, action.device)
    gradient = None if kernel is None else kernel(name, tuple(upstream), action, ends, dt, **scheme)
    if gradient is None:
        gradient = reference_backend.dt_gradient(name, upstream, action, ends, dt, **scheme)
    return gradient.to(dt.dtype)


@functools.cache
def _dt_kernel(backend: str | None, device: torch.device) -> Callable[..., Tensor | None] | None:
    """The kernel that computes the gradient of dt where that is not differentiated itself; None if there is none."""
    if backend in (None, Backend.NATIVE) and device.type == "cpu":
        try:
            from . import native
        except ImportError:
            return None
        return native.dt_gradient
    return None


class _Call(NamedTuple):
    """What a call of a map, or of its vjp, is beside the tensors in which it is linear."""

    indices: Tensors
    """Of start and goal."""
    dt: Tensor
    counts: Sequence[int]
    """Numbers of start and goal rows, as the vjp operator takes them."""
    batch: int
    action_horizon: int
    dof: int
    needs: Sequence[bool]
    """Which results of a vjp are wanted."""
    options: Sequence[object]
    placements: Sequence[object] | None
    """Those of trajectories that are DTensors."""

    def placed(self, trajectories: Tensors) -> Tensors:
        """Redistribute gradients like the trajectories; that of a sum, for example, arrives replicated."""
        if self.placements is None:
            return trajectories
        return [shards().placed(one, self.placements) for one in trajectories]


def derivative(operator: Signature, direction: str) -> type[_SingleLevelFunction]:
    """Build the autograd node of a map ("forward"), or of its vjp ("vjp"); the operator gives it its forward.

    Arguments: the dispatch keys, then those of the operator.
    """
    is_vjp = direction == "vjp"
    places = range(4) if is_vjp else (0, *operator.row_places)
    dt_place = operator.vjp_dt_place if is_vjp else operator.dt_place
    launch = getattr(reference_backend, f"{operator.name}_{direction}")

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        linear, call = (_split_vjp if is_vjp else _split)(operator, inputs[1:])
        like = first_given(linear) if is_vjp else output[0]
        placements = like.placements if is_sharded(like) else None
        ctx.set_materialize_grads(False)
        saved = (*call.indices, call.dt)
        ctx.save_for_backward(*saved, *(linear if ctx.needs_input_grad[1 + dt_place] else ()))
        ctx.save_for_forward(*saved, *linear)
        ctx.call = call._replace(indices=(), dt=None, placements=placements)

    def restored(ctx, tensors: Tensors) -> tuple[Tensors, _Call]:
        count = len(operator.ends)
        return tensors[count + 1 :], ctx.call._replace(indices=tensors[:count], dt=tensors[count])

    def backward(ctx, *cotangents: Tensor | None) -> Tensors:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if all(cotangent is None for cotangent in cotangents):
            return tuple(results)
        linear, call = restored(ctx, ctx.saved_tensors)
        needs = [ctx.needs_input_grad[1 + place] for place in places]
        upstream = linear if is_vjp else call.placed(cotangents)
        inputs = _inputs(operator, call, cotangents) if is_vjp else None
        if any(needs):
            gradients = _forward(operator, call, *inputs, needs) if is_vjp else _vjp(operator, call, upstream, needs)
            for place, need, gradient in zip(places, needs, gradients, strict=True):
                results[1 + place] = gradient if need else None
        if ctx.needs_input_grad[1 + dt_place]:
            inputs = inputs or operator.joined(linear, call.indices)
            results[1 + dt_place] = _dt_gradient(operator, call, *inputs, upstream, truncates=is_vjp)
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> Tensors:
        # Torch switches forward mode off for all levels; an outer one has to see these operations.
        with forward_ad._set_fwd_grad_enabled(True):
            linear, call = restored(ctx, [_primal(tensor) for tensor in ctx.saved_tensors])
            moved, dt = [tangents[1 + place] for place in places], tangents[1 + dt_place]
            results = None
            if any(tangent is not None for tangent in moved):
                if is_vjp:
                    results = _vjp(operator, call, moved, call.needs)
                else:
                    action, ends = _inputs(operator, call, moved)
                    results = operator.forward(action, *operator.flat(ends), call.dt, *call.options)
            if dt is not None:
                # Inside a dual level that the caller has entered: torch cannot nest them.
                dual = forward_ad.make_dual(call.dt, dt, level=0)
                scheme = operator.scheme(call.options, vjp=is_vjp)
                if is_vjp:
                    counts = operator.counts(call.counts, call.indices, call.batch)
                    sizes = {**counts, "action_horizon": call.action_horizon, "needs": call.needs}
                    by_dt = launch(*linear, *call.indices, dual, **sizes, **scheme)
                else:
                    action, ends = operator.joined(linear, call.indices)
                    by_dt = launch(action, *operator.flat(ends), dual, **scheme)
                by_dt = [None if result is None else _tangent(result) for result in by_dt]
                results = by_dt if results is None else [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
            return tuple(results)

    name = "".join(word.capitalize() for word in operator.name.split("_")) + ("Vjp" if is_vjp else "Step")
    methods = {"setup_context": setup_context, "backward": backward, "jvp": jvp}
    return type(name, (_SingleLevelFunction,), {key: staticmethod(method) for key, method in methods.items()})


def _split(operator: Signature, arguments: Sequence) -> tuple[Tensors, _Call]:
    """The tensors in which a map is linear, and the rest."""
    action, ends, dt, options = operator.split(arguments)
    start, *goal = (own_rows(end.count, end.index, action.shape[0]) for end in ends)
    counts = [1 if start < 0 else start, *goal]  # a start that is all None counts as one row
    call = _Call([end.index for end in ends], dt, counts, *action.shape, (), options, None)
    return [action, *(row for end in ends for row in end.rows)], call


def _split_vjp(operator: Signature, arguments: Sequence) -> tuple[Tensors, _Call]:
    """The same of a vjp."""
    upstream, indices, dt, counts, action_horizon, needs, options = operator.split_vjp(arguments)
    batch, _, dof = first_given(upstream).shape
    return upstream, _Call(indices, dt, counts, batch, action_horizon, dof, list(needs), options, None)


def _inputs(operator: Signature, call: _Call, moved: Tensors) -> tuple[Tensor, list[End]]:
    """Tangents of action, start and goal, or what takes their place; zeros for an action that has none.

    A goal that has none gets zeros, too, because the map without a goal is a different map. Where no row moves there is
    no pool for the index to pick from.
    """
    action, (start, *goals) = operator.joined(moved, call.indices)
    if action is None:
        action = first_given(moved).new_zeros(call.batch, call.action_horizon, call.dof)
    (action,) = call.placed([action])
    count = counted(call.counts, call.indices, call.batch)[-1]
    if goals and count >= 0 and goals[0].rows[0] is None:
        goals = [End([action.new_zeros(count, call.dof), *goals[0].rows[1:]], goals[0].index)]
    ends = (start, *goals)
    return action, [end if any(row is not None for row in end.rows) else end._replace(index=None) for end in ends]


def _vjp(operator: Signature, call: _Call, upstream: Tensors, needs: Sequence[bool]) -> Tensors:
    shape = (*call.counts, call.action_horizon, needs)
    return operator.vjp(*upstream, *call.indices, call.dt, *shape, *call.options)


def _forward(
    operator: Signature, call: _Call, action: Tensor, ends: Sequence[End], needs: Sequence[bool]
) -> list[Tensor | None]:
    """Run the map whose transpose the vjp is, for the outputs that are needed."""
    results: list[Tensor | None] = [None] * 4
    for variant, taken in operator.variants(action, call.options):
        if any(needs[i] for i in taken):
            outputs = operator.forward(variant, *operator.flat(ends), call.dt, *call.options)
            for i in taken:
                results[i] = outputs[i]
    return results


def _dt_gradient(
    operator: Signature, call: _Call, action: Tensor, ends: Sequence[End], upstream: Tensors, *, truncates: bool
) -> Tensor | None:
    """Gradient of dt of the map, or of that whose transpose the vjp is."""
    scheme, backend = operator.scheme(call.options), call.options[-1]
    total = None
    for variant, taken in operator.variants(action, call.options) if truncates else [(action, range(4))]:
        seen = [gradient if i in taken else None for i, gradient in enumerate(upstream)]
        if any(gradient is not None for gradient in seen):
            total = _sum(total, dt_gradient(operator.name, variant, ends, call.dt, seen, scheme, backend))
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
