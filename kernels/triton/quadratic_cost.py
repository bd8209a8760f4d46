"""Map, quadratic cost and gradients in one kernel: no trajectory is written.

Each lane processes one joint of one trajectory from the last row back, so that the adjoint of the map is computed
together with its outputs. Difference maps read the actions that they need; running sums are first computed to the end,
and then reversed step by step, which loses only the last digits in float64. With g the gradient of the outputs, W[h] =
g[h] / dt[h] of the next higher derivative, and L the adjoint of the state of a map,

    differences   Wj = gj / dt    Wa = (ga + Wj - Wj[h+1]) / dt    Wv = (gv + Wa - Wa[h+1]) / dt    (see clique.py)
    sums          L[h-1] = A' (L[h] + g[h])      grad u[h-1] = B' (L[h] + g[h])      of x[h] = A x[h-1] + B u[h-1]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from .addressing import load_start
from .launch import contiguous, dt_arguments, programs_for, run, start_arguments

_WARP = 32
_CLIQUE, _VELOCITY, _ACCELERATION, _JERK = range(4)
MAP_NUMBERS = {
    "clique": _CLIQUE,
    "velocity": _VELOCITY,
    "acceleration_zoh": _ACCELERATION,
    "acceleration_semi_implicit_euler": _ACCELERATION,
    "jerk": _JERK,
}
"""The maps that the kernel supports, by their names in `MAPS`."""
_OUTPUTS = "pvaj"
_TERM = ("weight", "target", "end", "limit", "lower", "upper")
_TERM_POINTERS = tuple(f"p_{kind}_{output}" for output in _OUTPUTS for kind in _TERM)
_TERM_STRIDES = tuple(
    f"{stride}_{output}" for output in _OUTPUTS for stride in ("n_weight", "m_weight", "n_target", "m_target", "n_end")
)
_POINTERS = ("p_action", "p_idx", "p_p0", "p_v0", "p_a0", "p_dt", "p_cost", "p_grad_action")
_ENDS = ("p_grad_p0", "p_grad_v0", "p_grad_a0")


class Term(NamedTuple):
    """The cost of one output: tensors in the shapes of `costs.terms.CostTerm`, or None; limits need their weight."""

    weight: Tensor | None
    target: Tensor | None
    terminal_weight: Tensor | None
    limit_weight: Tensor | None
    lower: Tensor | None
    upper: Tensor | None


def quadratic_cost(
    name: str,
    action: Tensor,
    start: Sequence[Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    terms: Sequence[Sequence[Tensor | None]],
    needs: Sequence[bool],
) -> tuple[Tensor, list[Tensor | None]]:
    """Return the cost `[B]`, in the action's dtype, and the gradients of action and start rows, None if not needed.

    Args:
        name: of the map, in `MAP_NUMBERS`.
        action: `[B, H, D]`, float32 or float64; contiguous or not, as all others.
        start: position, velocity and acceleration, `[1 or B, D]` or a pool `[S, D]`; None is 0.
        start_index: `[B]` int32 or int64, row of the pool for each trajectory, or None.
        dt: `[1 or B, 1 or H]`, s.
        terms: of position, velocity, acceleration and jerk, each as `Term`.
        needs: which of the four gradients to compute; those of start rows come as float64 `[B, D]`, not summed.

    """
    batch, horizon, dof = action.shape
    cost = action.new_empty(batch)
    action = action.contiguous()
    ends = [action.new_empty(batch, dof, dtype=torch.float64) if need else None for need in needs[1:]]
    gradients = [torch.empty_like(action) if needs[0] else None, *ends]
    columns = triton.next_power_of_2(dof)
    trajectories = max(1, _WARP // columns)
    arguments = {
        "p_action": action,
        **start_arguments("pva", start, start_index),
        **dt_arguments(dt, batch, horizon),
        "p_cost": cost,
        "p_grad_action": gradients[0],
        **dict(zip(_ENDS, ends, strict=True)),
        "n_rows": batch,
        "H": horizon,
        "D": dof,
    }
    for output, term in zip(_OUTPUTS, terms, strict=True):
        arguments |= _term_arguments(output, Term(*term))
    shape = {"MAP": MAP_NUMBERS[name], "SEMI_IMPLICIT": name.endswith("euler")}
    tile = {"TRAJECTORIES": trajectories, "COLUMNS": columns}
    run(quadratic_cost_kernel, programs_for(batch, trajectories), {**arguments, **shape, **tile}, warps=1)
    return cost, gradients


def _term_arguments(output: str, term: Term) -> dict[str, Tensor | int | None]:
    """Pointers `p_<field>_<output>` and strides: `n` from trajectory to trajectory, `m` from row to row."""
    fields = [contiguous(field) for field in term]
    weight, target, end = fields[:3]
    return {
        **{f"p_{kind}_{output}": field for kind, field in zip(_TERM, fields, strict=True)},
        f"n_weight_{output}": _stride(weight, 3),
        f"m_weight_{output}": _stride(weight, 2),
        f"n_target_{output}": _stride(target, 3),
        f"m_target_{output}": _stride(target, 2),
        f"n_end_{output}": _stride(end, 2),
    }


def _stride(field: Tensor | None, dims: int) -> int:
    """Elements from one to the next along the axis that is the `dims`-th from the end; 0 where there is none."""
    return 0 if field is None or field.dim() < dims else field.stride(-dims)


@triton.jit
def load_action(p_action, h, D, b_in):
    """Actions of step h in float64; 0 before the first."""
    return tl.load(p_action + h * D, mask=b_in & (h >= 0), other=0).to(tl.float64)


@triton.jit
def cost_of_row(
    b_x, b_cost, p_weight, p_target, p_end, p_limit, p_lower, p_upper, m_weight, m_target, h, H, b_column, b_in
):
    """The gradient of what one row of an output costs, and the cost with it added."""
    b_gradient = tl.zeros_like(b_x)
    if p_weight is not None or p_end is not None:
        b_error = b_x
        if p_target is not None:
            b_error -= tl.load(p_target + h * m_target + b_column, mask=b_in, other=0).to(tl.float64)
        if p_weight is not None:
            b_gradient += tl.load(p_weight + h * m_weight + b_column, mask=b_in, other=0).to(tl.float64) * b_error
        if p_end is not None:
            b_end = tl.load(p_end + b_column, mask=b_in & (h == H - 1), other=0).to(tl.float64)
            b_gradient += tl.where(h == H - 1, b_end * b_error, 0.0)
        b_cost += b_gradient * b_error
    if p_limit is not None:
        b_weight = tl.load(p_limit + b_column, mask=b_in, other=0).to(tl.float64)
        b_over = b_x - tl.load(p_upper + b_column, mask=b_in, other=0).to(tl.float64)
        b_under = tl.load(p_lower + b_column, mask=b_in, other=0).to(tl.float64) - b_x
        b_over = tl.where(b_over < 0.0, 0.0, b_over)
        b_under = tl.where(b_under < 0.0, 0.0, b_under)
        b_gradient += b_weight * (b_over - b_under)
        b_cost += b_weight * (b_over * b_over + b_under * b_under)
    return 2.0 * b_gradient, b_cost


@triton.jit
def step_of(p_dt, h, b_row_in, DT_PER_STEP: tl.constexpr):
    """Length of step h of each trajectory, s."""
    if DT_PER_STEP:
        p_dt += h
    return tl.load(p_dt, mask=b_row_in, other=1).to(tl.float64)


@triton.jit(
    do_not_specialize=["n_p0", "n_v0", "n_a0", "n_dt", "n_rows", "H", "D", *_TERM_STRIDES],
    do_not_specialize_on_alignment=[*_POINTERS, *_ENDS, *_TERM_POINTERS],
)
def quadratic_cost_kernel(
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
    p_cost,
    p_grad_action,
    p_grad_p0,
    p_grad_v0,
    p_grad_a0,
    n_rows,
    H,
    D,
    p_weight_p,
    p_target_p,
    p_end_p,
    p_limit_p,
    p_lower_p,
    p_upper_p,
    n_weight_p,
    m_weight_p,
    n_target_p,
    m_target_p,
    n_end_p,
    p_weight_v,
    p_target_v,
    p_end_v,
    p_limit_v,
    p_lower_v,
    p_upper_v,
    n_weight_v,
    m_weight_v,
    n_target_v,
    m_target_v,
    n_end_v,
    p_weight_a,
    p_target_a,
    p_end_a,
    p_limit_a,
    p_lower_a,
    p_upper_a,
    n_weight_a,
    m_weight_a,
    n_target_a,
    m_target_a,
    n_end_a,
    p_weight_j,
    p_target_j,
    p_end_j,
    p_limit_j,
    p_lower_j,
    p_upper_j,
    n_weight_j,
    m_weight_j,
    n_target_j,
    m_target_j,
    n_end_j,
    DT_PER_TRAJECTORY: tl.constexpr,
    DT_PER_STEP: tl.constexpr,
    MAP: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    TRAJECTORIES: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """All joints of a few trajectories, from the last row to the first."""
    CLIQUE: tl.constexpr = 0
    VELOCITY: tl.constexpr = 1
    ACCELERATION: tl.constexpr = 2
    # The share of an acceleration's velocity change in a step that moves the position in the same step.
    SHARE: tl.constexpr = 1.0 if SEMI_IMPLICIT else 0.5
    INDEXED: tl.constexpr = p_idx is not None
    b_row = tl.program_id(0).to(tl.int64) * TRAJECTORIES + tl.arange(0, TRAJECTORIES)[:, None]
    b_column = tl.arange(0, COLUMNS)[None, :]
    b_row_in = b_row < n_rows
    b_in = b_row_in & (b_column < D)
    b_zero = tl.zeros([TRAJECTORIES, COLUMNS], tl.float64)
    b_start_row = b_row
    if p_idx is not None:
        b_start_row = tl.load(p_idx + b_row, mask=b_row_in, other=0).to(tl.int64)
    b_p0 = tl.where(b_in, load_start(p_p0, n_p0, b_start_row, b_column, D, b_in, INDEXED), b_zero)
    b_v0 = tl.where(b_in, load_start(p_v0, n_v0, b_start_row, b_column, D, b_in, INDEXED), b_zero)
    b_a0 = tl.where(b_in, load_start(p_a0, n_a0, b_start_row, b_column, D, b_in, INDEXED), b_zero)
    p_u = p_action + b_row * H * D + b_column
    p_step = p_dt
    if DT_PER_TRAJECTORY:
        p_step = p_dt + b_row * n_dt
    else:
        p_step = p_dt + b_row * 0
    if p_weight_p is not None:
        p_weight_p += b_row * n_weight_p
    if p_target_p is not None:
        p_target_p += b_row * n_target_p
    if p_end_p is not None:
        p_end_p += b_row * n_end_p
    if p_weight_v is not None:
        p_weight_v += b_row * n_weight_v
    if p_target_v is not None:
        p_target_v += b_row * n_target_v
    if p_end_v is not None:
        p_end_v += b_row * n_end_v
    if p_weight_a is not None:
        p_weight_a += b_row * n_weight_a
    if p_target_a is not None:
        p_target_a += b_row * n_target_a
    if p_end_a is not None:
        p_end_a += b_row * n_end_a
    if p_weight_j is not None:
        p_weight_j += b_row * n_weight_j
    if p_target_j is not None:
        p_target_j += b_row * n_target_j
    if p_end_j is not None:
        p_end_j += b_row * n_end_j

    b_p = b_p0
    b_v = b_v0
    b_a = b_a0
    if MAP != CLIQUE:
        for h in range(1, H):
            b_dt = step_of(p_step, h, b_row_in, DT_PER_STEP)
            b_u = load_action(p_u, h - 1, D, b_in)
            if MAP == VELOCITY:
                b_p += b_u * b_dt
            elif MAP == ACCELERATION:
                b_p += (b_v + SHARE * b_u * b_dt) * b_dt
                b_v += b_u * b_dt
            else:
                b_p += (b_v + (0.5 * b_a + b_u * b_dt / 6.0) * b_dt) * b_dt
                b_v += (b_a + 0.5 * b_u * b_dt) * b_dt
                b_a += b_u * b_dt

    b_cost = b_zero
    b_wj_next = b_zero
    b_wa_next = b_zero
    b_wv_next = b_zero
    b_sum_p = b_zero
    b_sum_v = b_zero
    b_sum_a = b_zero
    if p_grad_action is not None:
        # The last action affects no output.
        tl.store(p_grad_action + b_row * H * D + (H - 1) * D + b_column, b_zero.to(p_cost.dtype.element_ty), mask=b_in)
    b_dt_start = step_of(p_step, 0, b_row_in, DT_PER_STEP)
    for i in range(H):
        h = H - 1 - i
        b_dt = step_of(p_step, h, b_row_in, DT_PER_STEP)
        b_r = 1.0 / b_dt
        b_u = load_action(p_u, h - 1, D, b_in)
        if MAP == CLIQUE:
            b_dt1 = step_of(p_step, tl.maximum(h - 1, 0), b_row_in, DT_PER_STEP)
            b_dt2 = step_of(p_step, tl.maximum(h - 2, 0), b_row_in, DT_PER_STEP)
            b_p1 = tl.where(h > 1, load_action(p_u, h - 2, D, b_in), b_p0)
            b_p2 = tl.where(h > 2, load_action(p_u, h - 3, D, b_in), b_p0)
            b_p3 = tl.where(h > 3, load_action(p_u, h - 4, D, b_in), b_p0)
            b_before = b_v0 - 0.5 * b_dt_start * b_a0
            b_p = tl.where(h > 0, b_u, b_p0)
            b_v = tl.where(h > 0, (b_p - b_p1) * b_r, b_v0)
            b_v1 = tl.where(h > 1, (b_p1 - b_p2) / b_dt1, b_before)
            b_v2 = tl.where(h > 2, (b_p2 - b_p3) / b_dt2, b_before)
            b_a = tl.where(h > 0, (b_v - b_v1) * b_r, b_a0)
            b_a1 = tl.where(h > 1, (b_v1 - b_v2) / b_dt1, b_a0)
            b_j = tl.where(h > 0, (b_a - b_a1) * b_r, 0.0)
        elif MAP == VELOCITY:
            b_dt1 = step_of(p_step, tl.maximum(h - 1, 0), b_row_in, DT_PER_STEP)
            b_v = tl.where(h > 0, b_u, b_v0)
            b_v1 = tl.where(h > 1, load_action(p_u, h - 2, D, b_in), b_v0)
            b_v2 = tl.where(h > 2, load_action(p_u, h - 3, D, b_in), b_v0)
            b_a = tl.where(h > 0, (b_v - b_v1) * b_r, b_a0)
            b_a1 = tl.where(h > 1, (b_v1 - b_v2) / b_dt1, b_a0)
            b_j = tl.where(h > 0, (b_a - b_a1) * b_r, 0.0)
        elif MAP == ACCELERATION:
            b_a = tl.where(h > 0, b_u, b_a0)
            b_a1 = tl.where(h > 1, load_action(p_u, h - 2, D, b_in), b_a0)
            b_j = tl.where(h > 0, (b_a - b_a1) * b_r, 0.0)
        else:
            b_j = tl.where(h > 0, b_u, 0.0)
        b_gp, b_cost = cost_of_row(
            b_p, b_cost, p_weight_p, p_target_p, p_end_p, p_limit_p, p_lower_p, p_upper_p,
            m_weight_p, m_target_p, h, H, b_column, b_in,
        )  # fmt: skip
        b_gv, b_cost = cost_of_row(
            b_v, b_cost, p_weight_v, p_target_v, p_end_v, p_limit_v, p_lower_v, p_upper_v,
            m_weight_v, m_target_v, h, H, b_column, b_in,
        )  # fmt: skip
        b_ga, b_cost = cost_of_row(
            b_a, b_cost, p_weight_a, p_target_a, p_end_a, p_limit_a, p_lower_a, p_upper_a,
            m_weight_a, m_target_a, h, H, b_column, b_in,
        )  # fmt: skip
        b_gj, b_cost = cost_of_row(
            b_j, b_cost, p_weight_j, p_target_j, p_end_j, p_limit_j, p_lower_j, p_upper_j,
            m_weight_j, m_target_j, h, H, b_column, b_in,
        )  # fmt: skip
        if h > 0:
            b_wj = b_gj * b_r
            if MAP == CLIQUE:
                b_wa = (b_ga + b_wj - b_wj_next) * b_r
                b_wv = (b_gv + b_wa - b_wa_next) * b_r
                b_gradient = b_gp + b_wv - b_wv_next
                b_wv_next = b_wv
                b_wa_next = b_wa
                b_wj_next = b_wj
            elif MAP == VELOCITY:
                b_sum_p += b_gp
                b_wa = (b_ga + b_wj - b_wj_next) * b_r
                b_gradient = b_gv + b_wa - b_wa_next + b_sum_p * b_dt
                b_wa_next = b_wa
                b_wj_next = b_wj
                b_p -= b_u * b_dt
            elif MAP == ACCELERATION:
                b_sum_p += b_gp
                b_sum_v += b_gv
                b_gradient = b_ga + b_wj - b_wj_next + (b_sum_v + SHARE * b_sum_p * b_dt) * b_dt
                b_sum_v += b_sum_p * b_dt
                b_wj_next = b_wj
                b_v -= b_u * b_dt
                b_p -= (b_v + SHARE * b_u * b_dt) * b_dt
            else:
                b_sum_p += b_gp
                b_sum_v += b_gv
                b_sum_a += b_ga
                b_gradient = b_gj + (b_sum_a + (0.5 * b_sum_v + b_sum_p * b_dt / 6.0) * b_dt) * b_dt
                b_sum_a += (b_sum_v + 0.5 * b_sum_p * b_dt) * b_dt
                b_sum_v += b_sum_p * b_dt
                b_a -= b_u * b_dt
                b_v -= (b_a + 0.5 * b_u * b_dt) * b_dt
                b_p -= (b_v + (0.5 * b_a + b_u * b_dt / 6.0) * b_dt) * b_dt
            if p_grad_action is not None:
                p_to = p_grad_action + b_row * H * D + (h - 1) * D + b_column
                tl.store(p_to, b_gradient.to(p_grad_action.dtype.element_ty), mask=b_in)
        else:
            # Row 0 is the start.
            b_sum_p += b_gp - b_wv_next
            b_sum_v += b_gv - b_wa_next
            b_sum_a += b_ga - b_wj_next
            if MAP == CLIQUE:
                b_sum_a += 0.5 * b_dt_start * b_wa_next
    tl.store(p_cost + b_row, tl.sum(b_cost, axis=1)[:, None].to(p_cost.dtype.element_ty), mask=b_row_in)
    p_end = b_row * D + b_column
    if p_grad_p0 is not None:
        tl.store(p_grad_p0 + p_end, b_sum_p, mask=b_in)
    if p_grad_v0 is not None:
        tl.store(p_grad_v0 + p_end, b_sum_v, mask=b_in)
    if p_grad_a0 is not None:
        tl.store(p_grad_a0 + p_end, b_sum_a, mask=b_in)
