"""Positions, velocities, accelerations or jerks, each held over its step, to trajectories; and the vjp.

One chain: output k = `GIVEN` (0 position to 3 jerk) is the action, x_k[h] = u[h-1] for h >= 1; lower outputs are
running sums, higher ones backward differences. For h >= 1, with the start state in row 0 and j[0] = 0,

    a[h] = a[h-1] + j[h] dt[h]                                               or (v[h] - v[h-1]) / dt[h]
    v[h] = v[h-1] + a[h-1] dt[h] + j[h] dt[h]^2 / 2 (of accelerations: v[h-1] + a[h] dt[h])
                                                                             or (p[h] - p[h-1]) / dt[h]
    p[h] = p[h-1] + v[h-1] dt[h] + a[h-1] dt[h]^2 / 2 + j[h] dt[h]^3 / 6     (of velocities: p[h-1] + v[h] dt[h])
        of accelerations p[h-1] + (v[h] - c a[h] dt[h]) dt[h]                c = 1/2: zero-order hold, 0: semi-implicit
    j[h] = (a[h] - a[h-1]) / dt[h]

Before the start, positions lie on the arc of constant acceleration: the v[0] of their a[1] is v0 - dt[0] a0 / 2.

Vjp, with dt[0] = 0, suffix sums over k >= h, and all W 0 in row 0 and beyond the horizon:

    A[h] = ga[h] + Wj[h] - Wj[h+1]   Wj[h] = gj[h] / dt[h]       V[h] = gv[h] + Wa[h] - Wa[h+1]   Wa[h] = A[h] / dt[h]
    P[h] = sum gp[k]      S[h] = sum (gv[k] + P[k] dt[k])        X[h] = (S[h] - c P[h] dt[h]) dt[h]
    position: grad p[h] = gp[h] + Wv[h] - Wv[h+1], Wv[h] = V[h] / dt[h]
        grad p0 = grad p[0]      grad v0 = V[0]      grad a0 = A[0] + dt[0] Wa[1] / 2
    velocity: grad v[h] = V[h] + P[h] dt[h]      grad p0 = P[0]      grad v0 = grad v[0]      grad a0 = A[0]
    acceleration: grad a[h] = A[h] + X[h]        grad p0 = P[0]      grad v0 = S[0]           grad a0 = grad a[0]
    jerk: with v[h] = S[h] - P[h] dt[h], c = 1/2 and a[h] = sum (ga[k] + X[k]) - X[h],
        grad j[h] = gj[h] + a[h] dt[h] + v[h] dt[h]^2 / 2 + P[h] dt[h]^3 / 6      grad p0, v0, a0 = P[0], v[0], a[0]

and grad u[h-1] is that of the given output. A program computes all steps of one trajectory (and up to 32 joints), a
block of rows at a time: within a block the running sums are parallel along time, and the last state is carried from
block to block with its rounding error, so that any horizon is possible. Where all steps are of one length, that is the
unit of time of the forward kernel, and the vjp takes differences of any order of upstream gradients, times powers of
1 / dt at last.
"""

from collections.abc import Sequence
from functools import partial

import triton
import triton.language as tl
from torch import Tensor

from ..types import AccelerationIntegrator, Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load, load_dt, load_state, put, row_offsets, state_row
from .differences import adjoint, rate_of, uniform_adjoint
from .pairs import plus, product, reciprocal, running_sum, two_difference


def _forward(
    given: int,
    inputs: Inputs,
    *,
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
    out: Sequence[Tensor] | None = None,
) -> tuple[Tensor, ...]:
    """Return the outputs, as `backends` describes it, of actions that are that derivative of the position."""
    return launch.forward(chain_fwd_kernel, inputs, inputs.action.shape[1], out, **_options(given, integrator))


def _vjp(
    given: int,
    inputs: VjpInputs,
    *,
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
    out: Sequence[Tensor | None] | None = None,
) -> tuple[Tensor | None, ...]:
    horizon = inputs.action_horizon
    return launch.vjp(chain_vjp_kernel, inputs, horizon, horizon, out, **_options(given, integrator))


