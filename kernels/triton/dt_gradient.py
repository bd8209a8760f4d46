"""Gradient of the step lengths: the chain rule of `vjps`, one program for each trajectory, all in float64.

With the upstream gradients gp, gv, ga, gj, the outputs v, a, j, and for rows h >= 1 (0 beyond the horizon)

    Wj[h] = gj[h] / dt[h]                   Wa[h] = (ga[h] + Wj[h] - Wj[h+1]) / dt[h]
    Wv[h] = (gv[h] + Wa[h] - Wa[h+1]) / dt[h]                   P[h] = sum gp[k] over k >= h

the sum over the joints of

    clique        -Wv v - Wa a - Wj j, and Wa[1] a0 / 2 in row 0
    velocity       P v - Wa a - Wj j
    acceleration   P v + G a - Wj j      G[h] = sum gv[k] over k >= h + sum P[k] dt[k] over k > h (semi-implicit: >= h)
    jerk           P v + G a + R j       R[h] = sum ga[k] over k >= h + sum (G[k] + P[k] dt[k] / 2) dt[k] over k > h
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

from ..arguments import is_watched
from ..splines.form import SplineForm
from ..types import AccelerationIntegrator, End
from .addressing import load_start, load_steps, start_row
from .launch import Upstream, contiguous, dt_arguments, run, start_arguments

_MOST_COLUMNS = 256
_TILE_ELEMENTS = 128
_CLIQUE, _VELOCITY, _ACCELERATION, _JERK = 0, 1, 2, 3
_MAPS = {"clique": _CLIQUE, "velocity": _VELOCITY, "acceleration": _ACCELERATION, "jerk": _JERK}
_GRADIENTS = ("n_position", "n_velocity", "n_acceleration", "n_jerk")
_SCALARS = (*_GRADIENTS, "n_p0", "n_v0", "n_a0", "n_dt", "H", "D")
_POINTERS = (
    *("p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_action"),
    *("p_idx", "p_p0", "p_v0", "p_a0", "p_dt", "p_grad_dt"),
)


def dt_gradient(
    name: str,
    upstream: Sequence[Tensor | None],
    action: Tensor,
    ends: Sequence[End],
    dt: Tensor,
    *,
    integrator: AccelerationIntegrator | None = None,
    form: SplineForm | None = None,
) -> Tensor | None:
    """Return the gradient of dt, float64, in its shape; None, having done nothing, if it has to be composed.

    Args:
        name: of the map.
        upstream: gradients of its outputs, None for 0; not all None.
        action: `[B, Ha, D]`.
        ends: the start rows and their index.
        dt: `[1 or B, 1 or Ha]`, s.
        integrator: the integration scheme of accelerations.
        form: of splines, which have no kernel.

    """
    tensors = (action, dt, *upstream, *(row for end in ends for row in end.rows))
    if form is not None or action.shape[2] > _MOST_COLUMNS or not _is_alone(tensors):
        return None
    if all(gradient is None for gradient in upstream):
        return None
    gradients = Upstream.of(*upstream)
    batch, horizon, dof = gradients.some.shape
    # Absent gradients do not get kernels of their own, of which there would be fifteen: another tensor stands in, with
    # no rows.
    filled = Upstream(*(gradients.some if gradient is None else gradient for gradient in gradients))
    given = [0 if gradient is None else horizon for gradient in gradients]
    steps = dt_arguments(dt, batch, action.shape[1])
    # One row for each trajectory; rows of trajectories that share their step lengths are summed in a fixed order.
    result = torch.empty(batch, dt.shape[1], dtype=torch.float64, device=action.device)
    columns = 1 << max(dof - 1, 0).bit_length()
    start = ends[0].rows
    arguments = {
        **filled.arguments(),
        **dict(zip(_GRADIENTS, given, strict=True)),
        "p_action": contiguous(action),
        **start_arguments("pvaj"[: len(start)], start, ends[0].index),
        **steps,
        "p_grad_dt": result,
        "H": horizon,
        "D": dof,
        "ROWS": max(_TILE_ELEMENTS // columns, 1),
        "COLUMNS": columns,
    }
    if name == "clique_central":
        del arguments["n_dt"], arguments["DT_PER_STEP"]
        run(central_dt_gradient_kernel, batch, arguments, 1)
    else:
        semi_implicit = integrator is AccelerationIntegrator.SEMI_IMPLICIT_EULER
        run(dt_gradient_kernel, batch, arguments | {"MAP": _MAPS[name], "SEMI_IMPLICIT": semi_implicit}, 1)
    return result if dt.shape[0] == batch else result.sum(0, keepdim=True)


def _is_alone(tensors: Sequence[Tensor | None]) -> bool:
    """Whether the computation is neither differentiated nor transformed nor traced."""
    recorded = torch.is_grad_enabled() and any(tensor is not None and tensor.requires_grad for tensor in tensors)
    return not (recorded or torch.compiler.is_compiling() or is_watched())


@triton.jit
def _load(p_values, b_at, b_mask):
    """Values in float64; 0 outside of the mask."""
    return tl.load(p_values + b_at, mask=b_mask, other=0).to(tl.float64)


@triton.jit
def _rate(p_dt, n_dt, i_trajectory, b_h, H, DT_PER_TRAJECTORY: tl.constexpr, DT_PER_STEP: tl.constexpr):
    """1 / dt of rows within the horizon; 0 of others."""
    b_in = (b_h >= 0) & (b_h < H)
    b_dt = load_steps(p_dt, n_dt, i_trajectory, b_h, b_in, DT_PER_TRAJECTORY, DT_PER_STEP).to(tl.float64)
    return tl.where(b_in, 1.0 / b_dt, 0.0)[:, None]


@triton.jit(do_not_specialize=_SCALARS, do_not_specialize_on_alignment=_POINTERS)
def dt_gradient_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    n_position,
    n_velocity,
    n_acceleration,
    n_jerk,
    p_action,
    p_idx,
    p_p0,
    n_p0,
    p_v0,
    n_v0,
    p_a0,
    n_a0,
    p_dt,
    n_dt,
    p_grad_dt,
    H,
    D,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    MAP: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory: the state at its end, and from there back over blocks of rows, each in reverse order."""
    CLIQUE: tl.constexpr = MAP == 0
    JERK: tl.constexpr = MAP == 3
    SUMMED: tl.constexpr = MAP >= 2
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = tl.program_id(0).to(tl.int64)
    i_base = i_trajectory * H * D
    b_column = tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p0 = tl.where(b_in_column, load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED), 0.0)[None, :]
    b_v0 = tl.where(b_in_column, load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED), 0.0)
    b_a0 = tl.where(b_in_column, load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED), 0.0)
    p_u = p_action + i_base
    p_gp = p_grad_position + i_base
    p_gv = p_grad_velocity + i_base
    p_ga = p_grad_acceleration + i_base
    p_gj = p_grad_jerk + i_base

    b_v = b_v0
    b_a = b_a0
    if SUMMED:
        for i_first in range(0, H, ROWS):
            b_h = i_first + tl.arange(0, ROWS)
            b_moves = (b_h > 0) & (b_h < H)
            b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_moves, DT_PER_TRAJECTORY, DT_PER_STEP).to(tl.float64)
            b_dt = tl.where(b_moves, b_step, 0.0)[:, None]
            b_at = b_h[:, None] * D + b_column[None, :]
            b_gain = _load(p_u, b_at - D, b_moves[:, None] & b_in_column[None, :]) * b_dt
            if JERK:
                b_reached = b_a[None, :] + tl.cumsum(b_gain, 0)
                b_v += tl.sum((b_reached - 0.5 * b_gain) * b_dt, 0)
                b_a += tl.sum(b_gain, 0)
            else:
                b_v += tl.sum(b_gain, 0)

    b_sum_p = tl.zeros([COLUMNS], tl.float64)
    b_sum_g = tl.zeros([COLUMNS], tl.float64)
    b_sum_r = tl.zeros([COLUMNS], tl.float64)
    b_total = tl.zeros([ROWS], tl.float64)
    for i_first in range(0, H, ROWS):
        b_h = H - 1 - i_first - tl.arange(0, ROWS)
        b_row = (b_h >= 0)[:, None]
        b_moved = (b_h > 0)[:, None]
        b_in = b_row & b_in_column[None, :]
        b_at = b_h[:, None] * D + b_column[None, :]
        b_step = load_steps(p_dt, n_dt, i_trajectory, b_h, b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP).to(tl.float64)
        b_next = load_steps(
            p_dt, n_dt, i_trajectory, b_h + 1, (b_h >= 0) & (b_h < H - 1), DT_PER_TRAJECTORY, DT_PER_STEP
        ).to(tl.float64)
        b_dt = tl.where(b_h > 0, b_step, 0.0)[:, None]
        b_dt1 = tl.where((b_h >= 0) & (b_h < H - 1), b_next, 0.0)[:, None]
        b_r = _rate(p_dt, n_dt, i_trajectory, b_h, H, DT_PER_TRAJECTORY, DT_PER_STEP)
        b_gp = _load(p_gp, b_at, b_in & (n_position > 0))
        b_gv = _load(p_gv, b_at, b_in & (n_velocity > 0))
        b_ga = _load(p_ga, b_at, b_in & (n_acceleration > 0))
        b_gj = _load(p_gj, b_at, b_in & (n_jerk > 0))
        b_x0 = _load(p_u, b_at - D, b_in & b_moved)
        b_wj = b_gj * b_r
        b_sums_p = b_sum_p[None, :] + tl.cumsum(b_gp, 0)
        if SUMMED:
            b_gain = b_x0 * b_dt
            if JERK:
                b_reached = b_a[None, :] - (tl.cumsum(b_gain, 0) - b_gain)
                b_way = (b_reached - 0.5 * b_gain) * b_dt
                b_a -= tl.sum(b_gain, 0)
            else:
                b_reached = b_x0
                b_way = b_gain
            b_velocity = b_v[None, :] - (tl.cumsum(b_way, 0) - b_way)
            b_v -= tl.sum(b_way, 0)
            if SEMI_IMPLICIT:
                b_more = b_gv + b_sums_p * b_dt
            else:
                b_more = b_gv + (b_sums_p - b_gp) * b_dt1
            b_sums_g = b_sum_g[None, :] + tl.cumsum(b_more, 0)
            b_product = b_sums_p * b_velocity + b_sums_g * b_reached
            if JERK:
                b_raise = b_ga + (0.5 * (b_sums_p - b_gp) * b_dt1 + (b_sums_g - b_more)) * b_dt1
                b_product += (b_sum_r[None, :] + tl.cumsum(b_raise, 0)) * b_x0
                b_sum_r += tl.sum(b_raise, 0)
            else:
                b_before = tl.where(
                    (b_h > 1)[:, None], _load(p_u, b_at - 2 * D, b_in & (b_h > 1)[:, None]), b_a0[None, :]
                )
                b_product -= b_wj * (b_x0 - b_before) * b_r
            b_sum_g += tl.sum(b_more, 0)
        else:
            b_r1 = _rate(p_dt, n_dt, i_trajectory, b_h + 1, H, DT_PER_TRAJECTORY, DT_PER_STEP)
            b_wj1 = _load(p_gj, b_at + D, b_in & (b_h + 1 < n_jerk)[:, None]) * b_r1
            b_wa = (b_ga + b_wj - b_wj1) * b_r
            b_back = _rate(p_dt, n_dt, i_trajectory, b_h - 1, H, DT_PER_TRAJECTORY, DT_PER_STEP)
            b_x1 = tl.where((b_h > 1)[:, None], _load(p_u, b_at - 2 * D, b_in & (b_h > 1)[:, None]), b_p0)
            if CLIQUE:
                b_r2 = _rate(p_dt, n_dt, i_trajectory, b_h + 2, H, DT_PER_TRAJECTORY, DT_PER_STEP)
                b_wj2 = _load(p_gj, b_at + 2 * D, b_in & (b_h + 2 < n_jerk)[:, None]) * b_r2
                b_wa1 = (_load(p_ga, b_at + D, b_in & (b_h + 1 < n_acceleration)[:, None]) + b_wj1 - b_wj2) * b_r1
                b_back2 = _rate(p_dt, n_dt, i_trajectory, b_h - 2, H, DT_PER_TRAJECTORY, DT_PER_STEP)
                b_x2 = tl.where((b_h > 2)[:, None], _load(p_u, b_at - 3 * D, b_in & (b_h > 2)[:, None]), b_p0)
                b_x3 = tl.where((b_h > 3)[:, None], _load(p_u, b_at - 4 * D, b_in & (b_h > 3)[:, None]), b_p0)
                b_dt0 = load_steps(
                    p_dt, n_dt, i_trajectory, tl.zeros_like(b_h), b_h >= 0, DT_PER_TRAJECTORY, DT_PER_STEP
                ).to(tl.float64)
                b_arc = b_v0[None, :] - 0.5 * b_dt0[:, None] * b_a0[None, :]
                b_velocity = (b_x0 - b_x1) * b_r
                b_velocity1 = tl.where((b_h > 1)[:, None], (b_x1 - b_x2) * b_back, b_arc)
                b_velocity2 = tl.where((b_h > 2)[:, None], (b_x2 - b_x3) * b_back2, b_arc)
                b_moving = -(b_gv + b_wa - b_wa1) * b_r
            else:
                b_x1 = tl.where((b_h > 1)[:, None], b_x1, b_v0[None, :])
                b_x2 = tl.where((b_h > 2)[:, None], _load(p_u, b_at - 3 * D, b_in & (b_h > 2)[:, None]), b_v0[None, :])
                b_velocity = b_x0
                b_velocity1 = b_x1
                b_velocity2 = b_x2
                b_moving = b_sums_p
            b_acceleration = (b_velocity - b_velocity1) * b_r
            b_acceleration1 = tl.where((b_h > 1)[:, None], (b_velocity1 - b_velocity2) * b_back, b_a0[None, :])
            b_jerk = (b_acceleration - b_acceleration1) * b_r
            b_product = b_moving * b_velocity - b_wa * b_acceleration - b_wj * b_jerk
        b_sum_p += tl.sum(b_gp, 0)
        b_product = tl.where(b_moved & b_in, b_product, 0.0)
        if CLIQUE:
            b_product += tl.where((b_h == 0)[:, None] & b_in, 0.5 * b_wa1 * b_a0[None, :], 0.0)
        b_of_rows = tl.sum(b_product, 1)
        if DT_PER_STEP:
            tl.store(p_grad_dt + i_trajectory * H + b_h, b_of_rows, mask=b_h >= 0)
        else:
            b_total += b_of_rows
    if not DT_PER_STEP:
        tl.store(p_grad_dt + i_trajectory, tl.sum(b_total, 0))


