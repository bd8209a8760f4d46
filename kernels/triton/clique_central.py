"""Positions to derivatives by five-point central differences, and the vjp.

H = Ha + 4. With e[0] = p0, e[k] = u[k-1] up to Ha, e[k] = u[Ha-1] beyond, and before the start the cubic arc
e[k] = p0 + k dt v0 + (k dt)^2 a0 / 2 + (k dt)^3 j0 / 6, output h lies at e[h-1]:

    v[h] = (  e[-2] -  8 e[-1]           +  8 e[+1] - e[+2]) / (12 dt)        (offsets from h - 1)
    a[h] = ( -e[-2] + 16 e[-1] - 30 e[0] + 16 e[+1] - e[+2]) / (12 dt^2)
    j[h] = ( -e[-2] +  2 e[-1]           -  2 e[+1] + e[+2]) / (2 dt^3)

computed as differences of differences with their rounding errors.

Vjp: rows k - 1 to k + 3 see the point e[k]; its gradient, g being the upstream gradients, is

    E[k] = gp[k+1] + (gv[k+3] - 8 gv[k+2] + 8 gv[k] - gv[k-1]) / (12 dt)
           + (-ga[k+3] + 16 ga[k+2] - 30 ga[k+1] + 16 ga[k] - ga[k-1]) / (12 dt^2)
           + (-gj[k+3] + 2 gj[k+2] - 2 gj[k] + gj[k-1]) / (2 dt^3)

The action u[m] gets E[m+1], the last one the sum over all points that repeat it, in which most weights cancel. The
start gets the sums over k = 0, -1, -2, -3 of E[k] times 1, k dt, (k dt)^2 / 2 and (k dt)^3 / 6 (`ends`).
"""

import functools
import math
from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl
from torch import Tensor

from ..types import Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load, load_state, places, put, state_row, trajectories
from .ends import Ends
from .pairs import product, second_difference, two_difference, two_product, two_sum

_EXTRA_HORIZON = 4
# Weights of e[h-3] to e[h+1] in row h, by order of the derivative.
_COEFFICIENTS = np.array([[0, 0, 1, 0, 0], [1, -8, 0, 8, -1], [-1, 16, -30, 16, -1], [-1, 2, 0, -2, 1]])
_DIVISORS = np.array([1, 12, 12, 2])


