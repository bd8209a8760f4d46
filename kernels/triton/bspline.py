"""B-splines between two states, and their vjp: launchers.

Extended control points c are those that represent the start, the given ones, and those that represent the goal or
repeat the last one. With the weights of `splines/weights.py`, row k of segment i is

    out_q = sum_m W_q[k, m] (Delta^q c)[i + m] / h^q,      m = 0 .. K - q,   q = 0 (position) .. 3 (jerk)

The gradient of extended point e is, with the q-th derivatives D_q of the weights,

    sum_q sum_m sum_k D_q[k, m] g_q[(e - m) s + k] / h^q
"""

import functools
from collections.abc import Sequence

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load_dt, load_gradient, load_state, places, put, state_row


def bspline_forward(inputs: Inputs, *, form: SplineForm, out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it."""
    action = inputs.action
    points, has_goal = action.shape[1], inputs.ends[1].rows[0] is not None
    options = _options(form, points, has_goal) | {"p_weights": _tables(form, action.device)[0]}
    if not form.has_jerk:
        options |= {"p_start_j": None, "p_goal_j": None}
    return launch.forward(bspline_fwd_kernel, inputs, form.rows(points), out, **options)


def bspline_vjp(
    inputs: VjpInputs, *, form: SplineForm, out: Sequence[Tensor | None] | None = None
) -> tuple[Tensor | None, ...]:
    """Return the gradients, as `backends` describes it."""
    points, has_goal = inputs.action_horizon, inputs.rows[1] >= 0
    _, weights, states = _tables(form, inputs.like.device)
    options = _options(form, points, has_goal) | {"p_weights": weights, "p_states": states}
    return launch.vjp(bspline_vjp_kernel, inputs, form.rows(points), 1 + points + has_goal, out, **options)


def _options(form: SplineForm, points: int, has_goal: bool) -> dict[str, object]:
    sizes = {"n_used": form.used(points, has_goal), "n_segments": form.segments(points), "n_steps": form.steps}
    return sizes | {"K": form.degree, "HEAD": form.head, "HAS_GOAL": int(has_goal)}


@functools.lru_cache(maxsize=64)
def _tables(form: SplineForm, device: torch.device) -> tuple[Tensor, Tensor, Tensor]:
    """Weights on the device: of differences, `[s + 1, 4 K - 2]`, of points, `[s + 1, 4 (K + 1)]`, and of states."""
    tables = row_weights(form.degree, form.steps)
    weights = np.concatenate(tables, axis=1)
    each = np.eye(form.degree + 1)
    derivatives = np.stack([table @ np.diff(each, order, axis=0) for order, table in enumerate(tables)], axis=1)
    states = STATE_WEIGHTS[form.degree, form.head, form.has_jerk]
    tables = (weights, derivatives.reshape(form.steps + 1, -1), states)
    return tuple(torch.tensor(table, dtype=torch.float64).to(device) for table in tables)


@jit_kernel
def bspline_fwd_kernel(
    p_action,
    p_start_index,
    p_start_p,
    p_start_v,
    p_start_a,
    p_start_j,
    n_start,
    p_goal_index,
    p_goal_p,
    p_goal_v,
    p_goal_a,
    p_goal_j,
    n_goal,
    p_dt,
    n_dt_batch,
    p_weights,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    n_batch,
    Ha,
    n_used,
    n_segments,
    n_steps,
    D,
    K: tl.constexpr,
    HEAD: tl.constexpr,
    HAS_GOAL: tl.constexpr,
    LANES: tl.constexpr,
):
    """One element of the four outputs for each lane."""
    n_rows = n_segments * n_steps + 1
    b_batch, b_row, b_column, b_in = places(n_batch, n_rows, D, LANES)
    b_segment = tl.minimum(b_row // n_steps, n_segments - 1)
    b_length = n_steps * load_dt(p_dt, n_dt_batch, 0, b_batch, b_row, b_in)
    p_weight = p_weights + (b_row - b_segment * n_steps) * (4 * K - 2)
    # The points of the segment, one after the other; each completes one difference of every order.
    b_last = tl.zeros_like(b_length)
    b_d1 = b_last
    b_d2 = b_last
    b_position = b_last
    b_velocity = b_last
    b_acceleration = b_last
    b_jerk = b_last
    for m in tl.static_range(K + 1):
        b_given = b_segment + m - HEAD
        b_from = b_given
        b_is_start = b_in & (b_given < 0)
        b_is_given = b_in & (b_given >= 0)
        if HAS_GOAL:
            b_is_goal = b_in & (b_given >= n_used)
            b_is_given = b_is_given & (b_given < n_used)
        else:  # after the last one: the last one again
            b_from = tl.minimum(b_given, Ha - 1)
        p_from = p_action + (b_batch * Ha + b_from) * D + b_column
        b_now = tl.load(p_from, mask=b_is_given, other=0).to(tl.float64)
        if tl.max(b_is_start.to(tl.int32), 0) > 0:
            b_m = b_segment + m
            b_at = state_row(p_start_index, n_start, b_batch, b_is_start)
            b_state = _carrying(
                p_start_p, p_start_v, p_start_a, p_start_j, n_start, b_at, b_m, b_column, b_length, b_is_start, D, K
            )
            b_now = tl.where(b_is_start, b_state, b_now)
        if HAS_GOAL:
            if tl.max(b_is_goal.to(tl.int32), 0) > 0:
                b_m = b_given - n_used
                b_at = state_row(p_goal_index, n_goal, b_batch, b_is_goal)
                b_state = _carrying(
                    p_goal_p, p_goal_v, p_goal_a, p_goal_j, n_goal, b_at, b_m, b_column, b_length, b_is_goal, D, K
                )
                b_now = tl.where(b_is_goal, b_state, b_now)
        b_first = b_now - b_last
        b_second = b_first - b_d1
        b_third = b_second - b_d2
        b_position += tl.load(p_weight + m) * b_now
        if m >= 1:
            b_velocity += tl.load(p_weight + K + m) * b_first
        if m >= 2:
            b_acceleration += tl.load(p_weight + 2 * K + m - 1) * b_second
        if m >= 3:
            b_jerk += tl.load(p_weight + 3 * K + m - 3) * b_third
        b_last = b_now
        b_d1 = b_first
        b_d2 = b_second
    b_rate = 1.0 / b_length
    b_at = (b_batch * n_rows + b_row) * D + b_column
    put(p_position, b_at, b_position, b_in)
    put(p_velocity, b_at, b_velocity * b_rate, b_in)
    put(p_acceleration, b_at, b_acceleration * b_rate * b_rate, b_in)
    put(p_jerk, b_at, b_jerk * b_rate * b_rate * b_rate, b_in)


@triton.jit
def _carrying(p_p, p_v, p_a, p_j, n_rows, b_row, b_m, b_column, b_h, b_mask, D, K: tl.constexpr):
    """Point m of those that represent a state: the polar form of its Taylor polynomial."""
    b_x = b_m.to(tl.float64) - 0.5 * (K - 1)
    b_result = load_state(p_p, n_rows, b_row, b_column, D, b_mask)
    b_result += b_x * b_h * load_state(p_v, n_rows, b_row, b_column, D, b_mask)
    b_weight = (b_x * b_x - (K + 1) / 12.0) * 0.5
    b_result += b_weight * b_h * b_h * load_state(p_a, n_rows, b_row, b_column, D, b_mask)
    b_weight = b_x * (b_x * b_x - (K + 1) / 4.0) / 6.0
    return b_result + b_weight * b_h * b_h * b_h * load_state(p_j, n_rows, b_row, b_column, D, b_mask)


@jit_kernel
def bspline_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    n_dt_batch,
    p_weights,
    p_states,
    p_grad_action,
    p_grad_start_p,
    p_grad_start_v,
    p_grad_start_a,
    p_grad_start_j,
    p_grad_goal_p,
    p_grad_goal_v,
    p_grad_goal_a,
    p_grad_goal_j,
    n_batch,
    Ha,
    n_used,
    n_segments,
    n_steps,
    D,
    K: tl.constexpr,
    HEAD: tl.constexpr,
    HAS_GOAL: tl.constexpr,
    LANES: tl.constexpr,
):
    """For each lane the gradient of a control point; in the first row of the start, in the last that of the goal."""
    b_batch, b_row, b_column, b_in = places(n_batch, Ha + 1 + HAS_GOAL, D, LANES)
    b_given = b_row - 1
    b_is_start = b_in & (b_row == 0)
    b_is_goal = b_in & (b_given == Ha)
    # The first of the extended points of a lane, and their number: the last one is repeated where there is no goal.
    b_first = tl.where(b_is_start, 0, HEAD + tl.minimum(b_given, n_used))
    b_count = tl.where(b_is_start | b_is_goal, HEAD, (b_given < n_used).to(tl.int32))
    if not HAS_GOAL:
        b_count = tl.where(b_given == Ha - 1, K + 1, b_count)
    if p_grad_action is None:
        b_in = b_is_start | b_is_goal
    b_length = n_steps * load_dt(p_dt, n_dt_batch, 0, b_batch, b_row, b_in)
    b_p = tl.zeros_like(b_length)
    b_v = b_p
    b_a = b_p
    b_j = b_p
    for m in range(K + 1):
        b_counts = b_in & (m < b_count)
        if tl.max(b_counts.to(tl.int32), 0) > 0:
            b_gradient = _point_gradient(
                p_grad_position,
                p_grad_velocity,
                p_grad_acceleration,
                p_grad_jerk,
                p_weights,
                b_first + m,
                b_batch,
                b_column,
                b_counts,
                b_length,
                n_segments,
                n_steps,
                D,
                K,
            )
            b_p += b_gradient
            b_v += tl.load(p_states + m * 4 + 1, mask=m < HEAD, other=0) * b_gradient
            b_a += tl.load(p_states + m * 4 + 2, mask=m < HEAD, other=0) * b_gradient
            b_j += tl.load(p_states + m * 4 + 3, mask=m < HEAD, other=0) * b_gradient
    put(p_grad_action, (b_batch * Ha + b_given) * D + b_column, b_p, b_in & (b_given >= 0) & (b_given < Ha))
    b_to = b_batch * D + b_column
    b_v *= b_length
    b_a *= b_length * b_length
    b_j *= b_length * b_length * b_length
    put(p_grad_start_p, b_to, b_p, b_is_start)
    put(p_grad_start_v, b_to, b_v, b_is_start)
    put(p_grad_start_a, b_to, b_a, b_is_start)
    put(p_grad_start_j, b_to, b_j, b_is_start)
    put(p_grad_goal_p, b_to, b_p, b_is_goal)
    put(p_grad_goal_v, b_to, b_v, b_is_goal)
    put(p_grad_goal_a, b_to, b_a, b_is_goal)
    put(p_grad_goal_j, b_to, b_j, b_is_goal)


@triton.jit
def _point_gradient(
    p_p, p_v, p_a, p_j, p_weights, b_point, b_batch, b_column, b_mask, b_length, n_segments, n_steps, D, K: tl.constexpr
):
    """Gradient of extended control points."""
    b_sum0 = tl.zeros_like(b_length)
    b_sum1 = b_sum0
    b_sum2 = b_sum0
    b_sum3 = b_sum0
    b_base = b_batch * (n_segments * n_steps + 1) * D + b_column
    for m in tl.static_range(K + 1):
        b_segment = b_point - m
        b_there = b_mask & (b_segment >= 0) & (b_segment < n_segments)
        for k in range(n_steps + 1):
            b_now = b_there & ((k < n_steps) | (b_segment == n_segments - 1))
            b_at = b_base + (b_segment * n_steps + k) * D
            p_weight = p_weights + k * (4 * (K + 1)) + m
            b_sum0 += tl.load(p_weight) * load_gradient(p_p, b_at, b_now)
            b_sum1 += tl.load(p_weight + (K + 1)) * load_gradient(p_v, b_at, b_now)
            b_sum2 += tl.load(p_weight + 2 * (K + 1)) * load_gradient(p_a, b_at, b_now)
            b_sum3 += tl.load(p_weight + 3 * (K + 1)) * load_gradient(p_j, b_at, b_now)
    b_rate = 1.0 / b_length
    return b_sum0 + b_rate * (b_sum1 + b_rate * (b_sum2 + b_rate * b_sum3))
