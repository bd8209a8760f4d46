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
block to block with its rounding error, so that any horizon is possible. Where all steps are of one length, differences
of any order are taken of the given output itself, and multiplied by powers of 1 / dt at last.
"""

from collections.abc import Callable, Sequence

import triton
import triton.language as tl
from torch import Tensor

from ..types import AccelerationIntegrator, Inputs, VjpInputs
from . import launch
from .device import (
    jit_kernel,
    load,
    load_dt,
    load_state,
    product,
    put,
    reciprocal,
    second_difference,
    state_row,
    third_difference,
    two_sum,
)


def _launchers(given: int) -> tuple[Callable[..., tuple[Tensor, ...]], Callable[..., tuple[Tensor | None, ...]]]:
    """Return forward and vjp, as `backends` describes them, of actions that are that derivative of the position."""

    def options(integrator: AccelerationIntegrator) -> dict[str, object]:
        semi_implicit = AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER
        return {"GIVEN": given, "SEMI_IMPLICIT": semi_implicit}

    def forward(
        inputs: Inputs,
        *,
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Sequence[Tensor] | None = None,
    ) -> tuple[Tensor, ...]:
        return launch.forward(chain_fwd_kernel, inputs, inputs.action.shape[1], out, **options(integrator))

    def vjp(
        inputs: VjpInputs,
        *,
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Sequence[Tensor | None] | None = None,
    ) -> tuple[Tensor | None, ...]:
        horizon = inputs.action_horizon
        return launch.vjp(chain_vjp_kernel, inputs, horizon, horizon, out, **options(integrator))

    return forward, vjp


clique_forward, clique_vjp = _launchers(0)
velocity_forward, velocity_vjp = _launchers(1)
acceleration_forward, acceleration_vjp = _launchers(2)
jerk_forward, jerk_vjp = _launchers(3)


@jit_kernel
def chain_fwd_kernel(
    p_action, p_start_index, p_start_p, p_start_v, p_start_a, n_start, p_dt, n_dt_batch, p_position, p_velocity,
    p_acceleration, p_jerk, Ha, D: tl.constexpr, GIVEN: tl.constexpr, SEMI_IMPLICIT: tl.constexpr,
    UNIFORM: tl.constexpr, WIDE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and running sums over blocks of rows."""
    i_trajectory = tl.program_id(0).to(tl.int64)
    i_base = i_trajectory * Ha * D
    b_column = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)[None, :]
    b_in_column = b_column < D
    i_start = state_row(p_start_index, n_start, i_trajectory, True)
    b_p = load_state(p_start_p, n_start, i_start, b_column, D, b_in_column, WIDE)
    b_v = load_state(p_start_v, n_start, i_start, b_column, D, b_in_column, WIDE)
    b_a = load_state(p_start_a, n_start, i_start, b_column, D, b_in_column, WIDE)
    b_v0 = b_v
    b_a0 = b_a
    b_zero = tl.zeros_like(b_p)
    b_p_lo = b_zero
    b_v_lo = b_zero
    b_a_lo = b_zero
    # The given output before its first action.
    b_before = b_zero
    if GIVEN == 0:
        b_before = b_p
    if GIVEN == 1:
        b_before = b_v
    if GIVEN == 2:
        b_before = b_a
    p_dt += i_trajectory * n_dt_batch
    first_dt, first_dt_lo = load_dt(p_dt, 0, True, WIDE)
    first_rate, first_rate_lo = reciprocal(first_dt, first_dt_lo)
    # Gains of the start's velocity and acceleration over one step, and the derivative that the first differences
    # continue: the velocity half a step before the start, or its acceleration.
    b_gain_v, b_gain_v_lo = product(b_v, b_zero, first_dt, first_dt_lo)
    b_gain_a, b_gain_a_lo = product(b_a, b_zero, first_dt, first_dt_lo)
    b_half = 0.5 * first_dt * b_gain_a
    b_arc, b_arc_lo = two_sum(b_v, -0.5 * b_gain_a)
    if GIVEN == 1:
        b_arc = b_a
        b_arc_lo = b_zero
    for i_first in range(0, Ha, ROWS):
        b_h = i_first + tl.arange(0, ROWS)[:, None]
        b_in = (b_h < Ha) & b_in_column
        b_at = i_base + (b_h * D + b_column)
        # Up from the given output: differences.
        b_x0 = _given(p_action, b_at, b_h, 0, D, b_in, b_before, WIDE)
        b_j = b_x0
        b_dt = first_dt
        b_dt_lo = first_dt_lo
        b_rate = first_rate
        b_rate_lo = first_rate_lo
        if UNIFORM:
            if GIVEN <= 2:
                b_x1 = _given(p_action, b_at, b_h, 1, D, b_in, b_before, WIDE)
                b_first = (b_x0 - b_x1) * b_rate
                b_j = b_first
            if GIVEN <= 1:
                b_x2 = _given(p_action, b_at, b_h, 2, D, b_in, b_before, WIDE)
                b_second, b_lo = second_difference(b_x0, b_x1, b_x2)
                # In row 1 the start's derivatives lead back to x2: p0 - dt v0 + dt^2 a0 / 2, or v0 - dt a0.
                if GIVEN == 0:
                    b_second -= tl.where(b_h == 1, b_gain_v, 0.0)
                    b_lo -= tl.where(b_h == 1, b_gain_v_lo - b_half, 0.0)
                else:
                    b_second -= tl.where(b_h == 1, b_gain_a, 0.0)
                    b_lo -= tl.where(b_h == 1, b_gain_a_lo, 0.0)
                b_second = (b_second + b_lo) * (b_rate * b_rate)
                b_j = b_second
            if GIVEN == 0:
                # And to x3 in rows 1, p0 - 2 dt v0 + 2 dt^2 a0, and 2.
                b_x3 = _given(p_action, b_at, b_h, 3, D, b_in, b_before, WIDE)
                b_third, b_lo = third_difference(b_x0, b_x1, b_x2, b_x3)
                b_third += tl.where(b_h == 1, -b_gain_v, tl.where(b_h == 2, b_gain_v, 0.0))
                b_lo += tl.where(b_h == 1, -b_gain_v_lo - b_half, tl.where(b_h == 2, b_gain_v_lo - b_half, 0.0))
                b_j = (b_third + b_lo) * (b_rate * b_rate * b_rate)
        else:
            b_dt, b_dt_lo = load_dt(p_dt, b_h, b_h < Ha, WIDE)
            if GIVEN <= 2:
                b_rate, b_rate_lo = reciprocal(b_dt, b_dt_lo)
                b_x1 = _given(p_action, b_at, b_h, 1, D, b_in, b_before, WIDE)
                b_first, b_first_lo = _slope(b_x0, b_zero, b_x1, b_zero, b_rate, b_rate_lo)
                b_j = b_first
            if GIVEN <= 1:
                b_x2 = _given(p_action, b_at, b_h, 2, D, b_in, b_before, WIDE)
                b_rate1, b_rate1_lo = _rate(p_dt, b_h - 1, Ha, WIDE)
                b_first1, b_first1_lo = _slope(b_x1, b_zero, b_x2, b_zero, b_rate1, b_rate1_lo)
                b_first1 = tl.where(b_h > 1, b_first1, b_arc)
                b_first1_lo = tl.where(b_h > 1, b_first1_lo, b_arc_lo)
                b_second, b_second_lo = _slope(b_first, b_first_lo, b_first1, b_first1_lo, b_rate, b_rate_lo)
                b_j = b_second
            if GIVEN == 0:
                b_x3 = _given(p_action, b_at, b_h, 3, D, b_in, b_before, WIDE)
                b_rate2, b_rate2_lo = _rate(p_dt, b_h - 2, Ha, WIDE)
                b_first2, b_first2_lo = _slope(b_x2, b_zero, b_x3, b_zero, b_rate2, b_rate2_lo)
                b_first2 = tl.where(b_h > 2, b_first2, b_arc)
                b_first2_lo = tl.where(b_h > 2, b_first2_lo, b_arc_lo)
                b_second1, b_lo = _slope(b_first1, b_first1_lo, b_first2, b_first2_lo, b_rate1, b_rate1_lo)
                b_second1 = tl.where(b_h > 1, b_second1, b_a0)
                b_lo = tl.where(b_h > 1, b_lo, 0.0)
                b_j, b_lo = _slope(b_second, b_second_lo, b_second1, b_lo, b_rate, b_rate_lo)
        if GIVEN == 0:
            put(p_position, b_at, b_x0, b_in)
            put(p_velocity, b_at, tl.where(b_h > 0, b_first, b_v0), b_in)
            put(p_acceleration, b_at, tl.where(b_h > 0, b_second, b_a0), b_in)
        if GIVEN == 1:
            put(p_velocity, b_at, b_x0, b_in)
            put(p_acceleration, b_at, tl.where(b_h > 0, b_first, b_a0), b_in)
        if GIVEN == 2:
            put(p_acceleration, b_at, b_x0, b_in)
        put(p_jerk, b_at, tl.where(b_h > 0, b_j, 0.0), b_in)
        # Down from it: running sums, in which each gain over a step is a mean times the step.
        b_mean = b_x0
        if GIVEN == 3:
            b_da = _gain(b_mean, b_h, b_dt, b_dt_lo)
            b_acceleration = b_a + (tl.cumsum(b_da, 0) + b_a_lo)
            b_a, b_a_lo = _carry(b_a, b_a_lo, b_da)
            b_mean = b_acceleration - 0.5 * b_da
            put(p_acceleration, b_at, b_acceleration, b_in)
        if GIVEN >= 2:
            b_dv = _gain(b_mean, b_h, b_dt, b_dt_lo)
            b_velocity = b_v + (tl.cumsum(b_dv, 0) + b_v_lo)
            b_v, b_v_lo = _carry(b_v, b_v_lo, b_dv)
            b_mean = b_velocity
            if GIVEN == 3:
                # From the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
                b_mean = b_velocity - b_dv + (0.5 * b_acceleration - (1.0 / 3.0) * b_da) * b_dt
            elif not SEMI_IMPLICIT:
                b_mean = b_velocity - 0.5 * b_dv
            put(p_velocity, b_at, b_velocity, b_in)
        if GIVEN >= 1:
            b_dp = _gain(b_mean, b_h, b_dt, b_dt_lo)
            put(p_position, b_at, b_p + (tl.cumsum(b_dp, 0) + b_p_lo), b_in)
            b_p, b_p_lo = _carry(b_p, b_p_lo, b_dp)


