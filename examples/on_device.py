"""Sampling and descent in process, on one device: a start and a goal go in, one plan comes back, and nothing else.

    python examples/on_device.py --device cuda --batch 10000

It does not use ROS; `mppi.py` sends the plans of the sampler to the node.
"""

import argparse
import time

import numpy as np
import torch
from torch import Tensor

from traj_integrator_ros.kernels import CostTerm, QuadraticCost, quadratic_cost

HORIZON, STEP = 32, 0.05  # velocities in a rollout, s for each
KNOTS, SPREAD = 8, 0.05  # of the noise: independent numbers for each joint, rad/s
GREED = 0.1  # temperature of the weights, of the standard deviation of the costs
SPEED, ACCELERATION = 1.0, 4.0  # rad/s and rad/s^2 to stay below
RATE = 0.02  # of the descent, rad/s


class Crossing:
    """Memory for transfers between host and device, each in one copy: start and goal in, cost and plan out."""

    def __init__(self, dof: int, device: torch.device) -> None:
        is_pinned = device.type == "cuda"
        self._asked = torch.empty(3, 1, dof, pin_memory=is_pinned)
        self._there = torch.empty(3, 1, dof, device=device)
        self._answer = torch.empty(1 + HORIZON * dof, pin_memory=is_pinned)

    def ask(self, start: np.ndarray, goal: np.ndarray) -> Tensor:
        """Start position, start velocity and goal on the device, `[3, 1, dof]`."""
        self._asked[:, 0] = torch.from_numpy(np.vstack([start, goal]))
        return self._there.copy_(self._asked, non_blocking=True)

    def answer(self, cost: Tensor, plan: Tensor) -> tuple[float, Tensor]:
        """A cost and a plan `[HORIZON, dof]` on the host; waits for the device."""
        self._answer.copy_(torch.cat([cost.view(1), plan.flatten()]))
        return float(self._answer[0]), self._answer[1:].view(HORIZON, -1).clone()


class Sampler:
    """Model predictive path integral control of velocities.

    Args:
        dof: joints.
        rollouts: number of samples in each improvement.
        device: where everything is computed.

    """

    def __init__(self, dof: int, rollouts: int, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self.velocities = torch.zeros(HORIZON, dof)
        """The plan on the host, rad/s."""
        self._plan = torch.zeros(HORIZON, dof, device=self.device)
        self._noise = torch.empty(rollouts, KNOTS, dof, device=self.device)
        # White noise would average out, so the noise is smooth: raised cosines, each around a knot.
        place = (torch.arange(HORIZON) + 0.5) * (KNOTS - 1) / HORIZON
        shape = 0.5 + 0.5 * torch.cos(torch.pi * (place[:, None] - torch.arange(KNOTS)).clamp(-1, 1))
        self._shape = shape.contiguous().to(self.device)
        self._crossing = Crossing(dof, self.device)

    def improve(self, start: np.ndarray, goal: np.ndarray) -> float:
        """Sample around the plan and move it to the average of the samples, weighted by their costs.

        Args:
            start: position and velocity `[2, dof]`, rad, rad/s.
            goal: position at which the plan ends at rest, `[dof]`, rad.

        Returns:
            The cost of the plan before the improvement.

        """
        *rows, target = self._crossing.ask(start, goal)
        noise = self._shape @ self._noise.normal_(0.0, SPREAD)
        noise[0].zero_()  # the plan itself is one of the samples
        candidates = self._plan + noise
        costs = quadratic_cost(candidates, *rows, cost=cost_of(target[0]), control_map="velocity", dt=STEP)
        weights = torch.softmax(-costs / (GREED * costs.std() + 1e-12), dim=0)
        self._plan = torch.einsum("r,rhd->hd", weights, candidates)
        cost, self.velocities = self._crossing.answer(costs[0], self._plan)
        return cost

    def advance(self, steps: int) -> None:
        """Remove the executed steps, and append zeros."""
        self._plan = self._plan.roll(-min(steps, HORIZON), 0)
        self._plan[HORIZON - min(steps, HORIZON) :].zero_()


class Descent:
    """Improves random plans by gradient descent, and returns the best one.

    Args:
        dof: joints.
        batch: number of plans.
        device: where everything is computed.

    """

    def __init__(self, dof: int, batch: int, device: str = "cpu") -> None:
        self.device = torch.device(device)
        self._plans = torch.empty(batch, HORIZON, dof, device=self.device)
        self._crossing = Crossing(dof, self.device)

    def optimize(self, start: np.ndarray, goal: np.ndarray, steps: int = 20) -> tuple[float, Tensor]:
        """Return the least cost and its plan `[HORIZON, dof]`, rad/s; `start` and `goal` as for `Sampler.improve`."""
        *rows, target = self._crossing.ask(start, goal)
        plans = self._plans.normal_(0.0, SPREAD).detach().requires_grad_()
        optimizer, cost = torch.optim.Adam([plans], lr=RATE), cost_of(target[0])
        for _ in range(steps):
            optimizer.zero_grad()
            quadratic_cost(plans, *rows, cost=cost, control_map="velocity", dt=STEP).sum().backward()
            optimizer.step()
        with torch.no_grad():
            costs = quadratic_cost(plans, *rows, cost=cost, control_map="velocity", dt=STEP)
            best = costs.argmin(0, keepdim=True)
            return self._crossing.answer(costs.index_select(0, best), plans.index_select(0, best))


def cost_of(goal: np.ndarray | Tensor) -> QuadraticCost:
    """Cost for reaching the goal, at rest at the end of the plan, smoothly and within limits."""
    target = torch.from_numpy(goal).float() if isinstance(goal, np.ndarray) else goal
    return QuadraticCost(
        position=CostTerm(weight=1.0, target=target, terminal_weight=50.0),
        velocity=CostTerm(terminal_weight=5.0, limit_weight=500.0, lower=-SPEED, upper=SPEED),
        acceleration=CostTerm(weight=0.02, limit_weight=50.0, lower=-ACCELERATION, upper=ACCELERATION),
    )


def main() -> None:
    """Improve one plan by sampling, and find another one by descent."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu", help="of torch (default: %(default)s)")
    parser.add_argument("--batch", type=int, default=2000, help="rollouts, and plans (default: %(default)s)")
    parser.add_argument("--dof", type=int, default=7, help="joints (default: %(default)s)")
    options = parser.parse_args()
    start, goal = np.zeros((2, options.dof)), np.full(options.dof, 0.3)
    sampler, descent = (made(options.dof, options.batch, options.device) for made in (Sampler, Descent))
    for name, run in (
        ("20 improvements", lambda: [sampler.improve(start, goal) for _ in range(20)][-1]),
        ("descent of 20 steps", lambda: descent.optimize(start, goal)[0]),
    ):
        began = time.perf_counter()
        cost = run()
        print(f"{name} of {options.batch} on {options.device}: {time.perf_counter() - began:.3f} s, cost {cost:.4g}")


if __name__ == "__main__":
    main()
