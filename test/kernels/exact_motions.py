"""Random inputs of any map, and motions in closed form that maps must reproduce."""

from __future__ import annotations

import torch
from torch import Tensor

from traj_integrator_ros.kernels import ControlMap


def random_inputs(
    kernel: ControlMap, batch: int, horizon: int, dof: int, seed: int, per_step: bool = True
) -> tuple[Tensor, list[Tensor], Tensor]:
    """Actions, start rows and dt [B, Ha] (uniform along the horizon where the map wants that), float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    columns = horizon if per_step and not kernel.uniform_dt_only else 1
    dt = 0.01 + 0.1 * torch.rand(batch, columns, generator=generator, dtype=torch.float64)
    return normal(batch, horizon, dof), [normal(batch, dof) for _ in range(3)], dt


def motion(coefficients: Tensor, time: Tensor, order: int = 0) -> Tensor:
    """Derivative `order` of the polynomial `sum_k c[k] t^k / k!`: coefficients [K, B, D], time [H] -> [B, H, D]."""
    terms = coefficients[order:]
    value = torch.zeros(terms.shape[1], len(time), terms.shape[2], dtype=torch.float64)
    factor = torch.ones_like(time)
    for k, term in enumerate(terms):
        value = value + term[:, None] * factor[:, None]
        factor = factor * time / (k + 1)
    return value