@triton.jit
def _given(p_action, b_at, b_h, back: tl.constexpr, D: tl.constexpr, b_in, b_before, WIDE: tl.constexpr):
    """The given output some rows earlier: an action, or the start state before the first one."""
    b_is_action = b_h > back
    return tl.where(b_is_action, load(p_action, b_at - (back + 1) * D, b_in & b_is_action, WIDE), b_before)


@triton.jit
def _rate(p_dt, b_h, Ha, WIDE: tl.constexpr):
    """1 / dt of rows, and its rounding error; 0 outside of rows 1 to Ha - 1."""
    b_there = (b_h > 0) & (b_h < Ha)
    b_dt, b_dt_lo = load_dt(p_dt, b_h, b_there, WIDE)
    b_rate, b_rate_lo = reciprocal(b_dt, b_dt_lo)
    return tl.where(b_there, b_rate, 0.0), tl.where(b_there, b_rate_lo, 0.0)


@triton.jit
def _slope(b_x, b_x_lo, b_y, b_y_lo, b_rate, b_rate_lo):
    """(x - y) times a rate, and its rounding error."""
    b_difference, b_lo = two_sum(b_x, -b_y)
    return product(b_difference, b_lo + (b_x_lo - b_y_lo), b_rate, b_rate_lo)


