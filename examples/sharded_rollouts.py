"""More trajectories than one device should hold: gradient descent, and sampling, over all devices.

    torchrun --nproc-per-node 2 examples/sharded_rollouts.py

Every process holds its part of the batch as a DTensor (docs/scaling.md); on CUDA each uses a GPU and NCCL, otherwise
the CPU and gloo. Prints the rate of each process, and of all of them together. Knows no ROS.
"""

import argparse
import os
import time
from collections.abc import Callable

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard

from traj_integrator_ros.kernels import CostTerm, QuadraticCost, quadratic_cost

HORIZON, JOINTS, STEP = 32, 7, 0.05  # accelerations in a trajectory, joints, s for each
REACH = 0.5  # distance of the goals, rad
SPREAD = 1.0  # standard deviation of the samples, rad/s^2
GREED = 0.1  # temperature of their weights, of the mean of the costs above the best one


def descend(mesh: DeviceMesh, trajectories: int, steps: int) -> tuple[float, float]:
    """Optimize each trajectory to a goal of its own, and their shared start to the position of least cost.

    Returns:
        The mean cost before and after.

    """
    spread = torch.Generator(mesh.device_type).manual_seed(1 + mesh.get_rank())
    own = share_of(mesh, trajectories)
    goals = REACH * torch.randn(own, 1, JOINTS, generator=spread, device=mesh.device_type) + 0.3
    goals = goals.expand(-1, HORIZON, -1).contiguous()
    target = DTensor.from_local(goals, mesh, [Shard(0)], shape=(trajectories, *goals.shape[1:]), stride=goals.stride())
    actions = torch.zeros_like(target).requires_grad_()
    start = DTensor.from_local(torch.zeros(1, JOINTS, device=mesh.device_type), mesh, [Replicate()]).requires_grad_()
    cost = QuadraticCost(
        position=CostTerm(weight=0.1, target=target, terminal_weight=5.0),
        velocity=CostTerm(terminal_weight=1.0),
        acceleration=CostTerm(weight=0.01),
    )
    optimizer = torch.optim.Adam([actions, start], lr=0.1)
    costs = []
    for _ in range(steps):
        optimizer.zero_grad()
        each = quadratic_cost(actions, start, cost=cost, control_map="acceleration_zoh", dt=STEP)
        each.sum().backward()
        # The only communication: [1, JOINTS] numbers, the sum over all trajectories.
        start.grad = start.grad.redistribute(mesh, [Replicate()]) / trajectories
        optimizer.step()
        costs.append(each.detach())
    return mean_of(costs[0]), mean_of(costs[-1])


def sample(mesh: DeviceMesh, rollouts: int, steps: int) -> tuple[float, float]:
    """Model predictive path integral control: the same plan everywhere, samples around it on each process.

    Returns:
        The mean cost of the samples in the first and in the last step.

    """
    spread = torch.Generator(mesh.device_type).manual_seed(1 + mesh.get_rank())
    own = share_of(mesh, rollouts)
    plan = torch.zeros(HORIZON, JOINTS, device=mesh.device_type)
    start = DTensor.from_local(torch.zeros(1, JOINTS, device=mesh.device_type), mesh, [Replicate()])
    cost = QuadraticCost(
        position=CostTerm(weight=0.1, target=REACH, terminal_weight=5.0), velocity=CostTerm(terminal_weight=1.0)
    )
    means = []
    for _ in range(steps):
        noise = SPREAD * torch.randn(own, HORIZON, JOINTS, generator=spread, device=mesh.device_type)
        candidates = plan + noise
        split = DTensor.from_local(
            candidates, mesh, [Shard(0)], shape=(rollouts, HORIZON, JOINTS), stride=candidates.stride()
        )
        costs = quadratic_cost(split, start, cost=cost, control_map="acceleration_zoh", dt=STEP).to_local()
        # Three reductions: the best cost, the sum of the weights, and the weighted sum of the samples.
        best, total = costs.min(), costs.sum()
        dist.all_reduce(best, dist.ReduceOp.MIN)
        dist.all_reduce(total)
        mean = total / rollouts
        weights = torch.exp((best - costs) / (GREED * (mean - best) + 1e-12))
        sums = torch.cat([weights @ candidates.flatten(1), weights.sum()[None]])
        dist.all_reduce(sums)
        plan = (sums[:-1] / sums[-1]).view_as(plan)
        means.append(mean.item())
    return means[0], means[-1]


def share_of(mesh: DeviceMesh, batch: int) -> int:
    """Number of rows of this process, as distributed by Shard(0)."""
    each = -(-batch // mesh.size())
    return max(0, min(each, batch - each * mesh.get_rank()))


def mean_of(costs: DTensor) -> float:
    return costs.sum().full_tensor().item() / costs.shape[0]


def told(mesh: DeviceMesh, name: str, work: Callable[..., tuple[float, float]], batch: int, steps: int) -> None:
    """Time the work and print it, in the order of the processes; the first steps are for warm-up."""
    work(mesh, batch, 2)
    dist.barrier()
    began = time.perf_counter()
    before, after = work(mesh, batch, steps)
    if mesh.device_type == "cuda":
        torch.cuda.synchronize()
    seconds = time.perf_counter() - began
    rates = [torch.zeros(1, device=mesh.device_type) for _ in range(mesh.size())]
    dist.all_gather(rates, torch.full((1,), share_of(mesh, batch) * steps / seconds, device=mesh.device_type))
    if mesh.get_rank() == 0:
        for rank, rate in enumerate(rates):
            print(f"{name}: rank {rank}: {rate.item():,.0f} trajectories/s")
        print(f"{name}: in all: {sum(rates).item():,.0f} trajectories/s, {1e3 * seconds / steps:.1f} ms a step")
        print(f"{name}: mean cost {before:.4g} -> {after:.4g}", flush=True)


def main() -> None:
    """Run both on all processes."""
    parser = argparse.ArgumentParser(description="Gradient descent and MPPI over trajectories split over processes.")
    parser.add_argument("--trajectories", type=int, default=20_000, help="of all processes (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=20, help="of each work (default: %(default)s)")
    options = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cuda":
        torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", "0")))
    mesh = init_device_mesh(device, (int(os.environ.get("WORLD_SIZE", "1")),))
    try:
        if mesh.get_rank() == 0:
            shape = f"{options.trajectories:,} x {HORIZON} x {JOINTS}"
            print(f"{shape} over {mesh.size()} processes on {device}, {torch.get_num_threads()} threads each")
        told(mesh, "descent", descend, options.trajectories, options.steps)
        told(mesh, "sampling", sample, options.trajectories, options.steps)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    main()
