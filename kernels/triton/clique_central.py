"""Positions to derivatives by five-point central differences, and the vjp.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

computed as differences of differences, which are exact for neighbouring floats.

Vjp: outputs k - 1 to k + 3 see the point e[k]; its gradient, g being the upstream gradients, is

    E[k] = gp[k+1] + (gv[k+3] - 8 gv[k+2] + 8 gv[k] - gv[k-1]) / (12 dt)
           + (-ga[k+3] + 16 ga[k+2] - 30 ga[k+1] + 16 ga[k] - ga[k-1]) / (12 dt^2)
           + (-gj[k+3] + 2 gj[k+2] - 2 gj[k] + gj[k-1]) / (2 dt^3)

The action u[m] gets E[m+1], and the last one the sum over all points that repeat it. Of the start, over k = 0, -1, -2,
-3: p0: sum E[k], v0: sum k dt E[k], a0: sum (k dt)^2 / 2 E[k], j0: sum (k dt)^3 / 6 E[k].
"""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from ..types import Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load_dt, load_gradient, load_state, places, put, state_row

_EXTRA_HORIZON = 4


def clique_central_forward(inputs: Inputs, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    return launch.forward(clique_central_fwd_kernel, inputs, inputs.action.shape[1] + _EXTRA_HORIZON, out)


def clique_central_vjp(
    inputs: VjpInputs, *, truncate_terminal_gradient: bool = False, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it; truncated, the last action has that of the positions alone."""
    rows, walked = inputs.action_horizon + _EXTRA_HORIZON, inputs.action_horizon + 1
    return launch.vjp(clique_central_vjp_kernel, inputs, rows, walked, out, TRUNCATE=truncate_terminal_gradient)


@jit_kernel
def clique_central_fwd_kernel(
    p_action,
    p_start_index,
    p_start_p,
    p_start_v,
    p_start_a,
    p_start_j,
    n_start,
    p_dt,
    n_dt_batch,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_batch,
    Ha,
    D,
    LANES: tl.constexpr,
):
    """One element of the four outputs for each lane."""
    b_batch, b_h, b_column, b_in = places(n_batch, Ha + 4, D, LANES)
    b_dt = load_dt(p_dt, n_dt_batch, 0, b_batch, b_h, b_in)
    # The first rows depend on the start, too: over points measured from p0, for small numbers keep more digits.
    b_early = b_in & (b_h < 4)
    b_start = state_row(p_start_index, n_start, b_batch, b_early)
    b_p0 = tl.where(b_early, load_state(p_start_p, n_start, b_start, b_column, D, b_early), 0.0)
    # The arc before the start in steps of dt: k (v0 + k (a0 + k j0)).
    b_v0 = load_state(p_start_v, n_start, b_start, b_column, D, b_early) * b_dt
    b_a0 = load_state(p_start_a, n_start, b_start, b_column, D, b_early) * (b_dt * b_dt * 0.5)
    b_j0 = load_state(p_start_j, n_start, b_start, b_column, D, b_early) * (b_dt * b_dt * b_dt * (1.0 / 6.0))
    p_point = p_action + b_batch * Ha * D + b_column
    b_e0 = _point(p_point, b_h - 3, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
    b_e1 = _point(p_point, b_h - 2, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
    b_e2 = _point(p_point, b_h - 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
    b_e3 = _point(p_point, b_h, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
    b_e4 = _point(p_point, b_h + 1, Ha, D, b_p0, b_v0, b_a0, b_j0, b_in)
    b_d0 = b_e1 - b_e0
    b_d1 = b_e2 - b_e1
    b_d2 = b_e3 - b_e2
    b_d3 = b_e4 - b_e3
    b_before = b_d1 - b_d0
    b_centre = b_d2 - b_d1
    b_after = b_d3 - b_d2
    b_r = 1.0 / b_dt
    b_v = (7.0 * (b_d1 + b_d2) - (b_d0 + b_d3)) * (b_r * (1.0 / 12.0))
    b_a = (12.0 * b_centre + (2.0 * b_centre - b_before - b_after)) * (b_r * b_r * (1.0 / 12.0))
    b_at = (b_batch * (Ha + 4) + b_h) * D + b_column
    # The position of an action is that without arithmetic.
    put(p_position, b_at, tl.where(b_h > 1, _action(p_point, b_h - 1, Ha, D, b_in), b_p0 + b_e2), b_in)
    put(p_velocity, b_at, b_v, b_in)
    put(p_acceleration, b_at, b_a, b_in)
    put(p_jerk, b_at, (b_after - b_before) * (0.5 * b_r * b_r * b_r), b_in)


@triton.jit
def _action(p_point, b_k, Ha, D, b_mask):
    """e[k] of actions, the last one beyond Ha; 0 for k <= 0."""
    return tl.load(p_point + (tl.minimum(b_k, Ha) - 1) * D, mask=b_mask & (b_k > 0), other=0).to(tl.float64)


@triton.jit
def _point(p_point, b_k, Ha, D, b_p0, b_v0, b_a0, b_j0, b_mask):
    """e[k] - p0 for any k: an action, or a point of the arc for k <= 0."""
    b_steps = b_k.to(tl.float64)
    b_arc = b_steps * (b_v0 + b_steps * (b_a0 + b_steps * b_j0))
    return tl.where(b_k > 0, _action(p_point, b_k, Ha, D, b_mask) - b_p0, b_arc)


@jit_kernel
def clique_central_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    n_dt_batch,
    p_grad_action,
    p_grad_start_p,
    p_grad_start_v,
    p_grad_start_a,
    p_grad_start_j,
    n_batch,
    Ha,
    D,
    TRUNCATE: tl.constexpr,
    LANES: tl.constexpr,
):
    """The gradient of an action, e[k], for each lane; of the start where k is 0."""
    b_batch, b_k, b_column, b_in = places(n_batch, Ha + 1, D, LANES)
    b_is_start = b_in & (b_k == 0)
    b_is_last = b_in & (b_k == Ha)
    if p_grad_action is None:
        b_in = b_is_start
    b_dt = load_dt(p_dt, n_dt_batch, 0, b_batch, b_k, b_in)
    b_base = b_batch * (Ha + 4) * D + b_column
    b_p = tl.zeros_like(b_dt)
    b_v = b_p
    b_a = b_p
    b_j = b_p
    for i in tl.static_range(5):
        b_counts = b_in
        if i > 0:
            b_counts = b_in & (b_is_start | b_is_last)
        if tl.max(b_counts.to(tl.int32), 0) > 0:
            b_at = tl.where(b_is_start, -i, b_k + i)
            b_gradient = _row(p_grad_position, b_base, b_at + 1, Ha, D, b_counts)
            if TRUNCATE:
                b_counts = b_counts & (b_k < Ha)
            b_gradient += _derivatives_gradient(
                p_grad_velocity, p_grad_acceleration, p_grad_jerk, b_base, b_at, Ha, D, 1.0 / b_dt, b_counts
            )
            b_p += b_gradient
            b_v -= i * b_gradient
            b_a += i * i * b_gradient
            b_j -= i * i * i * b_gradient
    put(p_grad_action, (b_batch * Ha + b_k - 1) * D + b_column, b_p, b_in & (b_k > 0))
    b_to = b_batch * D + b_column
    put(p_grad_start_p, b_to, b_p, b_is_start)
    put(p_grad_start_v, b_to, b_v * b_dt, b_is_start)
    put(p_grad_start_a, b_to, b_a * (b_dt * b_dt * 0.5), b_is_start)
    put(p_grad_start_j, b_to, b_j * (b_dt * b_dt * b_dt * (1.0 / 6.0)), b_is_start)


@triton.jit
def _derivatives_gradient(p_v, p_a, p_j, b_base, b_k, Ha, D, b_r, b_mask):
    """E[k] without that of the position."""
    b_sum = _row(p_v, b_base, b_k + 3, Ha, D, b_mask) - _row(p_v, b_base, b_k - 1, Ha, D, b_mask)
    b_sum += 8.0 * (_row(p_v, b_base, b_k, Ha, D, b_mask) - _row(p_v, b_base, b_k + 2, Ha, D, b_mask))
    b_result = b_sum * (b_r * (1.0 / 12.0))
    b_sum = -30.0 * _row(p_a, b_base, b_k + 1, Ha, D, b_mask)
    b_sum += 16.0 * (_row(p_a, b_base, b_k, Ha, D, b_mask) + _row(p_a, b_base, b_k + 2, Ha, D, b_mask))
    b_sum -= _row(p_a, b_base, b_k - 1, Ha, D, b_mask) + _row(p_a, b_base, b_k + 3, Ha, D, b_mask)
    b_result += b_sum * (b_r * b_r * (1.0 / 12.0))
    b_sum = _row(p_j, b_base, b_k - 1, Ha, D, b_mask) - _row(p_j, b_base, b_k + 3, Ha, D, b_mask)
    b_sum += 2.0 * (_row(p_j, b_base, b_k + 2, Ha, D, b_mask) - _row(p_j, b_base, b_k, Ha, D, b_mask))
    return b_result + b_sum * (0.5 * b_r * b_r * b_r)


@triton.jit
def _row(p_gradient, b_base, b_h, Ha, D, b_mask):
    """Row h of an upstream gradient; 0 beyond the horizon."""
    return load_gradient(p_gradient, b_base + b_h * D, b_mask & (b_h >= 0) & (b_h < Ha + 4))