@triton.jit
def _gain(b_mean, b_h, b_dt, b_dt_lo):
    """A mean times the step that leads to its row; 0 in the first row."""
    return tl.where(b_h > 0, tl.fma(b_mean, b_dt, b_mean * b_dt_lo), 0.0)


@triton.jit
def _carry(b_sum, b_sum_lo, b_gains):
    """A running sum after a block of rows, and its rounding error."""
    b_next, b_lo = two_sum(b_sum, tl.sum(b_gains, 0)[None, :])
    return b_next, b_sum_lo + b_lo


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
    first_dt, first_dt_lo = load_dt(p_dt, 0, True, WIDE)
    b_rate, _b_lo = reciprocal(first_dt, first_dt_lo)
    b_p = tl.zeros([1, COLUMNS], tl.float64 if WIDE else tl.float32)
    b_s = b_p
    b_a = b_p
    b_p_lo = b_p
    b_s_lo = b_p
    b_a_lo = b_p
    put(p_grad_action, i_base + (Ha - 1) * D + b_column, b_p, b_in_column)
    # The given output's own gradient, and those of its derivatives.
    p_x = p_grad_position
    p_x1 = p_grad_velocity
    p_x2 = p_grad_acceleration
    p_x3 = p_grad_jerk
    if GIVEN == 1:
        p_x, p_x1, p_x2, p_x3 = p_grad_velocity, p_grad_acceleration, p_grad_jerk, None
    if GIVEN == 2:
        p_x, p_x1, p_x2, p_x3 = p_grad_acceleration, p_grad_jerk, None, None
    if GIVEN == 3:
        p_x, p_x1, p_x2, p_x3 = p_grad_jerk, None, None, None
    for i_first in range(0, Ha, ROWS):
        b_h = (Ha - 1 - i_first - tl.arange(0, ROWS))[:, None]
        b_in = (b_h >= 0) & b_in_column
        b_at = i_base + (b_h * D + b_column)
        # The adjoint of the differences, from the jerk down to the given output.
        b_dt = first_dt
        b_dt_lo = first_dt_lo
        if UNIFORM:
            b_grad = _uniform(p_x, p_x1, p_x2, p_x3, b_at, b_h, Ha, D, b_rate, b_in, WIDE)
        else:
            b_dt, b_dt_lo = load_dt(p_dt, b_h, b_h >= 0, WIDE)
            b_grad = _level3(p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_h, Ha, D, b_in, WIDE)
        # The adjoint of the running sums, from the position up to the given output.
        if GIVEN >= 1:
            b_gp = load(p_grad_position, b_at, b_in, WIDE)
            b_pdt = _gain(b_p + (tl.cumsum(b_gp, 0) + b_p_lo), b_h, b_dt, b_dt_lo)
            b_p, b_p_lo = _carry(b_p, b_p_lo, b_gp)
        if GIVEN == 1:
            b_grad += b_pdt
        if GIVEN >= 2:
            b_gs = b_pdt + load(p_grad_velocity, b_at, b_in, WIDE)
            b_mean = b_s + (tl.cumsum(b_gs, 0) + b_s_lo)
            b_s, b_s_lo = _carry(b_s, b_s_lo, b_gs)
            b_v = b_mean - b_pdt
            if not SEMI_IMPLICIT:
                b_mean -= 0.5 * b_pdt
            b_x = _gain(b_mean, b_h, b_dt, b_dt_lo)
        if GIVEN == 2:
            b_grad += b_x
        if GIVEN == 3:
            b_ga = b_x + load(p_grad_acceleration, b_at, b_in, WIDE)
            b_mean = b_a + (tl.cumsum(b_ga, 0) + b_a_lo) - b_x
            b_a, b_a_lo = _carry(b_a, b_a_lo, b_ga)
            b_grad += (b_mean + (0.5 * b_v + b_pdt * (1.0 / 6.0)) * b_dt) * b_dt
        put(p_grad_action, b_at - D, b_grad, b_in & (b_h > 0))
    # The start state in row 0: sums up to it, or what differences make of it.
    b_p += b_p_lo
    b_s += b_s_lo
    b_a += b_a_lo
    b_from = i_base + b_column
    if GIVEN == 3:
        b_grad = b_a
        b_first = b_a
        b_second = b_a
    elif UNIFORM:
        b_grad, b_first, b_second = _uniform_start(p_x, p_x1, p_x2, p_x3, b_from, Ha, D, b_rate, b_in_column, WIDE)
    else:
        b_grad, b_first, b_second = _start(
            p_x, p_x1, p_x2, p_x3, p_dt, b_from, first_dt, Ha, D, b_in_column, WIDE
        )
    if GIVEN == 0:
        b_p = b_grad
        b_s = b_first
        b_a = b_second
    if GIVEN == 1:
        b_s = b_grad
        b_a = b_first
    if GIVEN == 2:
        b_a = b_grad
    b_to = i_trajectory * D + b_column
    put(p_grad_start_p, b_to, b_p, b_in_column)
    put(p_grad_start_v, b_to, b_s, b_in_column)
    put(p_grad_start_a, b_to, b_a, b_in_column)


