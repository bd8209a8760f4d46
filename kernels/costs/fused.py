"""A checked call of `quadratic_cost`: one pass of the C++ loops, or composed of operators; of DTensors, on shards."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from ..arguments import is_watched
from ..backends import Backend, default_backend, native_kernels
from ..call import fast_map
from ..maps.table import ControlMap
from ..reference_backend import collect_rows
from ..sharding import shards
from ..types import Inputs
from .terms import CostTerm, QuadraticCost, Terms, checked_terms, cost_of, without_free_limits

_PLAIN = (Tensor, torch.nn.Parameter)
_HAS_ROWS = CostTerm(weight=True, target=True, terminal_weight=False, limit_weight=False, lower=False, upper=False)
"""Which parts of a term may differ from row to row of a trajectory; a terminal weight has a batch instead."""


class CostProblem(NamedTuple):
    """The results to compute; the dt of `inputs` may be a number here."""

    kernel: ControlMap
    inputs: Inputs
    terms: Terms
    backend: str | None

    def with_variables(self, variables: Sequence[Tensor | None]) -> CostProblem:
        """Return the same problem with other actions, start rows and goal rows."""
        return self._replace(inputs=self.inputs._replace(values=variables))

    def with_steps(self) -> CostProblem:
        """Return the same problem with dt in a tensor."""
        if isinstance(self.inputs.dt, Tensor):
            return self
        return self._replace(inputs=self.inputs._replace(dt=torch.full((1, 1), self.inputs.dt, dtype=torch.float64)))

    def composed(self) -> Tensor:
        """Return the cost composed of the map's operator and torch's own, `[B]` in the action's dtype."""
        problem, dtype = self.with_steps(), self.inputs.action.dtype
        if self.backend == Backend.REFERENCE.value:
            problem = problem.with_variables([rows if rows is None else rows.double() for rows in self.inputs.values])
        trajectory = self.kernel.operator.forward(*problem.inputs.arguments, *self.kernel.scheme, self.backend)
        return cost_of(trajectory, self.terms).to(dtype)


def cost_of_problem(problem: CostProblem) -> Tensor:
    """Return the cost, `[B]` in the action's dtype: by a fused pass where one applies, otherwise composed."""
    return _fused(problem) if _is_fusable(problem) else problem.composed()


def ordinary_cost(
    kernel: ControlMap,
    values: Sequence[Tensor | None],
    indices: tuple[Tensor | None, Tensor | None],
    dt: object,
    cost: QuadraticCost,
) -> Tensor | None:
    """The cost of ordinary tensors with one step length, `[B]`, without more checks than the loops' own.

    `values` and `indices` are those of `Inputs`. None, having done nothing, if anything is out of the ordinary: that is
    left to the general way, which says what is wrong.
    """
    action = values[0]
    if type(dt) is not float or not 0 < dt < math.inf or values[1] is None:
        return None
    if torch.compiler.is_compiling() or type(action) not in _PLAIN or action.dim() != 3 or action.shape[1] < 1:
        return None
    if any(index is not None and type(index) is not Tensor for index in indices):
        return None
    batch, horizon, dof = action.shape
    terms = without_free_limits(checked_terms(cost, action, (batch, kernel.output_horizon(horizon), dof)))
    problem = CostProblem(kernel, Inputs(values, indices, dt), terms, None)
    try:
        return _fused(problem) if _is_fusable(problem) else None
    except IndexError:
        return None


def sharded_cost(problem: CostProblem) -> Tensor:
    """Return the cost, `[B]`, split as the batch is; if the joints are split, it is a partial sum."""
    table, inputs = shards(), problem.inputs
    split = table.Shards(inputs.action, problem.kernel.action_name)

    def term_of(term: CostTerm) -> CostTerm:
        pairs = zip(term, _HAS_ROWS, strict=True)
        layouts = (None if part is None else table.weights_layout(part.dim(), with_rows=rows) for part, rows in pairs)
        return CostTerm(*map(split.local, term, layouts))

    terms = tuple(term_of(term) for term in problem.terms)
    local = problem._replace(inputs=split.inputs(inputs), terms=terms)
    return split.whole(cost_of_problem(local), table.COSTS, inputs.action.shape[:1])


