"""Costs of trajectories with their gradients, and the gradient of dt, which is composed of torch operations.

Fused C++ loops compute costs on the CPU, torch operations what these do not: elsewhere, and with the gradient of dt.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..kernels import CostTerm, QuadraticCost, derivatives, quadratic_cost
from ..kernels.call import fast_map
from ..kernels.signature import four
from .call import STARTS, Array, Call, Ends, Gradient, Wanted
from .runners import Buffers, goal_gradient, replaces_action, summed, unfit, without_goal
from .staged import inputs_of, rows_of, to_device

_STATE = ("position", "velocity", "acceleration")


def fused_evaluation(call: Call, cost: QuadraticCost, wanted: Wanted, buffers: Buffers) -> tuple[np.ndarray, Gradient]:
    """Compute costs and gradients, except that of dt; arrays are views of `buffers`, or new.

    Raises:
        ImportError: there is no C++ extension.
        ValueError: arrays whose shapes do not match.

    """
    from ..kernels.native.extension import UNFIT, extension

    kernel, goal, shape = call.kernel, call.goal, call.shape
    batch, _, dof = shape
    replaces = replaces_action(call)
    results = buffers.pieces("evaluation", ((batch,), shape))
    costs, action = results.arrays
    if not (wanted.action or (wanted.goal and replaces)):  # the goal position's gradient is taken from this gradient
        action = None
    starts = STARTS if wanted.start else 0
    goals = len(kernel.goal) if wanted.goal and goal.count is not None and not replaces else 0
    ends, into = None, (None,) * 8
    if starts or goals:
        ends = buffers.view("output", "gradients of the ends", (2 * STARTS, batch, dof), torch.float64).numpy()
        into = (*four(tuple(ends[:starts])), *four(tuple(ends[STARTS : STARTS + goals])))
    given = (*without_goal(call, buffers).of_map, cost.outputs)
    kind = fast_map(kernel.operator, *kernel.scheme).kind
    try:
        extension.quadratic_cost(kind, *given, costs, action, into)
    except UNFIT:  # nothing was written
        try:
            extension.quadratic_cost(kind, *_contiguous(given), costs, action, into)
        except UNFIT:
            raise ValueError(unfit(call)) from None
    if cost.duration_weight is not None:
        with np.errstate(over="ignore"):  # as in the loops, numbers that are too large become infinite
            costs += cost.duration_weight * kernel.duration(call.dt, shape[1])
    of_goal = tuple(summed(rows, goal) for rows in ends[STARTS : STARTS + goals]) if goals else None
    if replaces and wanted.goal:
        of_goal = (goal_gradient(action, goal, kernel.goal_place),)
    elif replaces and wanted.action:
        action[:, kernel.goal_place] = 0
    of_start = tuple(summed(rows, call.start) for rows in ends[:starts]) if starts else None
    return costs, Gradient(action if wanted.action else None, of_start, of_goal, None)


def _contiguous(given: Array | tuple | None) -> Array | tuple | None:
    """Arrays, or tuples of arrays, made contiguous for the loops."""
    if isinstance(given, tuple):
        return tuple(_contiguous(part) for part in given)
    if isinstance(given, Tensor):
        return given.detach().cpu().contiguous()
    return given if given is None else np.ascontiguousarray(given)


def composed_evaluation(
    call: Call, cost: QuadraticCost, wanted: Wanted, buffers: Buffers
) -> tuple[np.ndarray, Gradient]:
    """Compute costs and gradients on the device of `buffers`; the arrays are new, float64."""
    kernel, (batch, _, dof) = call.kernel, call.shape
    kinds = {"start": _STATE, "goal": _STATE[: len(kernel.goal)] if call.goal.count is not None else ()}
    goal, weight = call.goal._replace(rows=call.goal.rows[: len(kinds["goal"])]), cost.duration_weight
    results = {"cost": np.zeros(batch), "action": np.zeros(call.shape), "dt": np.zeros(call.dt.shape)}
    for name, ends in (("start", call.start), ("goal", goal)):
        results |= {f"{name}_{kind}": np.zeros((ends.count, dof)) for kind in kinds[name]}
    variables = {
        "action": call.actions,
        **_rows("start", call.start, wants_all=wanted.start),
        **_rows("goal", goal, wants_all=wanted.goal),
        "dt": call.dt,
    }
    indices = {"start_index": call.start.index, "goal_index": goal.index}
    terms = {
        f"{name} of {place}": value for place, term in enumerate(cost.outputs) for name, value in term._asdict().items()
    }
    terms["duration_weight"] = weight if np.ndim(weight) else None
    given = to_device({**variables, **indices, **terms}, buffers)
    variables = {name: given[name].detach() for name in variables if given[name] is not None}
    asked = [name for name in variables if getattr(wanted, name.split("_")[0])]
    for name in asked:
        variables[name].requires_grad_()
    outputs = (
        CostTerm(*(given[f"{name} of {place}"] for name in CostTerm._fields)) for place in range(len(cost.outputs))
    )
    terms = QuadraticCost(*outputs, duration_weight=given["duration_weight"] if np.ndim(weight) else weight)
    rows_of = {name: given[name] for name in indices if given[name] is not None}
    with torch.enable_grad():
        values = quadratic_cost(cost=terms, control_map=kernel, **variables, **rows_of)
        total = values.double().sum()
    found = {"cost": values.detach()}
    if asked and total.requires_grad:
        gradients = torch.autograd.grad(total, [variables[name] for name in asked], allow_unused=True)
        found |= {name: value for name, value in zip(asked, gradients, strict=True) if value is not None}
    for name, value in found.items():
        results[name] += value.cpu().numpy()
    start, goal = (tuple(results[f"{name}_{kind}"] for kind in kinds[name]) for name in ("start", "goal"))
    return results["cost"], Gradient(
        results["action"] if wanted.action else None,
        start if wanted.start else None,
        (goal or None) if wanted.goal else None,
        results["dt"] if wanted.dt else None,
    )


def vjp_dt(call: Call, buffers: Buffers) -> np.ndarray:
    """Return the gradient of dt, float64, `[1 or B, 1 or Ha]`.

    `call` has actions, rows and upstream gradients; `buffers` take them to the device.
    """
    given, operator = to_device(call.inputs, buffers), call.kernel.operator
    upstream, scheme = rows_of(given, "upstream"), operator.scheme(call.kernel.scheme)
    with torch.no_grad():
        gradient = derivatives.dt_gradient(operator.name, inputs_of(call.kernel, given), upstream, scheme)
    return np.zeros(call.dt.shape) + gradient.cpu().numpy()


def _rows(name: str, ends: Ends, *, wants_all: bool) -> dict[str, Array | None]:
    """Rows by name; with `wants_all`, absent rows are zeros and have a gradient, too."""
    like = next((rows for rows in ends.rows if rows is not None), None)
    named = {f"{name}_{kind}": rows for kind, rows in zip(_STATE, ends.rows, strict=False)}
    if wants_all and like is not None:
        named = {name: np.zeros(like.shape) if rows is None else rows for name, rows in named.items()}
    return named