@triton.jit
def _uniform(p_x, p_x1, p_x2, p_x3, b_at, b_h, Ha, D: tl.constexpr, b_rate, b_in, WIDE: tl.constexpr):
    """Gradient of an output in rows from 1 on, from its own and those of the differences of each order over dt."""
    b_in1 = b_in & (b_h < Ha - 1)
    b_in2 = b_in & (b_h < Ha - 2)
    b_grad = load(p_x, b_at, b_in, WIDE)
    if p_x1 is not None:
        b_grad += (load(p_x1, b_at, b_in, WIDE) - load(p_x1, b_at + D, b_in1, WIDE)) * b_rate
    if p_x2 is not None:
        b_g1 = load(p_x2, b_at + D, b_in1, WIDE)
        b_g2 = load(p_x2, b_at + 2 * D, b_in2, WIDE)
        b_second, b_lo = second_difference(load(p_x2, b_at, b_in, WIDE), b_g1, b_g2)
        b_grad += (b_second + b_lo) * (b_rate * b_rate)
    if p_x3 is not None:
        b_g1 = load(p_x3, b_at + D, b_in1, WIDE)
        b_g2 = load(p_x3, b_at + 2 * D, b_in2, WIDE)
        b_g3 = load(p_x3, b_at + 3 * D, b_in & (b_h < Ha - 3), WIDE)
        b_third, b_lo = third_difference(load(p_x3, b_at, b_in, WIDE), b_g1, b_g2, b_g3)
        b_grad += (b_third + b_lo) * (b_rate * b_rate * b_rate)
    return b_grad


