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
block to block, so that any horizon is possible.
"""

from collections.abc import Callable, Sequence

import triton
import triton.language as tl
from torch import Tensor

from ..types import AccelerationIntegrator, Inputs, VjpInputs
from . import launch
from .device import jit_kernel, load_dt, load_gradient, load_state, put, state_row


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
    p_action,
    p_start_index,
    p_start_p,
    p_start_v,
    p_start_a,
    n_start,
    p_dt,
    n_dt_batch,
    n_dt_row,
    p_position,
    p_velocity,
    p_acceleration,
    p_jerk,
    Ha,
    D,
    n_column_programs,
    GIVEN: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and running sums over blocks of rows."""
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = ((tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    b_in_column = b_column < D
    b_start = state_row(p_start_index, n_start, i_trajectory + tl.zeros_like(b_column), b_in_column)
    b_p0 = load_state(p_start_p, n_start, b_start, b_column, D, b_in_column)
    b_v0 = load_state(p_start_v, n_start, b_start, b_column, D, b_in_column)
    b_a0 = load_state(p_start_a, n_start, b_start, b_column, D, b_in_column)
    b_p = b_p0
    b_v = b_v0
    b_a = b_a0
    # The given output before its first action, and the velocity that the first difference of positions continues.
    b_before = tl.zeros_like(b_p0)
    if GIVEN == 0:
        b_before = b_p0
        b_arc = (
            b_v0 - 0.5 * load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, tl.zeros_like(b_column), b_in_column) * b_a0
        )
    if GIVEN == 1:
        b_before = b_v0
    if GIVEN == 2:
        b_before = b_a0
    for i_first in range(0, Ha, ROWS):
        b_h = (i_first + tl.arange(0, ROWS))[:, None]
        b_in = (b_h < Ha) & b_in_column
        b_at = (i_trajectory * Ha + b_h) * D + b_column
        b_step = load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h, b_h < Ha)
        # Up from the given output: differences.
        b_x0 = _given(p_action, b_at, b_h, 0, D, b_in, b_before)
        b_mean = b_x0
        b_out_j = b_x0
        if GIVEN <= 2:
            b_r = 1.0 / b_step
            b_x1 = _given(p_action, b_at, b_h, 1, D, b_in, b_before)
        if GIVEN <= 1:
            b_r1 = 1.0 / load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h - 1, (b_h > 0) & (b_h < Ha))
            b_x2 = _given(p_action, b_at, b_h, 2, D, b_in, b_before)
        if GIVEN == 0:
            b_r2 = 1.0 / load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h - 2, (b_h > 1) & (b_h < Ha))
            b_x3 = _given(p_action, b_at, b_h, 3, D, b_in, b_before)
            put(p_position, b_at, b_x0, b_in)
            b_x0 = tl.where(b_h > 0, (b_x0 - b_x1) * b_r, b_arc)
            b_x1 = tl.where(b_h > 1, (b_x1 - b_x2) * b_r1, b_arc)
            b_x2 = tl.where(b_h > 2, (b_x2 - b_x3) * b_r2, b_arc)
        if GIVEN <= 1:
            put(p_velocity, b_at, tl.where(b_h > 0, b_x0, b_v0), b_in)
            b_x0 = tl.where(b_h > 0, (b_x0 - b_x1) * b_r, b_a0)
            b_x1 = tl.where(b_h > 1, (b_x1 - b_x2) * b_r1, b_a0)
        if GIVEN <= 2:
            put(p_acceleration, b_at, b_x0, b_in)
            b_out_j = tl.where(b_h > 0, (b_x0 - b_x1) * b_r, 0.0)
        put(p_jerk, b_at, b_out_j, b_in)
        # Down from it: running sums, in which each gain over a step is a mean times the step.
        b_dt = tl.where(b_h > 0, b_step, 0.0)
        if GIVEN == 3:
            b_da = b_mean * b_dt
            b_acceleration = b_a + tl.cumsum(b_da, 0)
            b_mean = b_acceleration - 0.5 * b_da
            put(p_acceleration, b_at, b_acceleration, b_in)
            b_a = _last_row(b_acceleration, ROWS)
        if GIVEN >= 2:
            b_dv = b_mean * b_dt
            b_velocity = b_v + tl.cumsum(b_dv, 0)
            b_mean = b_velocity
            if GIVEN == 3:
                # From the end of the step: v[h-1] = v - dv, a[h-1] / 2 + j dt / 6 = a / 2 - j dt / 3.
                b_mean = b_velocity - b_dv + (0.5 * b_acceleration - (1.0 / 3.0) * b_da) * b_dt
            elif not SEMI_IMPLICIT:
                b_mean = b_velocity - 0.5 * b_dv
            put(p_velocity, b_at, b_velocity, b_in)
            b_v = _last_row(b_velocity, ROWS)
        if GIVEN >= 1:
            b_position = b_p + tl.cumsum(b_mean * b_dt, 0)
            put(p_position, b_at, b_position, b_in)
            b_p = _last_row(b_position, ROWS)


@triton.jit
def _given(p_action, b_at, b_h, back: tl.constexpr, D, b_in, b_before):
    """The given output some rows earlier: an action, or the start state before the first one."""
    b_is_action = b_h > back
    b_action = tl.load(p_action + (b_at - (back + 1) * D), mask=b_in & b_is_action, other=0).to(tl.float64)
    return tl.where(b_is_action, b_action, b_before)


@triton.jit
def _last_row(b_rows, ROWS: tl.constexpr):
    """The last of the rows: what running sums carry on to the next block, without adding it up again."""
    b_is_last = (tl.arange(0, ROWS) == ROWS - 1)[:, None]
    return tl.sum(tl.where(b_is_last, b_rows, 0.0), 0)[None, :]


