"""The demo's optimizer: minimizes its cost using only the node's services ~/integrate and ~/compute_gradient."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import torch

from ..client.requests import ORDERS
from ..client.services import Services
from ..kernels import Trajectory
from .goal_problem import DEGREE, STEPS, GoalProblem, Optimum, Steering, closed_form

MAX_ITERATIONS = 60
CONVERGED = 1e-7
"""Share of the cost; two iterations in a row that do not lower it by more are the last ones."""


@dataclass(frozen=True)
class OptimizerResult:
    """What the optimizer found. Costs are in float64, of trajectories that the node integrated."""

    problem: GoalProblem
    optimum: Optimum
    iteration_costs: tuple[float, ...]
    """Cost of the first guess and after every iteration."""
    iterations: int
    calls: int
    seconds: float
    found: Trajectory
    """As ~/integrate returned it, arrays `[rows, dof]`."""

    @property
    def gap(self) -> float:
        """Cost at the end above the closed-form optimum, relative to it."""
        return (self.iteration_costs[-1] - self.optimum.cost) / self.optimum.cost

    @property
    def missed(self) -> float:
        """Largest distance of the last row from the goal at rest, in rad, rad/s and rad/s²."""
        ends = (self.found.position[-1] - self.problem.goal, self.found.velocity[-1], self.found.acceleration[-1])
        return float(max(np.abs(end).max() for end in ends))


def minimize(problem: GoalProblem, services: Services) -> OptimizerResult:
    """Minimize the problem's cost by L-BFGS from its guess.

    Raises Refused if the node refuses a request, TimeoutError if it does not answer.
    """
    _import_optimizers()
    begin, calls = time.monotonic(), _Calls(problem, services)
    guessed, basis = torch.from_numpy(problem.guess), torch.from_numpy(problem.basis)
    variables = torch.zeros_like(guessed)
    search = {"max_iter": 1, "max_eval": 30, "history_size": 20, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([variables], **search, tolerance_grad=0, tolerance_change=0)

    def trajectory() -> Trajectory:
        return calls.trajectory((guessed + basis @ variables).numpy())

    def evaluate() -> float:
        cost, upstream = problem.cost(trajectory())
        variables.grad = basis.T @ torch.from_numpy(calls.action_gradient(upstream))
        return cost

    costs = [problem.cost(trajectory())[0]]
    # One iteration a step, for the costs in between: the optimizer keeps its curvature pairs from step to step.
    while len(costs) <= MAX_ITERATIONS and not (costs[2:] and costs[-3] - costs[-1] <= CONVERGED * abs(costs[-1])):
        before = variables.clone()
        optimizer.step(evaluate)
        costs.append(problem.cost(trajectory())[0])
        if costs[-1] > costs[-2]:
            # The limit of float32 trajectories: any further descent is within their rounding.
            variables.copy_(before)
            costs.pop()
            break
    found = trajectory()
    seconds = time.monotonic() - begin
    return OptimizerResult(problem, closed_form(problem), tuple(costs), len(costs) - 1, calls.count, seconds, found)


@cache
def _import_optimizers() -> None:
    """Let torch import what its optimizers import at their first step, which takes seconds once in a process."""
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()


class _Calls:
    """The problem's calls of the services, counted."""

    def __init__(self, problem: GoalProblem, services: Services) -> None:
        self.count = 0
        self._problem, self._services = problem, services
        steering, start = problem.steering, dict(zip(ORDERS[:3], problem.start, strict=True))
        spline = {"goal_position": problem.goal, "degree": DEGREE, "steps": STEPS}
        self._fields = {
            "dt": steering.dt, "control_space": steering.control_space, "joint_names": problem.joint_names,
            **start, **(spline if steering is Steering.SPLINE else {}),
        }  # fmt: skip

    def trajectory(self, actions: np.ndarray) -> Trajectory:
        self.count += 1
        found = self._services.integrate(actions[None], **self._fields)
        return Trajectory(*(values[0].astype(np.float64) for values in found.outputs))

    def action_gradient(self, upstream: Sequence[np.ndarray]) -> np.ndarray:
        self.count += 1
        gradients = {name: values[None] for name, values in zip(ORDERS, upstream, strict=True)}
        # The map is linear: the gradient does not depend on the actions.
        found = self._services.compute_gradient(self._problem.guess[None], gradients, **self._fields)
        return found.action[0].astype(np.float64)
