"""Autograd nodes of the step operators: the maps are linear, so forward and vjp are each other's derivative.

A node saves the step lengths and the start index, and actions and start rows only if the gradient of dt is wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import dt_derivatives
from .sharding import is_sharded, shards
from .signature import Signature, first_given
from .types import End, counted, own_rows


def forward_derivative(operator: Signature) -> type[_SingleLevelFunction]:
    """Build the autograd node of a forward map. Arguments: the dispatch keys, then those of `operator.forward`."""
    dt_place = operator.dt_place + 1

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        action, ends, dt, options = operator.split(inputs[1:])
        ctx.set_materialize_grads(False)
        ctx.options = options
        ctx.action_horizon = action.shape[1]
        ctx.counts = _counts(ends, action.shape[0])
        ctx.placements = _placements(output[0])
        # The map is linear: its derivatives with respect to action, start and goal need only dt.
        rows = [row for end in ends for row in end.rows]
        indices = [end.index for end in ends]
        ctx.save_for_backward(*indices, dt, *((action, *rows) if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(*indices, dt, action, *rows)

    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if any(gradient is not None for gradient in upstream):
            upstream = _placed(upstream, ctx.placements)
            indices, dt, inputs = _saved(operator, ctx.saved_tensors)
            places = [1, *(1 + place for place in operator.row_places)]
            needs = [ctx.needs_input_grad[place] for place in places]
            if any(needs):
                gradients = operator.vjp(*upstream, *indices, dt, *ctx.counts, ctx.action_horizon, needs, *ctx.options)
                for place, gradient in zip(places, gradients, strict=True):
                    results[place] = gradient
            if ctx.needs_input_grad[dt_place]:
                action, ends = operator.joined(inputs, indices)
                scheme = operator.scheme(ctx.options)
                results[dt_place] = dt_derivatives.vjp(
                    operator.name, action, ends, dt, upstream, scheme, ctx.options[-1]
                )
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        action_tangent, end_tangents, dt_tangent, _ = operator.split(tangents[1:])
        indices, dt, inputs = _saved(operator, dt_derivatives.primals(ctx.saved_tensors))
        action, ends = operator.joined(inputs, indices)
        results = [None] * 4
        if action_tangent is not None or any(row is not None for end in end_tangents for row in end.rows):
            if action_tangent is None:
                action_tangent = torch.zeros_like(action)
            rows = [row for end in end_tangents for row in end.rows]
            _, moved = operator.joined((action_tangent, *rows), indices)
            counts = counted(ctx.counts, indices, action.shape[0])
            flat = operator.flat(_with_goal(moved, counts, action))
            results = operator.forward(action_tangent, *flat, dt, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_forward",
                (action, *operator.flat(ends), dt),
                dt_place - 1,
                dt_tangent,
                **operator.scheme(ctx.options),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Step", setup_context, backward, jvp)


def vjp_derivative(operator: Signature) -> type[_SingleLevelFunction]:
    """Build the autograd node of a map's vjp. Arguments: the dispatch keys, then those of `operator.vjp`."""
    dt_place = operator.vjp_dt_place + 1

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        upstream, indices, dt, counts, action_horizon, needs, options = operator.split_vjp(inputs[1:])
        ctx.set_materialize_grads(False)
        ctx.options = options
        ctx.counts, ctx.action_horizon, ctx.needs = counts, action_horizon, list(needs)
        like = first_given(upstream)
        ctx.batch, _, ctx.dof = like.shape
        ctx.placements = _placements(like)
        ctx.save_for_backward(*indices, dt, *(upstream if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(*indices, dt, *upstream)

    def backward(ctx, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        given = [cotangent for cotangent in cotangents if cotangent is not None]
        if not given:
            return tuple(results)
        indices, dt, upstream = _saved(operator, ctx.saved_tensors)
        action, ends = operator.joined(cotangents, indices)
        if action is None:
            action = given[0].new_zeros(ctx.batch, ctx.action_horizon, ctx.dof)
        (action,) = _placed([action], ctx.placements)
        ends = _with_goal(ends, counted(ctx.counts, indices, ctx.batch), action)
        for variant, taken in operator.variants(action, ctx.options):
            if any(ctx.needs_input_grad[1 + i] for i in taken):
                outputs = operator.forward(variant, *operator.flat(ends), dt, *ctx.options)
                for i in taken:
                    results[1 + i] = outputs[i] if ctx.needs_input_grad[1 + i] else None
            if not ctx.needs_input_grad[dt_place]:
                continue
            seen = [g if i in taken else None for i, g in enumerate(upstream)]
            if any(gradient is not None for gradient in seen):
                scheme = operator.scheme(ctx.options)
                by_dt = dt_derivatives.vjp(operator.name, variant, ends, dt, seen, scheme, ctx.options[-1])
                results[dt_place] = _sum(results[dt_place], by_dt)
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        indices, dt, upstream = _saved(operator, dt_derivatives.primals(ctx.saved_tensors))
        upstream_tangents, dt_tangent = tangents[1:5], tangents[dt_place]
        results = [None] * len(ctx.needs)
        if any(tangent is not None for tangent in upstream_tangents):
            shape = (*ctx.counts, ctx.action_horizon, ctx.needs)
            results = operator.vjp(*upstream_tangents, *indices, dt, *shape, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_vjp",
                (*upstream, *indices, dt),
                dt_place - 1,
                dt_tangent,
                **operator.counts(ctx.counts, indices, ctx.batch),
                action_horizon=ctx.action_horizon,
                needs=ctx.needs,
                **operator.scheme(ctx.options, vjp=True),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Vjp", setup_context, backward, jvp)


def _saved(operator: Signature, tensors: Sequence[Tensor | None]) -> tuple[Sequence, Tensor, Sequence]:
    """Indices of start and goal, dt, and everything else that was saved."""
    ends = operator.vjp_dt_place - 4
    return tensors[:ends], tensors[ends], tensors[ends + 1 :]


def _counts(ends: Sequence[End], batch: int) -> list[int]:
    """Numbers of start and goal rows: 1 for a start that is all None, -1 for an absent goal."""
    start, *goal = (own_rows(end.count, end.index, batch) for end in ends)
    return [1 if start < 0 else start, *goal]


def _placements(trajectories: Tensor) -> Sequence[object] | None:
    """Placements of DTensors; None for other tensors."""
    return trajectories.placements if is_sharded(trajectories) else None


def _placed(tensors: Sequence[Tensor | None], placements: Sequence[object] | None) -> Sequence[Tensor | None]:
    """Redistribute upstream gradients like the trajectories; that of a sum, for example, arrives replicated."""
    return tensors if placements is None else [shards().placed(tensor, placements) for tensor in tensors]


def _with_goal(ends: Sequence[End], counts: Sequence[int], like: Tensor) -> list[End]:
    """Tangents of start and goal; zeros if a goal has none, because the map without a goal is a different map.

    Where no row moves there is no pool for the index to pick from.
    """
    start, *goals = ends
    if goals and counts[1] >= 0 and goals[0].rows[0] is None:
        position = like.new_zeros(counts[1], like.shape[2])
        goals = [goals[0]._replace(rows=(position, *goals[0].rows[1:]))]
    return [end if any(row is not None for row in end.rows) else end._replace(index=None) for end in (start, *goals)]


def _node(name: str, setup_context: Callable, backward: Callable, jvp: Callable) -> type[_SingleLevelFunction]:
    """Build an autograd node class; `operator` gives it its forward."""
    methods = {"setup_context": setup_context, "backward": backward, "jvp": _in_forward_mode(jvp)}
    return type(name, (_SingleLevelFunction,), {key: staticmethod(method) for key, method in methods.items()})


def _in_forward_mode(jvp: Callable) -> Callable:
    """Run a jvp so that an outer level of forward mode sees its operations: torch switches them off for all levels."""

    @functools.wraps(jvp)
    def run(*arguments) -> tuple[Tensor | None, ...]:
        with forward_ad._set_fwd_grad_enabled(True):
            return jvp(*arguments)

    return run


def _title(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("_"))


def _sum(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    if a is None or b is None:
        return b if a is None else a
    return a + b