@jit_kernel
def chain_vjp_kernel(
    p_grad_position,
    p_grad_velocity,
    p_grad_acceleration,
    p_grad_jerk,
    p_dt,
    n_dt_batch,
    n_dt_row,
    p_grad_action,
    p_grad_start_p,
    p_grad_start_v,
    p_grad_start_a,
    Ha,
    D,
    n_column_programs,
    GIVEN: tl.constexpr,
    SEMI_IMPLICIT: tl.constexpr,
    ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):
    """One trajectory, a block of its joints: differences and suffix sums over blocks of rows in reverse order."""
    i_trajectory = (tl.program_id(0) // n_column_programs).to(tl.int64)
    b_column = ((tl.program_id(0) % n_column_programs) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    b_in_column = b_column < D
    b_zero = tl.zeros([1, COLUMNS], tl.float64)
    b_sum_p = b_zero
    b_sum_s = b_zero
    b_sum_a = b_zero
    put(p_grad_action, ((i_trajectory + 1) * Ha - 1) * D + b_column, b_zero, b_in_column)
    for i_first in range(0, Ha, ROWS):
        b_h = (Ha - 1 - i_first - tl.arange(0, ROWS))[:, None]
        b_in = (b_h >= 0) & b_in_column
        b_moved = b_in & (b_h > 0)
        b_in1 = b_in & (b_h < Ha - 1)
        b_in2 = b_in & (b_h < Ha - 2)
        b_at = (i_trajectory * Ha + b_h) * D + b_column
        b_step = load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h, b_h >= 0)
        b_dt = tl.where(b_h > 0, b_step, 0.0)
        b_ga = load_gradient(p_grad_acceleration, b_at, b_in)
        b_gj = load_gradient(p_grad_jerk, b_at, b_moved)
        # The adjoint of the differences, from the jerk down to the given output.
        b_grad = tl.zeros([ROWS, COLUMNS], tl.float64)
        b_s = b_grad
        b_a = b_grad
        if GIVEN <= 2:
            b_r = tl.where(b_h > 0, 1.0 / b_step, 0.0)
            b_r1 = _rate(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h + 1, Ha)
            b_wj1 = load_gradient(p_grad_jerk, b_at + D, b_in1) * b_r1
            b_grad = b_ga + b_gj * b_r - b_wj1
        if GIVEN <= 1:
            b_a = b_grad
            b_r2 = _rate(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h + 2, Ha)
            b_wj2 = load_gradient(p_grad_jerk, b_at + 2 * D, b_in2) * b_r2
            b_wa1 = (load_gradient(p_grad_acceleration, b_at + D, b_in1) + b_wj1 - b_wj2) * b_r1
            b_grad = b_grad * b_r - b_wa1
        if GIVEN == 0:
            b_r3 = _rate(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h + 3, Ha)
            b_wj3 = load_gradient(p_grad_jerk, b_at + 3 * D, b_in & (b_h < Ha - 3)) * b_r3
            b_wa2 = (load_gradient(p_grad_acceleration, b_at + 2 * D, b_in2) + b_wj2 - b_wj3) * b_r2
            b_wv1 = (load_gradient(p_grad_velocity, b_at + D, b_in1) + b_wa1 - b_wa2) * b_r1
            b_s = load_gradient(p_grad_velocity, b_at, b_in) + b_grad
            b_a += 0.5 * b_step * b_wa1  # is used in row 0 alone
            b_grad = load_gradient(p_grad_position, b_at, b_in) + b_s * b_r - b_wv1
        # The adjoint of the running sums, from the position up to the given output.
        b_p = b_grad
        if GIVEN >= 1:
            b_gp = load_gradient(p_grad_position, b_at, b_in)
            b_p = b_sum_p + tl.cumsum(b_gp, 0)
            b_sum_p += tl.sum(b_gp, 0)[None, :]
            b_pdt = b_p * b_dt
            b_gs = b_pdt + load_gradient(p_grad_velocity, b_at, b_in)
        if GIVEN == 1:
            b_grad += b_gs
            b_s = b_grad
        if GIVEN >= 2:
            b_s = b_sum_s + tl.cumsum(b_gs, 0)
            b_sum_s += tl.sum(b_gs, 0)[None, :]
            b_x = b_s * b_dt
            if not SEMI_IMPLICIT:
                b_x = (b_s - 0.5 * b_pdt) * b_dt
        if GIVEN == 2:
            b_grad += b_x
            b_a = b_grad
        if GIVEN == 3:
            b_ga += b_x
            b_a = b_sum_a + tl.cumsum(b_ga, 0) - b_x
            b_sum_a += tl.sum(b_ga, 0)[None, :]
            b_s -= b_pdt
            b_grad = b_gj + (b_a + (0.5 * b_s + b_pdt * (1.0 / 6.0)) * b_dt) * b_dt
        put(p_grad_action, b_at - D, b_grad, b_moved)
        b_is_first = b_in & (b_h == 0)
        b_to = i_trajectory * D + b_column + tl.zeros_like(b_h)
        put(p_grad_start_p, b_to, b_p, b_is_first)
        put(p_grad_start_v, b_to, b_s, b_is_first)
        put(p_grad_start_a, b_to, b_a, b_is_first)


@triton.jit
def _rate(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h, Ha):
    """1 / dt of rows."""
    return 1.0 / load_dt(p_dt, n_dt_batch, n_dt_row, i_trajectory, b_h, (b_h > 0) & (b_h < Ha))
