"""One checked call of `quadratic_cost`: the map, its inputs, and the terms of the cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from torch import Tensor

from ..backends import Backend
from ..maps.table import ControlMap
from ..validation import StepInputs
from .composition import cost_of
from .terms import Terms


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
