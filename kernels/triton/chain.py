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

from ..types import AccelerationIntegrator, Inputs, VjpInputs
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
        inputs: Inputs,
        *,
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Sequence[Tensor] | None = None,
        tile: ScanTile | None = None,
    ) -> tuple[Tensor, ...]:
        """Return position, velocity, acceleration and jerk `[B, H, D]` of the actions.

        Args:
            inputs: as for every launcher (`backends`).
            integrator: of accelerations.
            out: four contiguous buffers to write to.
            tile: size of a program; None for the default.

        """
        action, dt = inputs.action, inputs.dt
        batch, horizon, dof = action.shape
        trajectory = outputs(out, (batch, horizon, dof), action)
        tile = tile or scan_tile(horizon, dof, action.device)
        arguments = {
            "p_action": contiguous(action),
            **start_arguments("pva", inputs.ends[0]),
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
        inputs: VjpInputs,
        *,
        integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
        out: Sequence[Tensor | None] | None = None,
        tile: ScanTile | None = None,
    ) -> tuple[Tensor | None, ...]:
        """Return the gradients of `Inputs.values`, None if not needed.

        Args:
            inputs: as for every launcher (`backends`).
            integrator: of accelerations.
            out: contiguous buffers for the gradients, or None.
            tile: size of a program; None for the default.

        """
        upstream, like, dt = Upstream.of(*inputs.upstream), inputs.like, inputs.dt
        batch, horizon, dof = like.shape
        if horizon != inputs.action_horizon:
            raise ValueError(
                f"action_horizon: expected the horizon {horizon} of the gradients, got {inputs.action_horizon}"
            )
        grad_action = output(out and out[0], (batch, horizon, dof), like, "out[0]") if inputs.needs[0] else None
        starts = StartGradients(inputs, 0, out)
        tile = tile or scan_tile(horizon, dof, like.device)
        arguments = {
            **upstream.arguments(),
            **dt_arguments(dt, batch, horizon),
            "p_grad_action": grad_action,
            **starts.arguments("pva"),
            **_sizes(given, integrator, horizon, dof, tile),
            "DOUBLE": like.dtype == torch.float64,
        }
        if any(inputs.needs):
            run(chain_vjp_kernel, batch * arguments["n_column_programs"], arguments, tile.warps)
        return (grad_action, *starts.gradients(), *[None] * 4)

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