def clique_central_forward(inputs: Inputs, *, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    horizon, dof = inputs.action.shape[1:]
    # Rows that see the start, and rows that see the last action again.
    options = {"edges": (4 * dof, horizon * dof)}
    return launch.forward(clique_central_fwd_kernel, inputs, horizon + _EXTRA_HORIZON, out, **options)


def clique_central_vjp(
    inputs: VjpInputs, *, truncate_terminal_gradient: bool = False, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it; truncated, the last action has that of the positions alone."""
    horizon, dof = inputs.action_horizon, inputs.like.shape[2]
    options = {"edges": (0, (horizon - 1) * dof), "TRUNCATE": truncate_terminal_gradient}
    ends = Ends(_start_weights())
    return launch.vjp(clique_central_vjp_kernel, inputs, horizon + _EXTRA_HORIZON, horizon, out, ends=ends, **options)


@functools.cache
def _start_weights() -> np.ndarray:
    """Weights of the start in rows 0 to 3, `[rows, orders, kinds]`."""
    weights = np.zeros((4, 4, 4))
    for row, order, place in np.ndindex(4, 4, 5):
        point = row - 3 + place
        if point <= 0:
            kinds = np.array([point**kind / math.factorial(kind) for kind in range(4)])
            weights[row, order] += _COEFFICIENTS[order, place] / _DIVISORS[order] * kinds
    return weights


@jit_kernel
def clique_central_fwd_kernel(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, p_start_j, n_start, p_dt, p_position, p_velocity,
    p_acceleration, p_jerk, n_batch, Ha, n_head, n_inner, n_edge, D: tl.constexpr, SHARED_DT: tl.constexpr,
    WIDE: tl.constexpr, TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """One element of the four outputs for each lane: chunks that see start or repeated action, and all others."""
    b_trajectory, b_there, b_dt, b_dt_lo, b_rate = trajectories(p_dt, n_batch, 1, SHARED_DT, WIDE, TRAJECTORIES)
    size = (Ha + 4) * D
    for i in range(tl.program_id(1), n_edge, tl.num_programs(1)):
        i_chunk = i + tl.where(i < n_head, 0, n_inner)
        b_place, b_h, b_column, b_in = places(b_there, size, i_chunk, D, LANES)
        b_start = state_row(p_start_index, n_start, b_trajectory, b_there)
        b_early = b_in & (b_h < 4)
        b_p = load_state(p_start_p, n_start, b_start, b_column, D, b_early, WIDE)
        b_v = load_state(p_start_v, n_start, b_start, b_column, D, b_early, WIDE)
        b_a = load_state(p_start_a, n_start, b_start, b_column, D, b_early, WIDE) * (b_dt * b_dt * 0.5)
        b_j = load_state(p_start_j, n_start, b_start, b_column, D, b_early, WIDE) * (b_dt * b_dt * b_dt * (1.0 / 6.0))
        b_v, b_v_lo = product(b_v, None, b_dt, b_dt_lo)
        p_row = p_action + b_trajectory * Ha * D + b_column
        b_e0, b_lo0 = _point(p_row, b_h - 3, b_p, b_v, b_v_lo, b_a, b_j, Ha, D, b_in, WIDE)
        b_e1, b_lo1 = _point(p_row, b_h - 2, b_p, b_v, b_v_lo, b_a, b_j, Ha, D, b_in, WIDE)
        b_e2, b_lo2 = _point(p_row, b_h - 1, b_p, b_v, b_v_lo, b_a, b_j, Ha, D, b_in, WIDE)
        b_e3, b_lo3 = _point(p_row, b_h, b_p, b_v, b_v_lo, b_a, b_j, Ha, D, b_in, WIDE)
        b_e4 = load(p_row, tl.minimum(b_h, Ha - 1) * D, b_in, WIDE)
        b_near = b_lo3 - b_lo1
        b_far = b_lo0 * -1.0
        b_within = (b_lo1 + b_lo3) - 2.0 * b_lo2
        b_around = b_lo0 - 2.0 * b_lo2
        b_at = b_trajectory * size + b_place
        put(p_position, b_at, b_e2 + b_lo2, b_in)
        put(p_velocity, b_at, _first(b_e0, b_e1, b_e3, b_e4, b_near, b_far, b_rate), b_in)
        put(p_acceleration, b_at, _second(b_e0, b_e1, b_e2, b_e3, b_e4, b_within, b_around, b_rate), b_in)
        put(p_jerk, b_at, _third(b_e0, b_e1, b_e3, b_e4, b_near, b_far, b_rate), b_in)
    for i in range(tl.program_id(1), n_inner, tl.num_programs(1)):
        b_place, b_h, b_column, b_in = places(b_there, size, n_head + i, D, LANES)
        b_from = b_trajectory * Ha * D + (b_place - 4 * D)
        b_e0, b_e1, b_e2, b_e3, b_e4 = _points(p_action, b_from, D, b_in, WIDE)
        b_at = b_trajectory * size + b_place
        put(p_position, b_at, b_e2, b_in)
        put(p_velocity, b_at, _first(b_e0, b_e1, b_e3, b_e4, None, None, b_rate), b_in)
        put(p_acceleration, b_at, _second(b_e0, b_e1, b_e2, b_e3, b_e4, None, None, b_rate), b_in)
        put(p_jerk, b_at, _third(b_e0, b_e1, b_e3, b_e4, None, None, b_rate), b_in)


@triton.jit
def _point(p_row, b_k, b_p, b_v, b_v_lo, b_a, b_j, Ha, D: tl.constexpr, b_mask, WIDE: tl.constexpr):
    """The point e[k], and its rounding error, from the derivatives at the start times dt^n / n!."""
    b_given = load(p_row, tl.minimum(b_k, Ha) * D - D, b_mask & (b_k > 0), WIDE)
    b_x = tl.minimum(b_k, 0).to(b_p.dtype)
    b_moved, b_lo = two_product(b_x, b_v)
    b_point, b_point_lo = two_sum(b_p, b_moved)
    b_lo = b_point_lo + (b_lo + b_x * (b_v_lo + b_x * (b_a + b_x * b_j)))
    return tl.where(b_k > 0, b_given, b_point), tl.where(b_k > 0, 0.0, b_lo)


@jit_kernel
def clique_central_vjp_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, p_grad_action, n_batch, Ha, n_inner,
    n_edge, D: tl.constexpr, SHARED_DT: tl.constexpr, TRUNCATE: tl.constexpr, WIDE: tl.constexpr,
    TRAJECTORIES: tl.constexpr, LANES: tl.constexpr,
):
    """The gradient of an action for each lane; chunks that have the last one come at the end."""
    b_trajectory, b_there, _b_dt, _b_lo, b_rate = trajectories(p_dt, n_batch, 1, SHARED_DT, WIDE, TRAJECTORIES)
    for i in range(tl.program_id(1), n_inner, tl.num_programs(1)):
        _gradients(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_grad_action, b_trajectory, b_there,
            b_rate, i, Ha, D, False, TRUNCATE, WIDE, LANES,
        )
    for i in range(tl.program_id(1), n_edge, tl.num_programs(1)):
        _gradients(
            p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_grad_action, b_trajectory, b_there,
            b_rate, n_inner + i, Ha, D, True, TRUNCATE, WIDE, LANES,
        )


@triton.jit
def _gradients(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_grad_action, b_trajectory, b_there, b_rate,
    i_chunk, Ha, D: tl.constexpr, HAS_LAST: tl.constexpr, TRUNCATE: tl.constexpr, WIDE: tl.constexpr,
    LANES: tl.constexpr,
):
    """A chunk of the actions' gradients."""
    b_place, b_m, _b_column, b_in = places(b_there, Ha * D, i_chunk, D, LANES)
    b_at = b_trajectory * ((Ha + 4) * D) + b_place
    b_v0, b_v1, b_v2, b_v3, b_v4 = _points(p_grad_velocity, b_at, D, b_in, WIDE)
    b_a0, b_a1, b_a2, b_a3, b_a4 = _points(p_grad_acceleration, b_at, D, b_in, WIDE)
    b_j0, b_j1, b_j2, b_j3, b_j4 = _points(p_grad_jerk, b_at, D, b_in, WIDE)
    b_sum = _second(b_a0, b_a1, b_a2, b_a3, b_a4, None, None, b_rate)
    b_sum -= _first(b_v0, b_v1, b_v3, b_v4, None, None, b_rate)
    b_sum -= _third(b_j0, b_j1, b_j3, b_j4, None, None, b_rate)
    b_grad = load(p_grad_position, b_at + 2 * D, b_in, WIDE)
    if HAS_LAST:
        b_is_last = b_in & (b_m == Ha - 1)
        b_last = (7.0 * (b_v1 + b_v2) - (b_v0 + b_v3)) * (b_rate * (1.0 / 12.0))
        b_last += ((b_a3 - b_a0) - 15.0 * (b_a2 - b_a1)) * (b_rate * b_rate * (1.0 / 12.0))
        b_last += ((b_j0 - b_j1) - (b_j2 - b_j3)) * (0.5 * b_rate * b_rate * b_rate)
        if TRUNCATE:
            b_last = b_last * 0.0
        b_sum = tl.where(b_is_last, b_last, b_sum)
        b_grad += load(p_grad_position, b_at + 3 * D, b_is_last, WIDE)
        b_grad += load(p_grad_position, b_at + 4 * D, b_is_last, WIDE)
    put(p_grad_action, b_trajectory * (Ha * D) + b_place, b_grad + b_sum, b_in)


@triton.jit
def _points(p_values, b_at, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """Values in five rows. The middle one comes first, because most lines of memory begin with it."""
    b_middle = load(p_values, b_at + 2 * D, b_in, WIDE)
    b_first = load(p_values, b_at, b_in, WIDE)
    b_second = load(p_values, b_at + D, b_in, WIDE)
    b_fourth = load(p_values, b_at + 3 * D, b_in, WIDE)
    return b_first, b_second, b_middle, b_fourth, load(p_values, b_at + 4 * D, b_in, WIDE)


@triton.jit
def _first(b_e0, b_e1, b_e3, b_e4, b_near_lo, b_far_lo, b_rate):
    """First derivative at the middle one of five points, whose differences may have rounding errors."""
    b_near = b_e3 - b_e1
    b_far = b_e4 - b_e0
    if b_near_lo is not None:
        b_near += b_near_lo
        b_far += b_far_lo
    return (8.0 * b_near - b_far) * (b_rate * (1.0 / 12.0))


@triton.jit
def _second(b_e0, b_e1, b_e2, b_e3, b_e4, b_within_lo, b_around_lo, b_rate):
    """Second derivative, from second differences over one step to either side and over two."""
    b_within, b_lo1 = second_difference(b_e1, b_e2, b_e3)
    b_around, b_lo2 = second_difference(b_e0, b_e2, b_e4)
    if b_within_lo is not None:
        b_lo1 += b_within_lo
        b_lo2 += b_around_lo
    return (16.0 * (b_within + b_lo1) - (b_around + b_lo2)) * (b_rate * b_rate * (1.0 / 12.0))


@triton.jit
def _third(b_e0, b_e1, b_e3, b_e4, b_near_lo, b_far_lo, b_rate):
    """Third derivative, from differences between the points next to the middle and between those beyond them."""
    b_near, b_lo1 = two_difference(b_e3, b_e1)
    b_far, b_lo2 = two_difference(b_e4, b_e0)
    if b_near_lo is not None:
        b_lo1 += b_near_lo
        b_lo2 += b_far_lo
    return (tl.fma(b_near, -2.0, b_far) + (b_lo2 - 2.0 * b_lo1)) * (0.5 * b_rate * b_rate * b_rate)
