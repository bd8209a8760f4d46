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
block to block. Any horizon is possible; if it fits into one block, nothing is carried.

Differences are float64: neighbours cancel, and float32 would not leave enough digits. So are forward sums, except of
half types, which do not show the difference: the effect of a rounding error in a velocity grows with time, and a
ten-second motion would exceed the bound of 2e-6. Suffix sums of gradients are float32, with carries that compensate
their rounding errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from ..types import AccelerationIntegrator
from .chain_fwd import chain_fwd_kernel
from .chain_vjp import chain_vjp_kernel
from .launch import (
    ScanTile,
    Upstream,
    contiguous,
    dt_arguments,
    output,
    outputs,
    run,
    scan_tile,
    start_arguments,
)
from .start_gradients import StartGradients


def _forward(given: int) -> Callable[..., tuple[Tensor, ...]]:
    def forward(
        action: Tensor,
        p0: Tensor,
        v0: Tensor | None,
        a0: Tensor | None,
        start_index: Tensor | None,
        dt: Tensor,
        *,
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Sequence[Tensor] | None = None,
        tile: ScanTile | None = None,
    ) -> tuple[Tensor, ...]:
        """Return position, velocity, acceleration and jerk `[B, H, D]` of the actions.

        Args:
            action: `[B, H, D]` rad, rad/s, rad/s^2 or rad/s^3.
            p0: start position, `[1 or B, D]` or a pool `[S, D]`, rad; v0, a0: like p0, rad/s and rad/s^2, None is 0.
            v0: see p0.
            a0: see p0.
            start_index: `[B]` int32 or int64, row of the pool for each trajectory, or None.
            dt: float32 or float64 `[1 or B, 1 or H]`, s.
            integrator: of accelerations.
            out: four contiguous buffers to write to.
            tile: size of a program; None for the default.

        """
        batch, horizon, dof = action.shape
        trajectory = outputs(out, (batch, horizon, dof), action)
        tile = tile or scan_tile(horizon, dof, action.device)
        arguments = {
            "p_action": contiguous(action),
            **start_arguments("pva", (p0, v0, a0), start_index),
            **dt_arguments(dt, batch, horizon),
            **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
            **_sizes(given, integrator, horizon, dof, tile),
            "HALF": action.dtype in (torch.float16, torch.bfloat16),
        }
        run(chain_fwd_kernel, batch * arguments["n_column_programs"], arguments, tile.warps)
        return trajectory

    return forward


def _vjp(given: int) -> Callable[..., tuple[Tensor | None, ...]]:
    def vjp(
        grad_position: Tensor | None,
        grad_velocity: Tensor | None,
        grad_acceleration: Tensor | None,
        grad_jerk: Tensor | None,
        start_index: Tensor | None,
        dt: Tensor,
        *,
        start_rows: int,
        action_horizon: int,
        needs: Sequence[bool] = (True, True, True, True),
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Tensor | None = None,
        start_out: Sequence[Tensor | None] | None = None,
        tile: ScanTile | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients with respect to action, p0, v0 and a0, None if not needed.

        Args:
            grad_position: upstream gradient `[B, H, D]` or None for 0; so the others.
            grad_velocity: see grad_position.
            grad_acceleration: see grad_position.
            grad_jerk: see grad_position.
            start_index: as in the forward map.
            dt: as in the forward map.
            start_rows: rows S of the start pools.
            action_horizon: H.
            needs: which of the four gradients to compute.
            integrator: of accelerations.
            out: contiguous buffer for the gradient of the action.
            start_out: the same for those of the starts.
            tile: size of a program; None for the default.

        """
        upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
        like = upstream.some
        batch, horizon, dof = like.shape
        if horizon != action_horizon:
            raise ValueError(f"action_horizon: expected the horizon {horizon} of the gradients, got {action_horizon}")
        grad_action = output(out, (batch, horizon, dof), like, "out") if needs[0] else None
        starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like, start_out)
        tile = tile or scan_tile(horizon, dof, like.device)
        arguments = {
            **upstream.arguments(),
            **dt_arguments(dt, batch, horizon),
            "p_grad_action": grad_action,
            **starts.arguments("pva"),
            **_sizes(given, integrator, horizon, dof, tile),
            "DOUBLE": like.dtype == torch.float64,
        }
        if any(needs):
            run(chain_vjp_kernel, batch * arguments["n_column_programs"], arguments, tile.warps)
        return (grad_action, *starts.gradients())

    return vjp


def _sizes(
    given: int, integrator: AccelerationIntegrator, horizon: int, dof: int, tile: ScanTile
) -> dict[str, int | bool]:
    """Kernel arguments that both directions have in common."""
    return {
        "H": horizon,
        "D": dof,
        "n_column_programs": -(-dof // tile.columns),
        "GIVEN": given,
        "SEMI_IMPLICIT": AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER,
        "SINGLE": horizon <= tile.rows,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
    }


clique_forward, clique_vjp = _forward(0), _vjp(0)
velocity_forward, velocity_vjp = _forward(1), _vjp(1)
acceleration_forward, acceleration_vjp = _forward(2), _vjp(2)
jerk_forward, jerk_vjp = _forward(3), _vjp(3)