def _is_fusable(problem: CostProblem) -> bool:
    """Whether a fused pass applies: it has the map, only its variables require grad, no transform or mode is active."""
    action, dt = problem.inputs.action, problem.inputs.dt
    if torch.compiler.is_compiling() or action.dtype not in (torch.float32, torch.float64):
        return False
    chosen = default_backend(action.device) if problem.backend is None else problem.backend
    if chosen != Backend.NATIVE or action.device.type != "cpu" or native_kernels() is None:
        return False
    if is_watched() or torch._C._len_torch_function_stack() > 0:
        return False
    fixed = [part for term in problem.terms for part in term if part is not None]
    if isinstance(dt, Tensor):
        fixed.append(dt)
    given = [*fixed, *(rows for rows in problem.inputs.values if rows is not None)]
    if any(type(tensor) not in _PLAIN for tensor in given):
        return False
    return not (torch.is_grad_enabled() and any(tensor.requires_grad for tensor in fixed))


def _fused(problem: CostProblem) -> Tensor:
    if torch.is_grad_enabled():
        return _FusedCost.apply(problem, *problem.inputs.values)
    return _run(problem, [False] * len(problem.inputs.values))[0]


class _FusedCost(_SingleLevelFunction):
    @staticmethod
    def forward(ctx, problem: CostProblem, *variables: Tensor | None) -> Tensor:
        """Compute the cost, and the gradients that will be asked for."""
        cost, gradients = _run(problem, ctx.needs_input_grad[1:])
        # The variables are not kept in the problem: autograd tracks only tensors that are saved through ctx.
        ctx.problem = problem.with_variables([None] * len(variables))
        ctx.save_for_backward(*variables, *gradients)
        return cost

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients; if they are themselves differentiated, use the gradients of the composition."""
        saved, count = ctx.saved_tensors, len(ctx.needs_input_grad) - 1
        variables, gradients = saved[:count], saved[count:]
        problem, needs = ctx.problem.with_variables(variables), ctx.needs_input_grad[1:]
        if torch.is_grad_enabled():
            wanted = [rows for rows, need in zip(variables, needs, strict=True) if need]
            found = iter(torch.autograd.grad(problem.composed(), wanted, upstream, create_graph=True))
            return (None, *(next(found) if need else None for need in needs))
        return (None, *_scaled(problem, upstream, gradients))


def _run(problem: CostProblem, needs: Sequence[bool]) -> tuple[Tensor, list[Tensor | None]]:
    """Cost `[B]`, and the gradients of the variables; each one of start and goal is `[B, D]` in float64."""
    native, inputs, kernel = native_kernels(), problem.inputs, problem.kernel
    action, *rows = (None if value is None else value.contiguous() for value in inputs.values)
    start_index, goal_index = (None if index is None else index.contiguous() for index in inputs.indices)
    batch, _, dof = action.shape
    cost = action.new_empty(batch)
    gradients = [action.new_empty(batch, dof, dtype=torch.float64) if need else None for need in needs]
    gradients[0] = torch.empty_like(action) if needs[0] else None
    done = native.quadratic_cost_into(
        fast_map(kernel.operator, *kernel.scheme).kind,
        action,
        rows[:4],
        start_index,
        rows[4:],
        goal_index,
        inputs.dt.double().contiguous() if isinstance(inputs.dt, Tensor) else inputs.dt,
        tuple(part if part is None else _real(part) for term in problem.terms for part in term),
        cost,
        gradients[0],
        gradients[1:],
    )
    if not done:
        raise IndexError("start_index, goal_index: expected rows of the pools, got indices out of range")
    return cost, gradients


def _scaled(problem: CostProblem, upstream: Tensor, gradients: Sequence[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Gradients times the upstream gradient of their trajectory's cost, summed over trajectories that share a row."""
    like = problem.inputs.action
    results = [None if gradients[0] is None else gradients[0] * upstream.view(-1, 1, 1)]
    of_rows = iter(gradients[1:])
    for end in problem.inputs.ends:
        for row, gradient in zip(end.rows, of_rows, strict=False):
            of_row = None if gradient is None else gradient * upstream[:, None]
            results.append(None if of_row is None else collect_rows(of_row, end.index, row.shape[0], like))
    return tuple(results)


def _real(tensor: Tensor) -> Tensor:
    wide = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
    return wide.detach().contiguous()
