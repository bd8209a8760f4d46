"""Gradients of start and goal, which are few: in the kernels of the actions, they would leave most lanes idle.

Each is a sum over some rows of the upstream gradients g_q of the derivatives of order q, with weights of a table:

    grad x_k = T^k sum_rows sum_q weights[row, q, k] g_q[first + row] / T^q

where x_k is the k-th derivative of the start or goal, and T the time of a segment. Weights that alternate from segment
to segment would leave few digits of smooth gradients: running sums of them take differences of the gradients instead,
q - 1 - k times, which are 0 beyond the trajectory. For k = 2, one difference more ends with the table's last gradients.
"""

import functools

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from .device import jit_kernel, load, put, trajectories
from .pairs import second_difference


@functools.lru_cache(maxsize=64)
def on_device(weights: bytes, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return a table of float64 numbers on a device, in the dtype of arithmetic."""
    wide = torch.float64 if dtype == torch.float64 else torch.float32
    return torch.from_numpy(np.frombuffer(weights).copy()).to(wide).to(device)


@jit_kernel
def ends_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, n_steps, p_start_weights,
    n_rows, p_goal_weights, n_goal_first, p_grad_start_p, p_grad_start_v, p_grad_start_a,
    p_grad_start_j, p_grad_goal_p, p_grad_goal_v, p_grad_goal_a, p_grad_goal_j, n_batch, H, D: tl.constexpr,
    SHARED_DT: tl.constexpr, WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr, COLUMNS: tl.constexpr,
):
    """Compute the gradients of some trajectories, for a block of their joints."""
    b_trajectory, b_there, b_unit, _b_lo, b_rate = trajectories(p_dt, n_batch, n_steps, SHARED_DT, WIDE, TRAJECTORIES)
    b_column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b_in = b_there & (b_column < D)
    b_row = b_trajectory * H * D + b_column
    b_to = b_trajectory * D + b_column
    b_rate2, b_rate3 = b_rate * b_rate, b_rate * b_rate * b_rate
    for GOAL in tl.static_range(2):
        p_weights = p_goal_weights if GOAL else p_start_weights
        if p_weights is not None:
            n_there = H - n_goal_first if GOAL else H
            b_at = b_row + n_goal_first * D if GOAL else b_row
            b_sum0 = load(None, b_row, b_in, WIDE)
            b_sum1, b_sum2, b_sum3 = b_sum0, b_sum0, b_sum0
            for i in range(n_rows):
                b_in1 = b_in & (i + n_steps < n_there)
                b_in2 = b_in & (i + 2 * n_steps < n_there)
                b_g0 = load(p_grad_position, b_at, b_in, WIDE)
                b_g1 = load(p_grad_velocity, b_at, b_in, WIDE) * b_rate
                b_g2 = load(p_grad_acceleration, b_at, b_in, WIDE)
                b_slope2 = (b_g2 - load(p_grad_acceleration, b_at + n_steps * D, b_in1, WIDE)) * b_rate2
                b_g3 = load(p_grad_jerk, b_at, b_in, WIDE)
                b_next = load(p_grad_jerk, b_at + n_steps * D, b_in1, WIDE)
                b_after = load(p_grad_jerk, b_at + 2 * n_steps * D, b_in2, WIDE)
                b_bend, b_lo = second_difference(b_g3, b_next, b_after)
                p_row = p_weights + i * 16
                b_sum0 += _weighted(p_row, b_g0, b_g1, b_slope2, (b_bend + b_lo) * b_rate3)
                b_sum1 += _weighted(p_row + 1, b_g0, b_g1, b_g2 * b_rate2, (b_g3 - b_next) * b_rate3)
                b_slope3 = tl.where(i + n_steps < n_rows, b_g3 - b_next, b_g3)
                b_sum2 += _weighted(p_row + 2, b_g0, b_g1, b_g2 * b_rate2, b_slope3 * b_rate3)
                b_sum3 += _weighted(p_row + 3, b_g0, b_g1, b_g2 * b_rate2, b_g3 * b_rate3)
                b_at += D
            put(p_grad_goal_p if GOAL else p_grad_start_p, b_to, b_sum0, b_in)
            put(p_grad_goal_v if GOAL else p_grad_start_v, b_to, b_sum1 * b_unit, b_in)
            put(p_grad_goal_a if GOAL else p_grad_start_a, b_to, b_sum2 * b_unit * b_unit, b_in)
            put(p_grad_goal_j if GOAL else p_grad_start_j, b_to, b_sum3 * b_unit * b_unit * b_unit, b_in)


@triton.jit
def _weighted(p_weights, b_g0, b_g1, b_g2, b_g3):
    b_sum = tl.fma(tl.load(p_weights + 4), b_g1, tl.load(p_weights) * b_g0)
    return tl.fma(tl.load(p_weights + 12), b_g3, tl.fma(tl.load(p_weights + 8), b_g2, b_sum))
