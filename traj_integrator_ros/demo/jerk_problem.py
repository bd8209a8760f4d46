"""The demo optimizer's problem, least jerk from a moving start to a goal at rest, and its closed form. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from ..kernels import jerk_step
from .motion import Motion, accelerations

HORIZON = 64
STEP = 0.025
"""s; the motion to the goal takes (HORIZON - 1) * STEP."""


@dataclass(frozen=True)
class CostWeights:
    """Weights of the cost; goal terms count the last point only."""

    jerk: float = 1e-3
    """per rad²/s⁵ (squared jerk over time)"""
    position: float = 2000.0
    """per rad²"""
    velocity: float = 200.0
    """per (rad/s)²"""
    acceleration: float = 5.0
    """per (rad/s²)²"""


class CostGradient(NamedTuple):
    """Cost and its gradients by the trajectory (upstream gradients), each [horizon, dof]."""

    cost: float
    position: np.ndarray
    velocity: np.ndarray
    acceleration: np.ndarray
    jerk: np.ndarray


@dataclass(frozen=True)
class JerkProblem:
    """Minimize, over jerk actions [horizon, dof] from a start in motion, the jerk and the distance to a goal at rest:

        w_jerk dt Σ_h |j[h]|²  +  w_position |p[H-1] - goal|²  +  w_velocity |v[H-1]|²  +  w_acceleration |a[H-1]|²

    `start` is [3, dof]: position, velocity, acceleration; `goal` [dof]. float64, in rad, rad/s, rad/s².
    """

    joint_names: tuple[str, ...]
    start: np.ndarray
    goal: np.ndarray
    horizon: int = HORIZON
    dt: float = STEP
    weights: CostWeights = CostWeights()

    @property
    def dof(self) -> int:
        """Number of joints."""
        return len(self.joint_names)

    def cost(
        self, position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, jerk: np.ndarray
    ) -> CostGradient:
        """Cost of a trajectory, arrays [horizon, dof], with its gradient by every output."""
        w = self.weights
        terms = (position[-1] - self.goal, velocity[-1], acceleration[-1])
        last = (w.position, w.velocity, w.acceleration)
        value = w.jerk * self.dt * float(np.sum(jerk**2))
        gradients = []
        for weight, term in zip(last, terms, strict=True):
            value += weight * float(np.sum(term**2))
            gradient = np.zeros((self.horizon, self.dof))
            gradient[-1] = 2 * weight * term
            gradients.append(gradient)
        return CostGradient(value, *gradients, 2 * w.jerk * self.dt * jerk)


class Optimum(NamedTuple):
    """The closed-form solution: jerk actions [horizon, dof] and their cost."""

    actions: np.ndarray
    cost: float


def closed_form(problem: JerkProblem) -> Optimum:
    """The optimum from the normal equations of the float64 jerk map, which is linear in the actions.

    Row i of the map's matrix is the trajectory of a unit jerk in action i. The last action moves nothing; its optimum
    is 0.
    """
    unit = torch.eye(problem.horizon, dtype=torch.float64)[:, :, None]
    zero = torch.zeros(1, 1, dtype=torch.float64)
    response = jerk_step(unit, zero, zero, zero, dt=problem.dt)
    start = [torch.from_numpy(np.ascontiguousarray(row))[None].double() for row in problem.start]
    drift = jerk_step(torch.zeros(1, problem.horizon, problem.dof, dtype=torch.float64), *start, dt=problem.dt)

    w = problem.weights
    last = zip(
        (w.position, w.velocity, w.acceleration),
        (response.position, response.velocity, response.acceleration),
        (drift.position[0, -1] - torch.from_numpy(problem.goal), drift.velocity[0, -1], drift.acceleration[0, -1]),
        strict=True,
    )
    jerk = response.jerk[:, :, 0].numpy()
    rows, right = [np.sqrt(w.jerk * problem.dt) * jerk.T], [np.zeros((problem.horizon, problem.dof))]
    for weight, map_, offset in last:
        rows.append(np.sqrt(weight) * map_[:, -1, 0].numpy()[None])
        right.append(-np.sqrt(weight) * offset.numpy()[None])
    # Least squares of the stacked terms: the normal equations, at the square root of their condition number.
    actions = np.linalg.lstsq(np.concatenate(rows), np.concatenate(right), rcond=None)[0]
    return Optimum(actions, problem.cost(*integrate_exactly(problem, actions)).cost)


def integrate_exactly(problem: JerkProblem, actions: np.ndarray) -> list[np.ndarray]:
    """Position, velocity, acceleration, jerk, each [horizon, dof], of jerk actions in float64."""
    start = [torch.from_numpy(np.ascontiguousarray(row))[None].double() for row in problem.start]
    trajectory = jerk_step(torch.from_numpy(actions)[None].double(), *start, dt=problem.dt)
    return [output[0].numpy() for output in trajectory]


def problem_from(motion: Motion) -> JerkProblem:
    """From where the motion is fastest to a goal at rest: the position it has a second later, or at its end."""
    speed = np.linalg.norm(motion.velocity, axis=1)
    early = max(1, int(0.7 * motion.samples))
    first = int(np.argmax(speed[:early]))
    goal = min(int(np.searchsorted(motion.time, motion.time[first] + 1.0)), motion.samples - 1)
    start = np.stack([motion.position[first], motion.velocity[first], accelerations(motion)[first]])
    # What the node gets is float32: the closed form starts from the same numbers.
    return JerkProblem(motion.joint_names, start.astype(np.float32).astype(np.float64), motion.position[goal].copy())
