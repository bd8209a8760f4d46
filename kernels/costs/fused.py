"""Computes a checked call of `quadratic_cost`: in one pass of the C++ loops, or by operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import _SingleLevelFunction

from ..backends import Backend, native_kernels
from ..call import fast_map
from ..maps.table import ControlMap
from ..reference_backend import collect_rows
from ..signature import all_values
from ..types import Inputs
from .terms import CostTerm, QuadraticCost, Terms, checked_terms, cost_of

_PLAIN = (Tensor, torch.nn.Parameter)


class CostProblem(NamedTuple):
    """A cost and its inputs; the dt of `inputs` may be a number here."""

    kernel: ControlMap
    inputs: Inputs
    terms: Terms
    backend: str | None = None

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
    """Return the cost, `[B]` in the action's dtype: in one pass of the loops if possible, otherwise composed."""
    value = None
    if problem.backend in (None, Backend.NATIVE.value):
        values, indices, dt = problem.inputs
        terms = tuple(CostTerm(*map(_real, term)) for term in problem.terms)
        value = _in_one_pass(values, CostProblem(problem.kernel, Inputs((), indices, dt.double()), terms))
    return problem.composed() if value is None else value


def ordinary_cost(
    kernel: ControlMap,
    values: Sequence[Tensor | None],
    indices: tuple[Tensor | None, Tensor | None],
    dt: object,
    cost: QuadraticCost,
) -> Tensor | None:
    """Return the cost of ordinary tensors with one step length, `[B]`, checked by the loops alone.

    `values` and `indices` are those of `Inputs`. Returns None, without any effect, if anything is out of the ordinary:
    the general way then computes the cost or names the error.
    """
    action = values[0]
    if torch.compiler.is_compiling() or type(dt) is not float or type(action) not in _PLAIN:
        return None
    if action.dim() != 3 or action.shape[1] < 1:
        return None
    batch, horizon, dof = action.shape
    terms = checked_terms(cost, action, (batch, kernel.output_horizon(horizon), dof))
    return _in_one_pass(values, CostProblem(kernel, Inputs((), indices, dt), terms))


def _in_one_pass(values: Sequence[Tensor | None], problem: CostProblem) -> Tensor | None:
    """Return the cost by the loops; None, without any effect, if they cannot compute it.

    They can for ordinary tensors on the CPU, outside of transforms and modes, if only `values` require grad. The
    problem contains no values, because autograd tracks only tensors that are saved through ctx.
    """
    native = None if torch.compiler.is_compiling() else native_kernels()
    if native is None:
        return None
    kernel, (_, indices, dt), terms = problem.kernel, problem.inputs, problem.terms
    recorded, action = native.records(*values), values[0]
    position, velocity, acceleration, jerk = terms
    if recorded is None or native.records(*indices, dt, *position, *velocity, *acceleration, *jerk) is not False:
        return None
    if not native.has_ends(values, indices):
        return None
    for row in values:
        if row is not None and row.dtype is not action.dtype:
            return None
    batch, _, dof = action.shape
    cost, of_action, of_rows = torch.empty(batch, dtype=action.dtype), None, ()
    if recorded:
        shown = native.shown(values)
        of_action = None if shown[0] is None else torch.empty(action.shape, dtype=action.dtype)
        of_rows = [None if row is None else torch.empty(batch, dof, dtype=torch.float64) for row in shown[1:]]
    kind = fast_map(kernel.operator, *kernel.scheme).kind
    try:
        native.quadratic_cost(kind, values, indices, dt, terms, cost, of_action, of_rows)
    except native.UNFIT:
        return None
    if not recorded:
        return cost
    return _FusedCost.apply((cost, problem, (*all_values(values), of_action, *of_rows)), *shown)


class _FusedCost(_SingleLevelFunction):
    """A cost computed in one pass, together with the gradients that will be needed."""

    @staticmethod
    def forward(ctx, found: tuple[Tensor, CostProblem, Sequence[Tensor | None]], *variables: Tensor | None) -> Tensor:
        cost, ctx.problem, saved = found
        ctx.save_for_backward(*saved)
        return cost

    @staticmethod
    def backward(ctx, upstream: Tensor) -> tuple[Tensor | None, ...]:
        """Scale the gradients; if they are themselves differentiated, use the gradients of the composition."""
        saved, needs = ctx.saved_tensors, ctx.needs_input_grad[1:]
        variables, gradients = saved[:9], saved[9:]
        if torch.is_grad_enabled():
            problem = ctx.problem.with_variables(variables)
            wanted = [rows for rows, need in zip(variables, needs, strict=False) if need]
            found = iter(torch.autograd.grad(problem.composed(), wanted, upstream, create_graph=True))
            return (None, *(next(found) if need else None for need in needs))
        action = None if gradients[0] is None else gradients[0] * upstream.view(-1, 1, 1)
        if len(needs) == 1:
            return None, action
        return (None, action, *_of_rows(ctx.problem.with_variables(variables), upstream, gradients[1 : len(needs)]))


def _of_rows(problem: CostProblem, upstream: Tensor, gradients: Sequence[Tensor | None]) -> Iterator[Tensor | None]:
    """Yield gradients of start and goal, times the upstream gradient, summed over trajectories that share a row."""
    inputs = problem.inputs
    places = [(row, end.index) for end in inputs.ends for row in end.rows]
    for (row, index), gradient in zip(places, gradients, strict=False):
        if gradient is None:
            yield None
        else:
            yield collect_rows(gradient * upstream[:, None], index, row.shape[0], inputs.action)


def _real(tensor: Tensor | None) -> Tensor | None:
    """Convert to a dtype that the loops take."""
    return tensor if tensor is None or tensor.dtype in (torch.float32, torch.float64) else tensor.float()