@triton.jit(
    do_not_specialize=[*_GRADIENTS, "n_p0", "n_v0", "n_a0", "n_j0", "H", "D"],
    do_not_specialize_on_alignment=[*_POINTERS, "p_j0"],
)
def central_dt_gradient_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    n_position,
    n_velocity,
    n_acceleration,
    n_jerk,
    p_action,
    p_idx,
    p_p0,
    n_p0,
    p_v0,
    n_v0,
    p_a0,
    n_a0,
    p_j0,
    n_j0,
    p_dt,
    p_grad_dt,
    H,
    D,
    DT_PER_TRAJECTORY: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """Central differences, H = Ha + 4: dt divides the outputs, and determines the points before the start."""
    INDEXED: tl.constexpr = p_idx is not None
    i_trajectory = tl.program_id(0).to(tl.int64)
    i_base = i_trajectory * H * D
    b_column = tl.arange(0, COLUMNS)
    b_in_column = b_column < D
    i_row = start_row(p_idx, i_trajectory)
    b_p0 = tl.where(b_in_column, load_start(p_p0, n_p0, i_row, b_column, D, b_in_column, INDEXED), 0.0)[None, :]
    b_v0 = tl.where(b_in_column, load_start(p_v0, n_v0, i_row, b_column, D, b_in_column, INDEXED), 0.0)[None, :]
    b_a0 = tl.where(b_in_column, load_start(p_a0, n_a0, i_row, b_column, D, b_in_column, INDEXED), 0.0)[None, :]
    b_j0 = tl.where(b_in_column, load_start(p_j0, n_j0, i_row, b_column, D, b_in_column, INDEXED), 0.0)[None, :]
    p_u = p_action + i_trajectory * (H - 4) * D
    p_gp = p_grad_position + i_base
    p_gv = p_grad_velocity + i_base
    p_ga = p_grad_acceleration + i_base
    p_gj = p_grad_jerk + i_base
    if DT_PER_TRAJECTORY:
        p_dt += i_trajectory
    step = tl.load(p_dt).to(tl.float64)
    b_total = tl.zeros([ROWS], tl.float64)
    for i_first in range(0, H, ROWS):
        b_h = i_first + tl.arange(0, ROWS)
        b_row = b_h[:, None]
        b_in = (b_row < H) & b_in_column[None, :]
        b_at = b_row * D + b_column[None, :]
        b_gv = _load(p_gv, b_at, b_in & (n_velocity > 0)) / (12.0 * step)
        b_ga = _load(p_ga, b_at, b_in & (n_acceleration > 0)) / (12.0 * step * step)
        b_gj = _load(p_gj, b_at, b_in & (n_jerk > 0)) / (2.0 * step * step * step)
        # The five points around a row, and their first and second differences.
        b_0 = _point(p_u, b_row, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in)
        b_1 = _point(p_u, b_row + 1, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in)
        b_2 = _point(p_u, b_row + 2, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in)
        b_3 = _point(p_u, b_row + 3, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in)
        b_4 = _point(p_u, b_row + 4, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in)
        b_d0 = b_1 - b_0
        b_d1 = b_2 - b_1
        b_d2 = b_3 - b_2
        b_d3 = b_4 - b_3
        b_v = 7.0 * (b_d1 + b_d2) - b_d0 - b_d3
        b_a = 14.0 * (b_d2 - b_d1) - (b_d1 - b_d0) - (b_d3 - b_d2)
        b_j = (b_d3 - b_d2) - (b_d1 - b_d0)
        b_product = -(b_gv * b_v + 2.0 * b_ga * b_a + 3.0 * b_gj * b_j) / step
        # The part of the row in the gradient of the points 0 to 2, which lie 3 to 1 steps before the start.
        b_product += (b_gv - b_ga - b_gj) * _speed(b_row, step, b_v0, b_a0, b_j0)
        b_product += (-8.0 * b_gv + 16.0 * b_ga + 2.0 * b_gj) * _speed(b_row + 1, step, b_v0, b_a0, b_j0)
        b_of_first = -30.0 * b_ga + _load(p_gp, b_at, b_in & (n_position > 0))
        b_product += tl.where(b_row == 0, b_of_first, 0.0) * _speed(b_row + 2, step, b_v0, b_a0, b_j0)
        b_total += tl.sum(tl.where(b_in, b_product, 0.0), 1)
    tl.store(p_grad_dt + i_trajectory, tl.sum(b_total, 0))


@triton.jit
def _point(p_u, b_point, b_column, H, D, step, b_p0, b_v0, b_a0, b_j0, b_in):
    """Points, counted from three steps before the start: on the arc up to it, then actions, the last one held."""
    b_t = (b_point - 3).to(tl.float64) * step
    b_arc = b_p0 + b_t * (b_v0 + b_t * (0.5 * b_a0 + b_t * (b_j0 * (1.0 / 6.0))))
    b_action = tl.minimum(b_point - 4, H - 5)
    b_later = _load(p_u, b_action * D + b_column[None, :], b_in & (b_point > 3))
    return tl.where(b_point > 3, b_later, b_arc)


@triton.jit
def _speed(b_point, step, b_v0, b_a0, b_j0):
    """Derivative of the points 0 to 2 with respect to the step length; 0 for others."""
    b_steps = (b_point - 3).to(tl.float64)
    b_t = b_steps * step
    return tl.where(b_point < 3, b_steps * (b_v0 + b_t * (b_a0 + 0.5 * b_t * b_j0)), 0.0)