@triton.jit
def _uniform_start(p_x, p_x1, p_x2, p_x3, b_at, Ha, D: tl.constexpr, b_rate, b_in, WIDE: tl.constexpr):
    """What `_start` returns, for steps of one length."""
    b_in1 = b_in & (Ha > 1)
    b_in2 = b_in & (Ha > 2)
    b_result = load(p_x, b_at, b_in, WIDE) - load(p_x1, b_at + D, b_in1, WIDE) * b_rate
    b_first = load(p_x1, b_at, b_in, WIDE) - load(p_x2, b_at + D, b_in1, WIDE) * b_rate
    b_second = load(p_x2, b_at, b_in, WIDE)
    if p_x2 is not None:
        b_g1 = load(p_x2, b_at + D, b_in1, WIDE)
        b_result -= (b_g1 - load(p_x2, b_at + 2 * D, b_in2, WIDE)) * (b_rate * b_rate)
        b_second += 0.5 * b_g1
    if p_x3 is not None:
        b_g1 = load(p_x3, b_at + D, b_in1, WIDE)
        b_g2 = load(p_x3, b_at + 2 * D, b_in2, WIDE)
        b_third, b_lo = second_difference(b_g1, b_g2, load(p_x3, b_at + 3 * D, b_in & (Ha > 3), WIDE))
        b_result -= (b_third + b_lo) * (b_rate * b_rate * b_rate)
        b_first -= (b_g1 - b_g2) * (b_rate * b_rate)
        b_second -= 0.5 * (b_g1 + b_g2) * b_rate
    return b_result, b_first, b_second


