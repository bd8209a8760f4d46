"""Autograd nodes of the step operators: each operator's derivative is its transpose, and the other way round.

A node saves the step lengths and the start index; actions and start rows only where the gradient of dt is wanted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.function import _SingleLevelFunction

from . import dt_derivatives

if TYPE_CHECKING:
    from .step_operator import StepOperator


def forward_derivative(operator: StepOperator) -> type[_SingleLevelFunction]:
    """Build the autograd node of a forward map. Arguments: the dispatch keys, then those of `operator.forward`."""
    dt_place = operator.starts + 3

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        action, start, start_index, dt, options = operator.split(inputs[1:])
        ctx.set_materialize_grads(False)
        ctx.options = options
        ctx.action_horizon = action.shape[1]
        ctx.start_rows = next((row.shape[0] for row in start if row is not None), 1)
        # The map is linear: its derivatives by action and start need dt alone.
        ctx.save_for_backward(start_index, dt, *((action, *start) if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(start_index, dt, action, *start)

    def backward(ctx, *upstream: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        if any(gradient is not None for gradient in upstream):
            start_index, dt, *inputs = ctx.saved_tensors
            needs = list(ctx.needs_input_grad[1 : operator.starts + 2])
            if any(needs):
                results[1 : operator.starts + 2] = operator.vjp(
                    *upstream, start_index, dt, ctx.start_rows, ctx.action_horizon, needs, *ctx.options
                )
            if ctx.needs_input_grad[dt_place]:
                action, *start = inputs
                results[dt_place] = dt_derivatives.vjp(
                    operator.name,
                    action,
                    start,
                    start_index,
                    dt,
                    upstream,
                    operator.scheme(ctx.options),
                    ctx.options[-1],
                )
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        action_tangent, start_tangents, _, dt_tangent, _ = operator.split(tangents[1:])
        start_index, dt, action, *start = dt_derivatives.primals(ctx.saved_tensors)
        results = [None] * 4
        if any(tangent is not None for tangent in (action_tangent, *start_tangents)):
            if action_tangent is None:
                action_tangent = torch.zeros_like(action)
            results = operator.forward(action_tangent, *start_tangents, start_index, dt, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_forward",
                (action, *start, start_index, dt),
                dt_place - 1,
                dt_tangent,
                **operator.scheme(ctx.options),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Step", setup_context, backward, jvp)


def vjp_derivative(operator: StepOperator) -> type[_SingleLevelFunction]:
    """Build the autograd node of a transposed map. Arguments: the dispatch keys, then those of `operator.vjp`."""
    dt_place = 6

    def setup_context(ctx, inputs: tuple, output: tuple) -> None:
        _, *upstream, start_index, dt, start_rows, action_horizon, needs = inputs[:10]
        ctx.set_materialize_grads(False)
        ctx.options = inputs[10:]
        ctx.start_rows, ctx.action_horizon, ctx.needs = start_rows, action_horizon, list(needs)
        ctx.batch, _, ctx.dof = some(upstream).shape
        ctx.save_for_backward(start_index, dt, *(upstream if ctx.needs_input_grad[dt_place] else ()))
        ctx.save_for_forward(start_index, dt, *upstream)

    def backward(ctx, *cotangents: Tensor | None) -> tuple[Tensor | None, ...]:
        results: list[Tensor | None] = [None] * len(ctx.needs_input_grad)
        action, *start = cotangents
        given = [cotangent for cotangent in cotangents if cotangent is not None]
        if not given:
            return tuple(results)
        if action is None:
            action = given[0].new_zeros(ctx.batch, ctx.action_horizon, ctx.dof)
        start_index, dt, *upstream = ctx.saved_tensors
        for variant, taken in operator.variants(action, ctx.options):
            if any(ctx.needs_input_grad[1 + i] for i in taken):
                outputs = operator.forward(variant, *start, start_index, dt, *ctx.options)
                for i in taken:
                    results[1 + i] = outputs[i] if ctx.needs_input_grad[1 + i] else None
            seen = [g if i in taken else None for i, g in enumerate(upstream)]
            if ctx.needs_input_grad[dt_place] and any(gradient is not None for gradient in seen):
                by_dt = dt_derivatives.vjp(
                    operator.name, variant, start, start_index, dt, seen, operator.scheme(ctx.options), ctx.options[-1]
                )
                results[dt_place] = _sum(results[dt_place], by_dt)
        return tuple(results)

    def jvp(ctx, *tangents: Tensor | None) -> tuple[Tensor | None, ...]:
        start_index, dt, *upstream = dt_derivatives.primals(ctx.saved_tensors)
        upstream_tangents, dt_tangent = tangents[1:5], tangents[dt_place]
        results = [None] * len(ctx.needs)
        shape = (ctx.start_rows, ctx.action_horizon, ctx.needs)
        if any(tangent is not None for tangent in upstream_tangents):
            results = operator.vjp(*upstream_tangents, start_index, dt, *shape, *ctx.options)
        if dt_tangent is not None:
            by_dt = dt_derivatives.push_forward(
                f"{operator.name}_vjp",
                (*upstream, start_index, dt),
                dt_place - 1,
                dt_tangent,
                start_rows=ctx.start_rows,
                action_horizon=ctx.action_horizon,
                needs=ctx.needs,
                **operator.scheme(ctx.options, vjp=True),
            )
            results = [_sum(a, b) for a, b in zip(results, by_dt, strict=True)]
        return tuple(results)

    return _node(f"{_title(operator.name)}Vjp", setup_context, backward, jvp)


def some(upstream: Sequence[Tensor | None]) -> Tensor:
    """One of the upstream gradients that are there."""
    for gradient in upstream:
        if gradient is not None:
            return gradient
    raise ValueError("upstream gradients: expected at least one tensor, got None for all four")


def _node(name: str, setup_context: Callable, backward: Callable, jvp: Callable) -> type[_SingleLevelFunction]:
    """Build an autograd node class; `registration.register` gives it its forward."""
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
