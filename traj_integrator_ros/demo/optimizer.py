"""The demo's optimizer: minimizes its cost using only the node's services ~/integrate and ~/compute_gradient."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from traj_integrator_interfaces.msg import ActionSequence

from ..kernels import Trajectory
from ..traffic.messages import ORDERS, batch_arrays, floats, gradient_request, sequence
from ..traffic.roles import Optimizer
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


def minimize(problem: GoalProblem, services: Optimizer) -> OptimizerResult:
    """Minimize the problem's cost by L-BFGS from its guess.

    Raises Refused if the node refuses a request, TimeoutError if it does not answer.
    """
    begin, calls = time.monotonic(), services.calls
    guessed, basis = torch.from_numpy(problem.guess), torch.from_numpy(problem.basis)
    variables = torch.zeros_like(guessed)
    search = {"max_iter": 1, "max_eval": 30, "history_size": 20, "line_search_fn": "strong_wolfe"}
    optimizer = torch.optim.LBFGS([variables], **search, tolerance_grad=0, tolerance_change=0)

    def trajectory() -> Trajectory:
        return _trajectory(problem, (guessed + basis @ variables).numpy(), services)

    def evaluate() -> float:
        cost, upstream = problem.cost(trajectory())
        variables.grad = basis.T @ torch.from_numpy(_action_gradient(problem, upstream, services))
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
    optimum, calls = closed_form(problem), services.calls - calls
    return OptimizerResult(problem, optimum, tuple(costs), len(costs) - 1, calls, seconds, found)


def _trajectory(problem: GoalProblem, actions: np.ndarray, services: Optimizer) -> Trajectory:
    arrays = batch_arrays(services.integrate(_sequence(problem, actions)))
    return Trajectory(*(values[0].astype(np.float64) for values in arrays))


def _action_gradient(problem: GoalProblem, upstream: Sequence[np.ndarray], services: Optimizer) -> np.ndarray:
    actions = _sequence(problem, problem.guess)
    del actions.data[:]  # the map is linear: the gradient does not depend on the actions
    answer = services.gradient(gradient_request(actions, dict(zip(ORDERS, upstream, strict=True))))
    return np.asarray(answer.grad_action, dtype=np.float64).reshape(problem.guess.shape)


def _sequence(problem: GoalProblem, actions: np.ndarray) -> ActionSequence:
    steering, start = problem.steering, dict(zip(ORDERS[:3], problem.start, strict=True))
    names, space = problem.joint_names, steering.control_space
    message = sequence(actions[None], dt=[steering.dt], control_space=space, joint_names=names, **start)
    if steering is Steering.SPLINE:
        message.goal.position = floats(problem.goal)
        message.degree, message.steps = DEGREE, STEPS
    return message