@triton.jit
def _level1(p_x, p_x1, p_dt, k: tl.constexpr, b_at, b_h, Ha, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """Gradient of an output k rows later, with what its differences pass on, and its rounding error."""
    b_rate, b_rate_lo = _rate(p_dt, b_h + k, Ha, WIDE)
    b_next, b_next_lo = _rate(p_dt, b_h + (k + 1), Ha, WIDE)
    b_g = load(p_x1, b_at + k * D, b_in & (b_h + k < Ha), WIDE)
    b_w0, b_w0_lo = product(b_g, tl.zeros_like(b_g), b_rate, b_rate_lo)
    b_g = load(p_x1, b_at + (k + 1) * D, b_in & (b_h + (k + 1) < Ha), WIDE)
    b_w1, b_w1_lo = product(b_g, tl.zeros_like(b_g), b_next, b_next_lo)
    return _passed_on(load(p_x, b_at + k * D, b_in & (b_h + k < Ha), WIDE), b_w0, b_w0_lo, b_w1, b_w1_lo)


@triton.jit
def _level2(p_x, p_x1, p_x2, p_dt, k: tl.constexpr, b_at, b_h, Ha, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """The same with second differences."""
    b_rate, b_rate_lo = _rate(p_dt, b_h + k, Ha, WIDE)
    b_next, b_next_lo = _rate(p_dt, b_h + (k + 1), Ha, WIDE)
    b_g, b_lo = _level1(p_x1, p_x2, p_dt, k, b_at, b_h, Ha, D, b_in, WIDE)
    b_w0, b_w0_lo = product(b_g, b_lo, b_rate, b_rate_lo)
    b_g, b_lo = _level1(p_x1, p_x2, p_dt, k + 1, b_at, b_h, Ha, D, b_in, WIDE)
    b_w1, b_w1_lo = product(b_g, b_lo, b_next, b_next_lo)
    return _passed_on(load(p_x, b_at + k * D, b_in & (b_h + k < Ha), WIDE), b_w0, b_w0_lo, b_w1, b_w1_lo)


@triton.jit
def _level3(p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_h, Ha, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """Gradient of the given output from its own and those of the differences of each order, for steps of any length."""
    b_rate, b_rate_lo = _rate(p_dt, b_h, Ha, WIDE)
    b_next, b_next_lo = _rate(p_dt, b_h + 1, Ha, WIDE)
    b_g, b_lo = _level2(p_x1, p_x2, p_x3, p_dt, 0, b_at, b_h, Ha, D, b_in, WIDE)
    b_w0, b_w0_lo = product(b_g, b_lo, b_rate, b_rate_lo)
    b_g, b_lo = _level2(p_x1, p_x2, p_x3, p_dt, 1, b_at, b_h, Ha, D, b_in, WIDE)
    b_w1, b_w1_lo = product(b_g, b_lo, b_next, b_next_lo)
    b_sum, b_lo = _passed_on(load(p_x, b_at, b_in, WIDE), b_w0, b_w0_lo, b_w1, b_w1_lo)
    return b_sum + b_lo


@triton.jit
def _start(p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_dt, Ha, D: tl.constexpr, b_in, WIDE: tl.constexpr):
    """Gradients of the given output and of its first two derivatives in row 0, for steps of any length."""
    b_h = tl.zeros_like(b_at).to(tl.int32)
    b_first, b_first_lo = _level2(p_x1, p_x2, p_x3, p_dt, 0, b_at, b_h, Ha, D, b_in, WIDE)
    b_second, b_second_lo = _level1(p_x2, p_x3, p_dt, 0, b_at, b_h, Ha, D, b_in, WIDE)
    # The arc before the start: a0 has an effect on the velocity that the first difference continues, too.
    b_rate, b_rate_lo = _rate(p_dt, b_h + 1, Ha, WIDE)
    b_g, b_lo = _level1(p_x2, p_x3, p_dt, 1, b_at, b_h, Ha, D, b_in, WIDE)
    b_w, b_lo = product(b_g, b_lo, b_rate, b_rate_lo)
    b_second = b_second + b_second_lo + 0.5 * b_dt * b_w
    return _level3(p_x, p_x1, p_x2, p_x3, p_dt, b_at, b_h, Ha, D, b_in, WIDE), b_first + b_first_lo, b_second


@triton.jit
def _passed_on(b_own, b_in0, b_in0_lo, b_in1, b_in1_lo):
    """A gradient plus what the differences of its row and of the next one pass on, and the rounding error."""
    b_difference, b_lo = two_sum(b_in0, -b_in1)
    b_sum, b_sum_lo = two_sum(b_own, b_difference)
    return b_sum, b_sum_lo + (b_lo + (b_in0_lo - b_in1_lo))
