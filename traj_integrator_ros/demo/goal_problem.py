"""The demo optimizer's problem, least jerk from a moving start to a goal at rest, and its closed form. Knows no ROS.

One cost with three kinds of variables: jerks, control points of a B-spline, which meets the goal by itself, and
positions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
import torch

from ..kernels import ControlSpace, Trajectory, bspline_step, clique_step, jerk_step
from .motion import Motion, state_at

DURATION = 1.575
"""s, of the motion to the goal."""
JERKS, POINTS, DEGREE, STEPS = 64, 16, 3, 4
SPLINE_ROWS = (POINTS + DEGREE) * STEPS + 1
JERK_WEIGHT = 1e-3
"""Of the cost, per rad²/s⁵ (squared jerk over time)."""
END_WEIGHTS = (2000.0, 200.0, 5.0)
"""Of position, velocity and acceleration of the last point, per rad², (rad/s)², (rad/s²)²."""


class Steering(Enum):
    """What the optimizer varies: its name, the control space of the sequences, and their numbers of actions and rows.

    `dt` is the time between rows, s.
    """

    JERKS = "jerks", ControlSpace.JERK, JERKS, JERKS
    SPLINE = "control points", ControlSpace.BSPLINE, POINTS, SPLINE_ROWS
    POSITIONS = "positions", ControlSpace.POSITION, SPLINE_ROWS, SPLINE_ROWS

    def __new__(cls, name: str, control_space: ControlSpace, actions: int, rows: int) -> Steering:
        """A member, whose value is its name."""
        one = object.__new__(cls)
        one._value_, one.control_space, one.actions, one.rows = name, control_space, actions, rows
        one.dt = DURATION / (rows - 1)
        return one


@dataclass(frozen=True)
class GoalProblem:
    """Minimize, over actions [n, dof] from a start in motion, the jerk and the distance to a goal at rest:

        w_jerk dt Σ_h |j[h]|²  +  w_position |p[H-1] - goal|²  +  w_velocity |v[H-1]|²  +  w_acceleration |a[H-1]|²

    `start` is [3, dof]: position, velocity, acceleration; `goal` [dof]. float64, in rad, rad/s, rad/s².
    """

    joint_names: tuple[str, ...]
    start: np.ndarray
    goal: np.ndarray
    steering: Steering

    @property
    def guess(self) -> np.ndarray:
        """Initial actions [n, dof]: no jerk, or a straight line from start to goal."""
        n = self.steering.actions
        if self.steering is Steering.JERKS:
            return np.zeros((n, len(self.goal)))
        way = np.linspace(0, 1, n + 1)[1:, None]
        return self.start[0] + way * (self.goal - self.start[0])

    @property
    def basis(self) -> np.ndarray:
        """Basis [n, n]: its product with the optimizer's variables is added to the guess, which conditions the problem.

        Jerk is the third difference of positions and control points, between the fixed points of the start and of a
        goal that is met. In this basis the variables have the same sum of squares, so all have equal weight.
        """
        n = self.steering.actions
        if self.steering is Steering.JERKS:
            return np.eye(n)
        fixed_behind = DEGREE if self.steering is Steering.SPLINE else 0
        differences = np.diff(np.eye(DEGREE + n + fixed_behind), 3, axis=0)[:, DEGREE : DEGREE + n]
        return np.linalg.inv(np.linalg.cholesky(differences.T @ differences).T)

    def cost(self, trajectory: Sequence[np.ndarray]) -> tuple[float, tuple[np.ndarray, ...]]:
        """Cost of a trajectory, four arrays [rows, dof], and its gradients by them (upstream gradients)."""
        outputs = [torch.from_numpy(rows).requires_grad_() for rows in trajectory]
        cost = (_residuals(self.steering, outputs, torch.from_numpy(self.goal)) ** 2).sum()
        return cost.item(), tuple(gradient.numpy() for gradient in torch.autograd.grad(cost, outputs))


def _residuals(steering: Steering, trajectory: Sequence[torch.Tensor], goal: torch.Tensor) -> torch.Tensor:
    """Whose squares add up to the cost, [..., rows + 3, dof], of trajectories [..., rows, dof]."""
    *states, jerk = trajectory
    ends = [rows[..., -1:, :] - (goal if order == 0 else 0) for order, rows in enumerate(states)]
    scaled = [weight**0.5 * end for weight, end in zip(END_WEIGHTS, ends, strict=True)]
    return torch.cat([(JERK_WEIGHT * steering.dt) ** 0.5 * jerk, *scaled], dim=-2)


class Optimum(NamedTuple):
    """The closed-form solution: actions [n, dof] and their cost."""

    actions: np.ndarray
    cost: float


def closed_form(problem: GoalProblem) -> Optimum:
    """The optimum from the residuals of the float64 map, which are linear in the actions: their least squares.

    An action without effect has the optimum 0.
    """
    steering, goal = problem.steering, torch.from_numpy(problem.goal)
    units = torch.eye(steering.actions, dtype=torch.float64)[:, :, None]
    response = _residuals(steering, trajectories(steering, units, np.zeros((3, 1)), np.zeros(1)), 0 * goal[:1])
    none = torch.zeros(1, steering.actions, len(goal), dtype=torch.float64)
    drift = _residuals(steering, trajectories(steering, none, problem.start, problem.goal), goal)
    actions = np.linalg.lstsq(response[:, :, 0].T.numpy(), -drift[0].numpy(), rcond=None)[0]
    return Optimum(actions, problem.cost(integrate_exactly(problem, actions))[0])


def integrate_exactly(problem: GoalProblem, actions: np.ndarray) -> list[np.ndarray]:
    """Position, velocity, acceleration, jerk, each [rows, dof], of actions in float64."""
    trajectory = trajectories(problem.steering, torch.from_numpy(actions)[None], problem.start, problem.goal)
    return [output[0].numpy() for output in trajectory]


def problem_from(motion: Motion, steering: Steering) -> GoalProblem:
    """The problem from the motion's fastest state to rest at its position a second later, or at its end."""
    speed = np.linalg.norm(motion.velocity, axis=1)
    early = max(1, int(0.7 * motion.samples))
    first = int(np.argmax(speed[:early]))
    goal = min(int(np.searchsorted(motion.time, motion.time[first] + 1.0)), motion.samples - 1)
    # The node receives float32: the closed form starts from the same numbers.
    given = state_at(motion, first), motion.position[goal]
    return GoalProblem(motion.joint_names, *(x.astype(np.float32).astype(np.float64) for x in given), steering)


def trajectories(steering: Steering, actions: torch.Tensor, start: np.ndarray, goal: np.ndarray) -> Trajectory:
    """The trajectories of actions [B, n, dof], float64, differentiably."""
    state = [torch.from_numpy(np.ascontiguousarray(row))[None] for row in start]
    if steering is Steering.SPLINE:
        end = torch.from_numpy(np.ascontiguousarray(goal))[None]
        return bspline_step(actions, *state, goal_position=end, dt=steering.dt, degree=DEGREE, steps=STEPS)
    step = jerk_step if steering is Steering.JERKS else clique_step
    return step(actions, *state, dt=steering.dt)
