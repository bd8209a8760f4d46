"""The demo's optimizer: least jerk from a moving start to a goal at rest, by L-BFGS with the node's ~/evaluate."""

from __future__ import annotations

import time
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize

from ..client import IntegratorClient, Trajectories
from ..kernels import ControlSpace, CostTerm, QuadraticCost, quadratic_cost
from ..motions.samples import QUANTITIES, Samples
from .windows import DEGREE, SEGMENT

DURATION = 1.575
"""Duration of the motion to the goal, s."""
JERKS = 64
"""Number of actions if they are jerks."""
POINTS = 16
"""Number of actions if they are control points of a spline."""
JERK_WEIGHT = 1e-3
"""Weight of squared jerk over time, per rad²/s⁵."""
END_WEIGHTS = (2000.0, 200.0, 5.0)
"""Weights of position, velocity and acceleration in the last row, per rad², (rad/s)², (rad/s²)²."""
ENDS = {"maxiter": 60, "ftol": 10 * np.finfo(np.float32).eps}
"""Options of L-BFGS: costs and gradients are sent as float32, so that a smaller decrease is rounding."""


class Problem(NamedTuple):
    """Minimize, over actions [n, dof] from a start in motion, the jerk and the distance to a goal at rest:

        w_jerk dt Σ_h |j[h]|²  +  w_position |p[H-1] - goal|²  +  w_velocity |v[H-1]|²  +  w_acceleration |a[H-1]|²

    The actions are jerks, or control points of a spline, which ends in the goal by itself.
    """

    name: str
    fields: dict[str, object]
    """Fields of the action sequence, except its actions."""
    goal: np.ndarray
    guess: np.ndarray
    """Initial actions: no jerk, or a straight line to the goal."""
    basis: np.ndarray
    """Basis `[n, n]`: the actions are the guess plus the basis times the optimizer's variables."""

    @property
    def cost(self) -> QuadraticCost:
        """The cost in the form that the service and the kernels take."""
        ends = [CostTerm(terminal_weight=weight) for weight in END_WEIGHTS]
        ends[0] = ends[0]._replace(target=torch.from_numpy(self.goal))
        return QuadraticCost(*ends, CostTerm(weight=JERK_WEIGHT * self.fields["dt"]))

    def optimum(self) -> float:
        """The least cost in closed form, from the kernels in float64, since the gradient is linear in the actions."""
        n, dof = self.guess.shape
        at_zero, *at_units = self._gradients(np.eye(n + 1, n, -1)[:, :, None].repeat(dof, axis=2))[1]
        hessian = np.stack(at_units)[:, :, 0] - at_zero[:, 0]  # all joints have the same cost
        return float(self._gradients(np.linalg.lstsq(hessian, -at_zero, rcond=None)[0][None])[0][0])

    def _gradients(self, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return costs `[B]` of actions `[B, n, dof]`, and their gradients."""
        given = torch.from_numpy(actions).requires_grad_()
        *state, end = (
            None if (row := self.fields.get(name)) is None else torch.from_numpy(row)[None]
            for name in (*QUANTITIES[:3], "goal_position")
        )
        space, dt = self.fields["control_space"], self.fields["dt"]
        costs = quadratic_cost(given, *state, cost=self.cost, control_map=space, dt=dt, goal_position=end)
        return costs.detach().numpy(), torch.autograd.grad(costs.sum(), given)[0].numpy()


class Result(NamedTuple):
    """An optimizer's result: the cost of the guess and of every iteration, and the motion from ~/integrate."""

    problem: Problem
    optimum: float
    costs: tuple[float, ...]
    calls: int
    seconds: float
    found: Trajectories


def problems_of(motion: Samples) -> list[Problem]:
    """Return a problem for each kind of action: from the fastest state to rest a second later or at the end."""
    speed = np.linalg.norm(motion.velocity, axis=1)
    first = int(np.argmax(speed[: max(1, int(0.7 * len(motion.time)))]))
    last = min(int(np.searchsorted(motion.time, motion.time[first] + 1.0)), len(motion.time) - 1)
    # The node receives float32, so the optimum is computed from the same rounded numbers.
    rows = (*(getattr(motion, name)[first] for name in QUANTITIES[:3]), motion.position[last])
    *state, goal = (row.astype(np.float32).astype(np.float64) for row in rows)
    fields = {"joint_names": motion.joint_names, **dict(zip(QUANTITIES, state, strict=False))}
    jerks = {"control_space": ControlSpace.JERK, "dt": DURATION / (JERKS - 1), **fields}
    step = DURATION / ((POINTS + DEGREE) * SEGMENT)
    fields |= {"control_space": ControlSpace.BSPLINE, "dt": step, "degree": DEGREE, "steps": SEGMENT}
    line = state[0] + np.linspace(0, 1, POINTS + 1)[1:, None] * (goal - state[0])
    # In this basis, the sum of squared third differences of control points, their jerk, is that of the variables.
    differences = np.diff(np.eye(POINTS + 2 * DEGREE), 3, axis=0)[:, DEGREE:-DEGREE]
    basis = np.linalg.inv(np.linalg.cholesky(differences.T @ differences).T)
    return [
        Problem("jerks", jerks, goal, np.zeros((JERKS, motion.dof)), np.eye(JERKS)),
        Problem("control points", fields | {"goal_position": goal}, goal, line, basis),
    ]


def minimized(problem: Problem, client: IntegratorClient) -> Result:
    """Minimize the problem's cost by L-BFGS from its guess. Raises Refused, and TimeoutError without an answer."""
    begin, cost, basis = time.monotonic(), problem.cost, problem.basis
    evaluated: list[float] = []
    costs: list[float] = []

    def actions(variables: np.ndarray) -> np.ndarray:
        return (problem.guess + basis @ variables.reshape(problem.guess.shape))[None]

    def evaluate(variables: np.ndarray) -> tuple[float, np.ndarray]:
        answer = client.evaluate(actions(variables), cost, **problem.fields)
        evaluated.append(float(answer.cost[0]))
        return evaluated[-1], (basis.T @ answer.gradient.action[0].astype(np.float64)).ravel()

    def iterated(_: np.ndarray) -> None:
        costs.append(evaluated[-1])  # the line search ends at the point that it evaluated last

    first = np.zeros(problem.guess.size)
    found = minimize(evaluate, first, jac=True, method="L-BFGS-B", callback=iterated, options=ENDS)
    motion = client.integrate(actions(found.x), **problem.fields)
    seconds = time.monotonic() - begin
    return Result(problem, problem.optimum(), (evaluated[0], *costs), len(evaluated), seconds, motion)
