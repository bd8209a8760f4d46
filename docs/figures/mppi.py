"""Draws docs/figures/mppi.png: how the sampler of examples/mppi.py converges, and how long an improvement takes.

Run `python docs/figures/mppi.py` in the project's environment.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "examples"))
from on_device import STEP, Sampler, cost_of

from traj_integrator_ros.kernels import quadratic_cost

COLORS = {1000: "#D55E00", 2000: "#0072B2", 10000: "#009E73"}
IMPROVEMENTS = 60
START = np.array([np.zeros(7), [0.2, 0, -0.1, 0, 0.1, 0, 0]])
GOAL = np.array([0.3, 0.2, -0.3, 0.1, 0.3, -0.2, 0.3])


def main() -> None:
    """Plot the excess over the optimum by improvements, for three numbers of rollouts."""
    plt.rcParams.update({"font.size": 11, "axes.spines.top": False, "axes.spines.right": False})
    figure, axes = plt.subplots(figsize=(7.5, 4.2), layout="constrained")
    best = optimum()
    for rollouts, color in COLORS.items():
        torch.manual_seed(1)
        sampler = Sampler(7, rollouts)
        costs, times = [], []
        for _ in range(IMPROVEMENTS + 1):
            begin = time.perf_counter()
            costs.append(sampler.improve(START, GOAL))
            times.append(time.perf_counter() - begin)
        label = f"{rollouts:,} rollouts, {1e3 * float(np.median(times)):.1f} ms each"
        axes.semilogy(np.array(costs) / best, color=color, label=label)
        print(f"{label}: {costs[0] / best:.1f} to {costs[-1] / best:.3f} of the optimum {best:.4g}")
    axes.axhline(1, color="#666666", linewidth=5, alpha=0.25, label="the optimum (L-BFGS)")
    axes.set(
        xlabel="improvements", ylabel="cost of the plan, over the optimum", title="MPPI of 32 velocities of 7 joints"
    )
    axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".png"), dpi=110)


def optimum() -> float:
    """Return the least cost of the same problem, found by gradient descent."""
    velocities = torch.zeros(1, 32, 7, requires_grad=True)
    rows = torch.from_numpy(START).float()[:, None]
    solver = torch.optim.LBFGS([velocities], max_iter=500, line_search_fn="strong_wolfe", tolerance_change=1e-12)

    def cost() -> torch.Tensor:
        solver.zero_grad()
        value = quadratic_cost(velocities, *rows, cost=cost_of(GOAL), control_map="velocity", dt=STEP).sum()
        value.backward()
        return value

    solver.step(cost)
    return cost().item()


if __name__ == "__main__":
    main()
