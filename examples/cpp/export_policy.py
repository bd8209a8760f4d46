"""Compiles a policy that ends in a trajectory step for C++ programs: `python export_policy.py policy.pt2`.

The network's output are accelerations, and the step is its last layer: what leaves the policy starts at the measured
state and is integrated exactly. policy.cpp runs the package without Python.
"""

from __future__ import annotations

import sys

import torch
from torch import Tensor, nn

from traj_integrator_ros.kernels import acceleration_step

DOF, HORIZON = 7, 16
DT_S = 0.02


class Policy(nn.Module):
    """From an observation `[B, 14]` and the measured state `[B, 7]` to a motion of 16 steps."""

    def __init__(self) -> None:
        super().__init__()
        self.network = nn.Sequential(nn.Linear(2 * DOF, 64), nn.Tanh(), nn.Linear(64, HORIZON * DOF))

    def forward(self, observation: Tensor, position: Tensor, velocity: Tensor) -> tuple[Tensor, ...]:
        """Return position, velocity, acceleration and jerk, `[B, 16, 7]` each."""
        actions = self.network(observation).unflatten(-1, (HORIZON, DOF))
        return tuple(acceleration_step(actions, position, velocity, dt=DT_S))


def compile_policy(policy: nn.Module, package: str) -> str:
    """Write the package, for any batch of at least two; return its path."""
    batch = torch.export.Dim("batch", min=2)
    inputs = torch.zeros(4, 2 * DOF), torch.zeros(4, DOF), torch.zeros(4, DOF)
    exported = torch.export.export(policy.eval(), inputs, dynamic_shapes=[{0: batch}] * 3)
    return torch._inductor.aoti_compile_and_package(exported, package_path=package)


if __name__ == "__main__":
    torch.manual_seed(0)
    print(compile_policy(Policy(), sys.argv[1]))
