"""One checked call of `quadratic_cost`, and the cost in plain torch: the oracle for the fused loops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from ..backends import Backend
from ..maps.table import ControlMap
from ..types import Trajectory
from ..validation import StepInputs
from .terms import CostTerm, Terms


class CostProblem(NamedTuple):
    """What is to be computed."""

    kernel: ControlMap
    inputs: StepInputs
    terms: Terms
    backend: str | None

    @property
    def variables(self) -> tuple[Tensor | None, ...]:
        """Actions, start rows and goal rows."""
        return (self.inputs.action, *self.inputs.start, *self.inputs.goal)

    def with_variables(self, variables: Sequence[Tensor | None]) -> CostProblem:
        """Return the same problem with other actions, start rows and goal rows."""
        starts = 1 + len(self.inputs.start)
        inputs = self.inputs._replace(
            action=variables[0], start=tuple(variables[1:starts]), goal=tuple(variables[starts:])
        )
        return self._replace(inputs=inputs)

    def composed(self) -> Tensor:
        """Return the cost composed of the map's operator and torch's own, `[B]` in the action's dtype."""
        problem, dtype = self, self.inputs.action.dtype
        if self.backend == Backend.REFERENCE.value:
            problem = self.with_variables([rows if rows is None else rows.double() for rows in self.variables])
        inputs, operator = problem.inputs, self.kernel.operator
        goal = (*inputs.goal, inputs.goal_index) if operator.goals else ()
        trajectory = operator.forward(
            inputs.action, *inputs.start, inputs.start_index, *goal, inputs.dt, *self.kernel.scheme, self.backend
        )
        return cost_of(trajectory, self.terms).to(dtype)


def cost_of(trajectory: Trajectory | Sequence[Tensor], terms: Terms) -> Tensor:
    """Return the cost of each trajectory, `[B]`, in the dtype of the trajectory (float32 for half precisions)."""
    position = trajectory[0]
    wide = position.dtype if position.dtype in (torch.float32, torch.float64) else torch.float32
    total = position.new_zeros(position.shape[0], dtype=wide)
    for output, term in zip(trajectory, terms, strict=True):
        if any(part is not None for part in term):
            total = total + _cost_of_output(output.to(wide), term)
    return total


def _cost_of_output(output: Tensor, given: CostTerm) -> Tensor:
    term = CostTerm(*(part if part is None else part.to(output.dtype) for part in given))
    total = output.new_zeros(output.shape[0])
    if term.weight is not None or term.terminal_weight is not None:
        error = output if term.target is None else output - term.target
        if term.weight is not None:
            total = total + (term.weight * error.square()).sum((1, 2))
        if term.terminal_weight is not None:
            total = total + (term.terminal_weight * error[:, -1].square()).sum(1)
    if term.limit_weight is not None:
        outside = (output - term.upper).relu().square() + (term.lower - output).relu().square()
        total = total + (term.limit_weight * outside).sum((1, 2))
    return total