def _options(given: int, integrator: AccelerationIntegrator) -> dict[str, object]:
    return {"GIVEN": given, "SEMI_IMPLICIT": AccelerationIntegrator(integrator) is not AccelerationIntegrator.ZOH}


clique_forward, velocity_forward, acceleration_forward, jerk_forward = (partial(_forward, k) for k in range(4))
clique_vjp, velocity_vjp, acceleration_vjp, jerk_vjp = (partial(_vjp, k) for k in range(4))


@jit_kernel
def chain_fwd_kernel(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, n_start, p_dt, n_dt_batch, p_position, p_velocity,
    p_acceleration, p_jerk, Ha, D: tl.constexpr, GIVEN: tl.constexpr, SEMI_IMPLICIT: tl.constexpr,
    UNIFORM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and running sums over blocks of rows."""
    i_trajectory = tl.program_id(0).to(tl.int64)
    b_column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b_in_column = b_column < D
    i_start = state_row(p_start_index, n_start, i_trajectory, True)
    b_p0 = load_state(p_start_p, n_start, i_start, b_column, D, b_in_column, WIDE)
    b_v0 = load_state(p_start_v, n_start, i_start, b_column, D, b_in_column, WIDE)
    b_a0 = load_state(p_start_a, n_start, i_start, b_column, D, b_in_column, WIDE)
    p_dt += i_trajectory * n_dt_batch
    dt, dt_lo = load_dt(p_dt, 0, True, WIDE)
    rate, rate_lo = reciprocal(dt, dt_lo)
    # Steps of one length are the unit of time; the given output keeps its own unit.
    b_p, b_p_lo = _times_power(b_p0, dt, dt_lo, rate, rate_lo, -GIVEN if UNIFORM else 0)
    b_v, b_v_lo = _times_power(b_v0, dt, dt_lo, rate, rate_lo, 1 - GIVEN if UNIFORM else 0)
    b_a, b_a_lo = _times_power(b_a0, dt, dt_lo, rate, rate_lo, 2 - GIVEN if UNIFORM else 0)
    one = tl.zeros_like(dt) + 1.0
    p_unit, _unit_lo = _times_power(one, dt, dt_lo, rate, rate_lo, GIVEN if UNIFORM else 0)
    v_unit, _unit_lo = _times_power(one, dt, dt_lo, rate, rate_lo, GIVEN - 1 if UNIFORM else 0)
    a_unit, _unit_lo = _times_power(one, dt, dt_lo, rate, rate_lo, GIVEN - 2 if UNIFORM else 0)
    j_unit, _unit_lo = _times_power(one, dt, dt_lo, rate, rate_lo, GIVEN - 3 if UNIFORM else 0)
    # The given output before its first action, and the derivative that the first differences continue: the velocity
    # half a step before the start, or its acceleration.
    b_before = b_p0 if GIVEN == 0 else (b_v0 if GIVEN == 1 else (b_a0 if GIVEN == 2 else tl.zeros_like(b_a0)))
    b_arc, b_arc_lo = b_a, b_a_lo
    if GIVEN == 0:
        b_back, b_back_lo = _times_power(-0.5 * b_a0, dt, dt_lo, rate, rate_lo, 2 if UNIFORM else 1)
        b_arc, b_arc_lo = plus(b_v, b_v_lo, b_back, b_back_lo)
    # Row 0 is the start state; sums and differences begin with the next one.
    b_start = i_trajectory * Ha * D + b_column
    put(p_position, b_start, b_p0, b_in_column)
    put(p_velocity, b_start, b_v0, b_in_column)
    put(p_acceleration, b_start, b_a0, b_in_column)
    put(p_jerk, b_start, tl.zeros_like(b_a0), b_in_column)
    b_offset = row_offsets(D, ROWS)
    for i_first in range(0, Ha, ROWS):
        b_h = i_first + tl.arange(0, ROWS)[:, None]
        b_in = (b_h < Ha) & b_in_column
        b_later = b_in & (b_h > 0)
        b_at = b_offset + b_column + (i_trajectory * Ha * D + i_first * D)
        # Up from the given output: differences.
        b_x = _given(p_action, b_at, b_h, 0, D, b_in, b_before, WIDE)
        b_j = b_x
        if GIVEN <= 2:
            b_rate, b_rate_lo = rate_of(p_dt, b_h, Ha, UNIFORM, WIDE)
            b_x1 = _given(p_action, b_at, b_h, 1, D, b_in, b_before, WIDE)
            b_first, b_first_lo = _slope(b_x, None, b_x1, None, b_rate, b_rate_lo, UNIFORM)
            b_j = b_first + b_first_lo
        if GIVEN <= 1:
            b_x2 = _given(p_action, b_at, b_h, 2, D, b_in, b_before, WIDE)
            b_rate1, b_rate1_lo = rate_of(p_dt, b_h - 1, Ha, UNIFORM, WIDE)
            b_first1, b_lo1 = _slope(b_x1, None, b_x2, None, b_rate1, b_rate1_lo, UNIFORM)
            b_first1, b_lo1 = _after(b_h > 1, b_first1, b_lo1, b_arc, b_arc_lo)
            b_second, b_second_lo = _slope(b_first, b_first_lo, b_first1, b_lo1, b_rate, b_rate_lo, UNIFORM)
            b_j = b_second + b_second_lo
        if GIVEN == 0:
            b_x3 = _given(p_action, b_at, b_h, 3, D, b_in, b_before, WIDE)
            b_rate2, b_rate2_lo = rate_of(p_dt, b_h - 2, Ha, UNIFORM, WIDE)
            b_first2, b_lo2 = _slope(b_x2, None, b_x3, None, b_rate2, b_rate2_lo, UNIFORM)
            b_first2, b_lo2 = _after(b_h > 2, b_first2, b_lo2, b_arc, b_arc_lo)
            b_second1, b_lo1 = _slope(b_first1, b_lo1, b_first2, b_lo2, b_rate1, b_rate1_lo, UNIFORM)
            b_second1, b_lo1 = _after(b_h > 1, b_second1, b_lo1, b_a, b_a_lo)
            b_third, b_lo = _slope(b_second, b_second_lo, b_second1, b_lo1, b_rate, b_rate_lo, UNIFORM)
            b_j = b_third + b_lo
        if GIVEN == 0:
            put(p_position, b_at, b_x, b_later)
            put(p_velocity, b_at, (b_first + b_first_lo) * v_unit, b_later)
            put(p_acceleration, b_at, (b_second + b_second_lo) * a_unit, b_later)
        if GIVEN == 1:
            put(p_velocity, b_at, b_x, b_later)
            put(p_acceleration, b_at, (b_first + b_first_lo) * a_unit, b_later)
        if GIVEN == 2:
            put(p_acceleration, b_at, b_x, b_later)
        put(p_jerk, b_at, b_j * j_unit, b_later)
        # Down from it: running sums, in which each gain over a step is a mean times the step.
        b_dt, b_dt_lo = dt, dt_lo
        if not UNIFORM:
            b_dt, b_dt_lo = load_dt(p_dt, b_h, b_h < Ha, WIDE)
        b_mean = b_x
        if GIVEN == 3:
            b_da, b_da_lo = _times_step(b_mean, b_dt, b_dt_lo, UNIFORM)
            b_sum, b_a, b_a_lo = running_sum(b_a, b_a_lo, b_da, b_da_lo, ROWS, not WIDE)
            put(p_acceleration, b_at, b_sum * a_unit, b_later)
            b_mean = b_sum - 0.5 * b_da
        if GIVEN >= 2:
            b_dv, b_dv_lo = _gain(b_mean, b_h, b_dt, b_dt_lo, UNIFORM)
            b_velocity, b_v, b_v_lo = running_sum(b_v, b_v_lo, b_dv, b_dv_lo, ROWS, not WIDE)
            put(p_velocity, b_at, b_velocity * v_unit, b_later)
            if GIVEN == 3:
                # From the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
                b_mean, b_lo = _times_step(tl.fma(b_sum, 0.5, b_da * (-1.0 / 3.0)), b_dt, b_dt_lo, UNIFORM)
                b_mean = (b_velocity - b_dv) + b_mean
            else:
                b_mean = b_velocity - (0.0 if SEMI_IMPLICIT else 0.5) * b_dv
        if GIVEN >= 1:
            b_dp, b_dp_lo = _gain(b_mean, b_h, b_dt, b_dt_lo, UNIFORM)
            b_sum, b_p, b_p_lo = running_sum(b_p, b_p_lo, b_dp, b_dp_lo, ROWS, GIVEN == 1 and not WIDE)
            put(p_position, b_at, b_sum * p_unit, b_later)


@triton.jit
def _times_power(b_x, dt, dt_lo, rate, rate_lo, EXPONENT: tl.constexpr):
    """A number times a power of dt, and its rounding error."""
    b_x_lo = tl.zeros_like(b_x)
    for _ in tl.static_range(EXPONENT):
        b_x, b_x_lo = product(b_x, b_x_lo, dt, dt_lo)
    for _ in tl.static_range(-EXPONENT):
        b_x, b_x_lo = product(b_x, b_x_lo, rate, rate_lo)
    return b_x, b_x_lo


@triton.jit
def _given(p_action, b_at, b_h, back: tl.constexpr, D: tl.constexpr, b_in, b_before, WIDE: tl.constexpr):
    """The given output some rows earlier: an action, or the start state before the first one."""
    b_other = b_before.to(p_action.dtype.element_ty)
    b_value = tl.load(p_action + (b_at - (back + 1) * D), mask=b_in & (b_h > back), other=b_other)
    return b_value.to(tl.float64 if WIDE else tl.float32)


@triton.jit
def _slope(b_x, b_x_lo, b_y, b_y_lo, b_rate, b_rate_lo, IS_UNIT: tl.constexpr):
    """(x - y) times a rate, and its rounding error."""
    b_slope, b_lo = two_difference(b_x, b_y)
    if b_x_lo is not None and b_lo.dtype != tl.float64:
        b_lo += b_x_lo - b_y_lo
    if not IS_UNIT:
        b_slope, b_lo = product(b_slope, b_lo, b_rate, b_rate_lo)
    return b_slope, b_lo


@triton.jit
def _after(b_is_later, b_x, b_x_lo, b_start, b_start_lo):
    """A difference with its rounding error; before the rows that have one, that of the start."""
    if b_x.dtype != tl.float64:
        b_x_lo = tl.where(b_is_later, b_x_lo, b_start_lo)
    return tl.where(b_is_later, b_x, b_start), b_x_lo


@triton.jit
def _gain(b_mean, b_h, b_dt, b_dt_lo, IS_UNIT: tl.constexpr):
    """A mean times the step that leads to its row, and the rounding error; 0 in the first row."""
    b_gain, b_lo = _times_step(b_mean, b_dt, b_dt_lo, IS_UNIT)
    if b_gain.dtype != tl.float64:
        b_lo = tl.where(b_h > 0, b_lo, 0.0)
    return tl.where(b_h > 0, b_gain, 0.0), b_lo


@triton.jit
def _times_step(b_x, b_dt, b_dt_lo, IS_UNIT: tl.constexpr):
    b_lo = tl.zeros_like(b_x)
    if not IS_UNIT:
        b_x, b_lo = product(b_x, None, b_dt, b_dt_lo)
    return b_x, b_lo


@jit_kernel
def chain_vjp_kernel(
    p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk, p_dt, n_dt_batch, p_grad_action,
    p_grad_start_p, p_grad_start_v, p_grad_start_a, Ha, D: tl.constexpr, GIVEN: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr, UNIFORM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and suffix sums over blocks of rows in reverse order."""
    i_trajectory = tl.program_id(0).to(tl.int64)
    i_base = i_trajectory * Ha * D
    b_column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b_in_column = b_column < D
    p_dt += i_trajectory * n_dt_batch
    dt, dt_lo = load_dt(p_dt, 0, True, WIDE)
    rate, _rate_lo = reciprocal(dt, dt_lo)
    b_p = tl.zeros([1, COLUMNS], tl.float64 if WIDE else tl.float32)
    b_s, b_a, b_p_lo, b_s_lo, b_a_lo = b_p, b_p, b_p, b_p, b_p
    put(p_grad_action, i_base + (Ha - 1) * D + b_column, b_p, b_in_column)
    # The given output's own gradient, and those of its derivatives.
    p_p, p_v, p_a, p_j = p_grad_position, p_grad_velocity, p_grad_acceleration, p_grad_jerk
    p_x = p_p if GIVEN == 0 else (p_v if GIVEN == 1 else (p_a if GIVEN == 2 else p_j))
    p_x1 = p_v if GIVEN == 0 else (p_a if GIVEN == 1 else (p_j if GIVEN == 2 else None))
    p_x2 = p_a if GIVEN == 0 else (p_j if GIVEN == 1 else None)
    p_x3 = p_j if GIVEN == 0 else None
    b_offset = row_offsets(D, ROWS)
    for i_first in range(0, Ha, ROWS):
        b_h = (Ha - 1 - i_first - tl.arange(0, ROWS))[:, None]
        b_in = (b_h >= 0) & b_in_column
        b_at = b_column - b_offset + (i_base + (Ha - 1 - i_first) * D)
        # The adjoint of the differences, from the jerk down to the given output.
        if UNIFORM:
            b_grad = uniform_adjoint(p_x, p_x1, p_x2, p_x3, b_at, b_h, Ha, D, rate, b_in, WIDE)
        else:
            b_grad, _first, _second = adjoint(
                p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_h, dt, Ha, D, b_in, False, WIDE
            )
        # The adjoint of the running sums, from the position up to the given output.
        b_dt, b_dt_lo = dt, dt_lo
        if not UNIFORM:
            b_dt, b_dt_lo = load_dt(p_dt, b_h, b_h >= 0, WIDE)
        if GIVEN >= 1:
            b_gp = load(p_grad_position, b_at, b_in, WIDE)
            b_mean, b_p, b_p_lo = running_sum(b_p, b_p_lo, b_gp, 0.0, ROWS, not WIDE)
            b_pdt, _b_lo = _gain(b_mean, b_h, b_dt, b_dt_lo, False)
        if GIVEN == 1:
            b_grad += b_pdt
        if GIVEN >= 2:
            b_gs = b_pdt + load(p_grad_velocity, b_at, b_in, WIDE)
            b_mean, b_s, b_s_lo = running_sum(b_s, b_s_lo, b_gs, 0.0, ROWS, False)
            b_v = b_mean - b_pdt
            b_x, _b_lo = _gain(b_mean - (0.0 if SEMI_IMPLICIT else 0.5) * b_pdt, b_h, b_dt, b_dt_lo, False)
        if GIVEN == 2:
            b_grad += b_x
        if GIVEN == 3:
            b_ga = b_x + load(p_grad_acceleration, b_at, b_in, WIDE)
            b_mean, b_a, b_a_lo = running_sum(b_a, b_a_lo, b_ga, 0.0, ROWS, False)
            b_grad += (b_mean - b_x + (0.5 * b_v + b_pdt * (1.0 / 6.0)) * b_dt) * b_dt
        put(p_grad_action, b_at - D, b_grad, b_in & (b_h > 0))
    # The start state in row 0: the sums up to it, or the differences' part of it.
    b_row0 = tl.zeros([1, COLUMNS], tl.int32)
    b_grad, b_first, b_second = adjoint(
        p_x, p_x1, p_x2, p_x3, p_dt, i_base + b_column, b_row0, dt, Ha, D, b_in_column, UNIFORM, WIDE
    )
    b_p = b_grad if GIVEN == 0 else b_p + b_p_lo
    b_s = b_first if GIVEN == 0 else (b_grad if GIVEN == 1 else b_s + b_s_lo)
    b_a = b_second if GIVEN == 0 else (b_first if GIVEN == 1 else (b_grad if GIVEN == 2 else b_a + b_a_lo))
    b_to = i_trajectory * D + b_column
    put(p_grad_start_p, b_to, b_p, b_in_column)
    put(p_grad_start_v, b_to, b_s, b_in_column)
    put(p_grad_start_a, b_to, b_a, b_in_column)
