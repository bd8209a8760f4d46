"""Draws docs/figures/optimizer.png: a run of examples/optimizer.py, compared with the optimum in closed form.

Runs a node and the example's optimizer against it. Run `python docs/figures/optimizer.py` in the project's environment.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import torch
from recording_session import ROOT, isolated_environment, running
from scipy.optimize import minimize

from traj_integrator_ros.client import IntegratorClient
from traj_integrator_ros.kernels import jerk_step
from traj_integrator_ros.motions.figures import BLUE, JOINT_COLORS, figure

sys.path.insert(0, str(ROOT / "examples"))
import optimizer as example

WEIGHTS = [example.COST[kind]["terminal_weight"] for kind in ("position", "velocity", "acceleration")]
JERK_WEIGHT = example.COST["jerk"]["weight"]


def main() -> None:
    """Optimize, and draw cost above optimum and the motions of some iterations."""
    isolated_environment()
    with running(), IntegratorClient(name="optimizer", timeout_s=60.0) as client:
        start = np.zeros(example.HORIZON * len(example.START))
        iterates = [start]
        minimize(
            example.cost_and_gradient,
            start,
            args=(client,),
            jac=True,
            method="L-BFGS-B",
            callback=lambda jerk: iterates.append(jerk.copy()),
            options={"maxiter": 200},
        )
        trajectories = [example.motion(jerk, client) for jerk in iterates]
    costs = np.array([cost_of(*pair) for pair in zip(trajectories, iterates, strict=True)])
    draw(costs, optimal_cost(), [trajectories[index][0] for index in (0, 5, -1)])


def cost_of(trajectory: list[np.ndarray], jerk: np.ndarray) -> float:
    """The cost of ~/evaluate in float64: below a relative 1e-7, float32 would hide the rest of the descent."""
    targets = (example.GOAL, 0.0, 0.0)
    ends = [rows[-1].astype(np.float64) for rows in trajectory]
    weighted = zip(WEIGHTS, ends, targets, strict=True)
    used = jerk[: -len(example.START)]
    return sum(weight * float(((end - target) ** 2).sum()) for weight, end, target in weighted) + (
        JERK_WEIGHT * float(used @ used)
    )


def optimal_cost() -> float:
    """The least cost, in float64: the cost is quadratic in the jerks, so it is a linear least squares problem."""
    horizon, dof = example.HORIZON, len(example.START)
    start = [torch.tensor(values)[None] for values in (example.START, np.full(dof, example.START_VELOCITY))]

    def residuals(jerk: torch.Tensor) -> torch.Tensor:
        end = jerk_step(jerk.reshape(1, horizon, dof), *start, torch.zeros(1, dof).double(), dt=example.STEP)
        errors = (end.position[0, -1] - torch.tensor(example.GOAL), end.velocity[0, -1], end.acceleration[0, -1])
        weighted = [w**0.5 * error for w, error in zip(WEIGHTS, errors, strict=True)]
        return torch.cat([*weighted, JERK_WEIGHT**0.5 * jerk])

    zero = torch.zeros(horizon * dof, dtype=torch.float64)
    jacobian = torch.func.jacrev(residuals)(zero)
    best = torch.linalg.lstsq(jacobian, -residuals(zero)).solution
    return float(residuals(best).square().sum())


def draw(costs: np.ndarray, optimum: float, motions: list[np.ndarray]) -> None:
    """Convergence on the left, motions on the right."""
    time = example.STEP * np.arange(example.HORIZON)
    with figure(Path(__file__).with_suffix(".png"), 13, 5) as drawn:
        left, right = drawn.subplots(1, 2)
        left.semilogy(np.abs(costs - optimum) / optimum, "o-", color=BLUE, linewidth=2, markersize=5)
        left.set_xlabel("iteration")
        left.set_ylabel("(cost - optimum) / optimum")
        left.set_title(f"cost {costs[0]:.0f} to {costs[-1]:.5f}, optimum in closed form {optimum:.5f}", loc="left")
        for position, style in zip(motions, (":", "--", "-"), strict=True):
            for joint, color in list(enumerate(JOINT_COLORS))[:3]:
                right.plot(time, position[:, joint] - example.START[joint], color=color, linestyle=style, linewidth=1.8)
        for joint in range(3):
            goal = example.GOAL[joint] - example.START[joint]
            right.plot(time[-1], goal, "*", color=JOINT_COLORS[joint], markersize=14, markeredgecolor="white", zorder=5)
        right.set_xlabel("time [s]")
        right.set_ylabel("position from the start [rad]")
        right.set_title("3 joints: guess (dots), iteration 5 (dashes), last; goals (stars)", loc="left")


if __name__ == "__main__":
    main()
