"""The demo's optimizer: least jerk from a moving start to a goal at rest, by L-BFGS over the node's ~/evaluate."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import minimize
from torch import Tensor

from ..client import IntegratorClient, Trajectories
from ..kernels import ControlSpace, CostTerm, QuadraticCost, quadratic_cost
from ..motions.samples import QUANTITIES
from .recording import Motion
from .windows import DEGREE, SEGMENT

DURATION = 1.575
"""Duration of the motion to the goal, s."""
JERK_WEIGHT = 1e-3
"""Weight of squared jerk over time, per rad²/s⁵."""
END_WEIGHTS = (2000.0, 200.0, 5.0)
"""Weights of position, velocity and acceleration in the last row, per rad², (rad/s)², (rad/s²)²."""
ENDS = {"maxiter": 60, "ftol": 10 * np.finfo(np.float32).eps}
"""Costs and gradients travel as float32: a line search for less than a few of its roundings finds nothing else."""


@dataclass(frozen=True)
class Problem:
    """Minimize, over actions [n, dof] from a start in motion, the jerk and the distance to a goal at rest:

        w_jerk dt Σ_h |j[h]|²  +  w_position |p[H-1] - goal|²  +  w_velocity |v[H-1]|²  +  w_acceleration |a[H-1]|²

    The actions are jerks, or control points of a spline, which ends in the goal by itself. `start` is [3, dof]:
    position, velocity, acceleration; `goal` [dof]. float64, in rad, rad/s, rad/s².
    """

    name: str
    space: ControlSpace
    n: int
    dt: float
    """Time between rows, s."""
    joint_names: tuple[str, ...]
    start: np.ndarray
    goal: np.ndarray

    @property
    def fields(self) -> dict[str, object]:
        """Fields of the action sequence beside its actions."""
        fields = {"dt": self.dt, "control_space": self.space, "joint_names": self.joint_names}
        spline = {"goal_position": self.goal, "degree": DEGREE, "steps": SEGMENT} if self.is_spline else {}
        return {**fields, **spline, **dict(zip(QUANTITIES, self.start, strict=False))}

    @property
    def is_spline(self) -> bool:
        """Whether the actions are control points."""
        return self.space is ControlSpace.BSPLINE

    def cost(self, goal: np.ndarray) -> QuadraticCost:
        """The cost as the service takes it, and the kernels."""
        ends = [CostTerm(terminal_weight=weight) for weight in END_WEIGHTS]
        ends[0] = ends[0]._replace(target=torch.from_numpy(goal))
        return QuadraticCost(*ends, CostTerm(weight=JERK_WEIGHT * self.dt))

    def gradient(self, actions: np.ndarray, start: np.ndarray, goal: np.ndarray) -> tuple[Tensor, np.ndarray]:
        """Costs [B] of actions [B, n, dof], and their gradients, by the kernels in float64."""
        points = torch.from_numpy(actions).requires_grad_()
        state = [torch.from_numpy(row)[None] for row in start]
        end = torch.from_numpy(goal)[None] if self.is_spline else None
        costs = quadratic_cost(
            points, *state, cost=self.cost(goal), control_map=self.space, dt=self.dt, goal_position=end
        )
        return costs.detach(), torch.autograd.grad(costs.sum(), points)[0].numpy()

    def optimum(self) -> float:
        """The least cost: the gradient is linear in the actions. An action without effect has the optimum 0."""
        hessian = self.gradient(np.eye(self.n)[:, :, None], np.zeros((3, 1)), np.zeros(1))[1][:, :, 0]
        at_zero = self.gradient(np.zeros((1, self.n, len(self.goal))), self.start, self.goal)[1][0]
        actions = np.linalg.lstsq(hessian, -at_zero, rcond=None)[0]
        return float(self.gradient(actions[None], self.start, self.goal)[0][0])

    def guess_and_basis(self) -> tuple[np.ndarray, np.ndarray]:
        """Initial actions [n, dof]: no jerk, or a straight line to the goal; and the basis [n, n] of what is added.

        In it, the sum of squared third differences of control points, their jerk, is that of the variables.
        """
        if not self.is_spline:
            return np.zeros((self.n, len(self.goal))), np.eye(self.n)
        differences = np.diff(np.eye(self.n + 2 * DEGREE), 3, axis=0)[:, DEGREE:-DEGREE]
        way = np.linspace(0, 1, self.n + 1)[1:, None] * (self.goal - self.start[0])
        return self.start[0] + way, np.linalg.inv(np.linalg.cholesky(differences.T @ differences).T)


@dataclass(frozen=True)
class Result:
    """Result of the optimizer."""

    problem: Problem
    optimum: float
    costs: tuple[float, ...]
    """Cost of the first guess, and after every iteration."""
    calls: int
    seconds: float
    found: Trajectories
    """As ~/integrate returned it, arrays [1, rows, dof]."""


def problems_of(motion: Motion) -> list[Problem]:
    """From the motion's fastest state to rest at its position a second later, or at its end, by each kind of action."""
    speed = np.linalg.norm(motion.velocity, axis=1)
    first = int(np.argmax(speed[: max(1, int(0.7 * motion.samples))]))
    goal = min(int(np.searchsorted(motion.time, motion.time[first] + 1.0)), motion.samples - 1)
    start = [rows[first] for rows in (motion.position, motion.velocity, motion.acceleration)]
    # The node receives float32: the optimum is of the same numbers.
    given = [np.array(values, np.float32).astype(np.float64) for values in (start, motion.position[goal])]
    kinds = (
        ("jerks", ControlSpace.JERK, 64, DURATION / 63),
        ("control points", ControlSpace.BSPLINE, 16, DURATION / ((16 + DEGREE) * SEGMENT)),
    )
    return [Problem(*kind, motion.joint_names, *given) for kind in kinds]


def minimized(problem: Problem, client: IntegratorClient) -> Result:
    """Minimize the problem's cost by L-BFGS from its guess. Raises Refused, and TimeoutError without an answer."""
    begin, cost, (guess, basis) = time.monotonic(), problem.cost(problem.goal), problem.guess_and_basis()
    evaluated: list[float] = []
    costs: list[float] = []

    def actions(variables: np.ndarray) -> np.ndarray:
        return (guess + basis @ variables.reshape(guess.shape))[None]

    def evaluate(variables: np.ndarray) -> tuple[float, np.ndarray]:
        answer = client.evaluate(actions(variables), cost, **problem.fields)
        evaluated.append(float(answer.cost[0]))
        return evaluated[-1], (basis.T @ answer.gradient.action[0].astype(np.float64)).ravel()

    def iterated(_: np.ndarray) -> None:
        costs.append(evaluated[-1])  # the search along a line ends where it evaluated last

    found = minimize(evaluate, np.zeros(guess.size), jac=True, method="L-BFGS-B", callback=iterated, options=ENDS)
    trajectory = client.integrate(actions(found.x), **problem.fields)
    seconds = time.monotonic() - begin
    return Result(problem, problem.optimum(), (evaluated[0], *costs), len(evaluated), seconds, trajectory)
