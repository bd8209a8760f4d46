"""The demo's optimizer: minimizes its cost with nothing but the node's services ~/integrate and ~/compute_gradient."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from rclpy.client import Client
from rclpy.node import Node

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient, Integrate

from ..kernels.types import ControlSpace
from .jerk_problem import CostGradient, JerkProblem, Optimum, closed_form
from .process import NODE_NAME
from .sequences import action_sequence, batch_arrays, floats

MAX_ITERATIONS = 60
ANSWER_WITHIN = 3.0
"""A call that takes longer [s] is given up and made again: the node may have been restarted meanwhile."""
ATTEMPTS = 8


class ServiceError(Exception):
    """A service did not answer, or refused the request; the message says which and why."""


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


class DemoOptimizer(Node):
    """Calls the node's services from the thread that optimizes; another thread has to spin this node."""

    def __init__(self) -> None:
        super().__init__("demo_optimizer")
        self._integrate = self.create_client(Integrate, f"{NODE_NAME}/integrate")
        self._gradient = self.create_client(ComputeGradient, f"{NODE_NAME}/compute_gradient")
        self.calls = 0

    def minimize(self, problem: JerkProblem, tick: Callable[[], None]) -> OptimizerResult:
        """Minimize the problem's cost by L-BFGS from zero jerk; `tick`, called between requests, may raise to end it.

        Raises ServiceError where the node does not answer or refuses.
        """
        begin, calls = time.monotonic(), self.calls
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
            trajectory = self._trajectory(problem, actions.numpy(), tick)
            cost = problem.cost(*trajectory)
            actions.grad = torch.from_numpy(self._action_gradient(problem, cost, tick))
            return cost.cost

        guess = self._trajectory(problem, actions.numpy(), tick)
        costs = [problem.cost(*guess).cost]
        # One iteration a step, for the costs in between: the optimizer keeps its curvature pairs from step to step.
        while len(costs) <= MAX_ITERATIONS and not _has_converged(costs):
            before = actions.clone()
            optimizer.step(evaluate)
            found = self._trajectory(problem, actions.numpy(), tick)
            costs.append(problem.cost(*found).cost)
            if costs[-1] > costs[-2]:
                # As low as float32 trajectories go: what is left of the descent is their rounding.
                actions.copy_(before)
                costs.pop()
                break
        found = self._trajectory(problem, actions.numpy(), tick)
        seconds = time.monotonic() - begin
        return OptimizerResult(
            problem, closed_form(problem), tuple(costs), len(costs) - 1, self.calls - calls, seconds, guess, found
        )

    def _trajectory(self, problem: JerkProblem, actions: np.ndarray, tick: Callable[[], None]) -> OptimizedMotion:
        request = Integrate.Request(actions=_sequence(problem, actions))
        batch = batch_arrays(self._call(self._integrate, request, tick).trajectory)
        return OptimizedMotion(
            *[a[0].astype(np.float64) for a in (batch.position, batch.velocity, batch.acceleration, batch.jerk)]
        )

    def _action_gradient(self, problem: JerkProblem, cost: CostGradient, tick: Callable[[], None]) -> np.ndarray:
        sequence = _sequence(problem, np.zeros((problem.horizon, problem.dof)))
        sequence.data = floats(np.zeros(0))  # the map is linear: the gradient does not depend on the actions
        request = ComputeGradient.Request(actions=sequence)
        request.grad_position, request.grad_velocity = floats(cost.position), floats(cost.velocity)
        request.grad_acceleration, request.grad_jerk = floats(cost.acceleration), floats(cost.jerk)
        answer = self._call(self._gradient, request, tick)
        return np.asarray(answer.grad_action, dtype=np.float64).reshape(problem.horizon, problem.dof)

    def _call(self, client: Client, request: object, tick: Callable[[], None]) -> object:
        for _ in range(ATTEMPTS):
            deadline = time.monotonic() + ANSWER_WITHIN
            while not client.service_is_ready() and time.monotonic() < deadline:
                tick()
                time.sleep(0.05)
            self.calls += 1
            answered = threading.Event()
            future = client.call_async(request)
            future.add_done_callback(lambda _, answered=answered: answered.set())
            while not answered.wait(0.05) and time.monotonic() < deadline:
                tick()
            if future.done():
                answer = future.result()
                if not answer.success:
                    raise ServiceError(f"{client.srv_name} refused a request of the optimizer: {answer.message}")
                return answer
            client.remove_pending_request(future)
        raise ServiceError(f"{client.srv_name} did not answer within {ATTEMPTS} x {ANSWER_WITHIN:.0f} s")


def _sequence(problem: JerkProblem, actions: np.ndarray) -> ActionSequence:
    dt = np.array([problem.dt])
    return action_sequence(problem.joint_names, actions[None], dt, ControlSpace.JERK, problem.start)


def _has_converged(costs: list[float]) -> bool:
    """Whether two iterations in a row have not lowered the cost by more than a 1e-7th."""
    if len(costs) < 3:
        return False
    return costs[-3] - costs[-1] <= 1e-7 * abs(costs[-1])
