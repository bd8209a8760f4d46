"""Gradients of start and goal: few numbers, which would keep most lanes idle beside those of the actions.

Each is a sum over some rows of the upstream gradients g_q of the derivatives of order q, with weights of a table:

    grad x_k = T^k sum_rows sum_q weights[row, q, k] g_q[first + row] / T^q

where x_k is the k-th derivative of the start or goal, and T the unit of time of the map.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import jit_kernel, load, put, trajectories


class Ends(NamedTuple):
    """Start and goal of a map."""

    start: np.ndarray
    """Weights `[rows, orders, kinds]` from the first row on."""
    goal: tuple[int, np.ndarray] | None = None
    """First row, and weights of as many rows as the start has."""
    steps: int = 1
    """The unit of time over dt."""

    def arguments(self, wanted: Sequence[bool], like: Tensor) -> dict[str, object]:
        """Arguments of `ends_kernel` for the wanted ones of start and goal, with tables on the device."""
        first, goal = self.goal if wanted[1] and self.goal else (0, None)
        tables = {"p_start_weights": self.start if wanted[0] else None, "p_goal_weights": goal}
        found = {
            name: None if table is None else on_device(table.tobytes(), like.dtype, like.device)
            for name, table in tables.items()
        }
        return {**found, "n_goal_first": first, "n_rows": len(self.start), "n_steps": self.steps}


@functools.lru_cache(maxsize=64)
def on_device(weights: bytes, dtype: torch.dtype, device: torch.device) -> Tensor:
    """A table of float64 in the dtype of arithmetic on a device."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return torch.from_numpy(np.frombuffer(weights).copy()).to(wide).to(device)


@jit_kernel
def ends_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, n_steps, p_start_weights,
    n_rows, p_goal_weights, n_goal_first, p_grad_start_p, p_grad_start_v, p_grad_start_a,
    p_grad_start_j, p_grad_goal_p, p_grad_goal_v, p_grad_goal_a, p_grad_goal_j, n_batch, H, D: tl.constexpr,
    SHARED_DT: tl.constexpr, WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr, COLUMNS: tl.constexpr,
):
    """Some trajectories, a block of their joints."""
    b_trajectory, b_there, b_unit, _b_lo, b_rate = trajectories(p_dt, n_batch, n_steps, SHARED_DT, WIDE, TRAJECTORIES)
    b_column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b_in = b_there & (b_column < D)
    b_row = b_trajectory * H * D + b_column
    b_to = b_trajectory * D + b_column
    if p_start_weights is not None:
        _end(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_start_weights, b_row, n_rows, b_unit,
            b_rate, b_in, b_to, p_grad_start_p, p_grad_start_v, p_grad_start_a, p_grad_start_j, D, WIDE,
        )
    if p_goal_weights is not None:
        _end(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_goal_weights,
            b_row + n_goal_first * D, n_rows, b_unit, b_rate, b_in, b_to, p_grad_goal_p, p_grad_goal_v, p_grad_goal_a,
            p_grad_goal_j, D, WIDE,
        )


@triton.jit
def _end(
    p_p, p_v, p_a, p_j, p_weights, b_row, n_rows, b_unit, b_rate, b_in, b_to, p_to_p, p_to_v, p_to_a, p_to_j,
    D: tl.constexpr, WIDE: tl.constexpr,
):
    """Sums over rows for the four kinds."""
    b_sum0 = load(None, b_row, b_in, WIDE)
    b_sum1 = b_sum0
    b_sum2 = b_sum0
    b_sum3 = b_sum0
    for i in range(n_rows):
        b_at = b_row + i * D
        p_row = p_weights + i * 16
        b_g0 = load(p_p, b_at, b_in, WIDE)
        b_g1 = load(p_v, b_at, b_in, WIDE) * b_rate
        b_g2 = load(p_a, b_at, b_in, WIDE) * (b_rate * b_rate)
        b_g3 = load(p_j, b_at, b_in, WIDE) * (b_rate * b_rate * b_rate)
        b_sum0 += _weighted(p_row, b_g0, b_g1, b_g2, b_g3)
        b_sum1 += _weighted(p_row + 1, b_g0, b_g1, b_g2, b_g3)
        b_sum2 += _weighted(p_row + 2, b_g0, b_g1, b_g2, b_g3)
        b_sum3 += _weighted(p_row + 3, b_g0, b_g1, b_g2, b_g3)
    put(p_to_p, b_to, b_sum0, b_in)
    put(p_to_v, b_to, b_sum1 * b_unit, b_in)
    put(p_to_a, b_to, b_sum2 * b_unit * b_unit, b_in)
    put(p_to_j, b_to, b_sum3 * b_unit * b_unit * b_unit, b_in)


@triton.jit
def _weighted(p_weights, b_g0, b_g1, b_g2, b_g3):
    b_sum = tl.fma(tl.load(p_weights + 4), b_g1, tl.load(p_weights) * b_g0)
    return tl.fma(tl.load(p_weights + 12), b_g3, tl.fma(tl.load(p_weights + 8), b_g2, b_sum))
