"""The demo's optimizer: minimizes its cost with nothing but the node's services ~/integrate and ~/compute_gradient."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from traj_integrator_interfaces.msg import ActionSequence

from ..kernels.types import ControlSpace
from ..traffic.messages import batch_arrays, gradient_request, sequence
from ..traffic.optimizer import Optimizer
from .jerk_problem import CostGradient, JerkProblem, Optimum, closed_form

MAX_ITERATIONS = 60


class OptimizedMotion(NamedTuple):
    """A trajectory of the problem as ~/integrate returned it, each [horizon, dof]."""

    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray


@dataclass(frozen=True)
class OptimizerResult:
    """What the optimizer found. Costs are in float64, of trajectories that the node integrated."""

    problem: JerkProblem
    optimum: Optimum
    iteration_costs: tuple[float, ...]
    """Cost of the first guess and after every iteration."""
    iterations: int
    calls: int
    seconds: float
    guess: OptimizedMotion
    found: OptimizedMotion

    @property
    def gap(self) -> float:
        """Cost at the end above the closed-form optimum, relative to it."""
        return (self.iteration_costs[-1] - self.optimum.cost) / self.optimum.cost


def minimize(problem: JerkProblem, services: Optimizer) -> OptimizerResult:
    """Minimize the problem's cost by L-BFGS from zero jerk.

    Raises Refused where the node refuses a request, TimeoutError where it does not answer.
    """
    begin, calls = time.monotonic(), services.calls
    actions = torch.zeros(problem.horizon, problem.dof, dtype=torch.float64)
    optimizer = torch.optim.LBFGS(
        [actions],
        max_iter=1,
        max_eval=30,
        history_size=20,
        line_search_fn="strong_wolfe",
        tolerance_grad=0,
        tolerance_change=0,
    )

    def evaluate() -> float:
        trajectory = _trajectory(problem, actions.numpy(), services)
        cost = problem.cost(*trajectory)
        actions.grad = torch.from_numpy(_action_gradient(problem, cost, services))
        return cost.cost

    guess = _trajectory(problem, actions.numpy(), services)
    costs = [problem.cost(*guess).cost]
    # One iteration a step, for the costs in between: the optimizer keeps its curvature pairs from step to step.
    while len(costs) <= MAX_ITERATIONS and not _has_converged(costs):
        before = actions.clone()
        optimizer.step(evaluate)
        found = _trajectory(problem, actions.numpy(), services)
        costs.append(problem.cost(*found).cost)
        if costs[-1] > costs[-2]:
            # As low as float32 trajectories go: what is left of the descent is their rounding.
            actions.copy_(before)
            costs.pop()
            break
    found = _trajectory(problem, actions.numpy(), services)
    seconds = time.monotonic() - begin
    return OptimizerResult(
        problem, closed_form(problem), tuple(costs), len(costs) - 1, services.calls - calls, seconds, guess, found
    )


def _trajectory(problem: JerkProblem, actions: np.ndarray, services: Optimizer) -> OptimizedMotion:
    arrays = batch_arrays(services.integrate(_sequence(problem, actions)))
    return OptimizedMotion(*(values[0].astype(np.float64) for values in arrays))


def _action_gradient(problem: JerkProblem, cost: CostGradient, services: Optimizer) -> np.ndarray:
    actions = _sequence(problem, np.zeros((problem.horizon, problem.dof)))
    del actions.data[:]  # the map is linear: the gradient does not depend on the actions
    upstream = {name: getattr(cost, name) for name in ("position", "velocity", "acceleration", "jerk")}
    answer = services.gradient(gradient_request(actions, upstream))
    return np.asarray(answer.grad_action, dtype=np.float64).reshape(problem.horizon, problem.dof)


def _sequence(problem: JerkProblem, actions: np.ndarray) -> ActionSequence:
    position, velocity, acceleration = problem.start
    return sequence(
        actions[None],
        dt=[problem.dt],
        control_space=ControlSpace.JERK,
        joint_names=problem.joint_names,
        position=position,
        velocity=velocity,
        acceleration=acceleration,
    )


def _has_converged(costs: list[float]) -> bool:
    """Whether two iterations in a row have not lowered the cost by more than a 1e-7th."""
    if len(costs) < 3:
        return False
    return costs[-3] - costs[-1] <= 1e-7 * abs(costs[-1])
