"""Accelerations and jerks to trajectories, and the transposes: launchers of the scans along time.

A program takes all steps of one trajectory (and up to 32 joints), a block of rows at a time: within a block the running
sums are parallel along time, from block to block the last state is carried on. Any horizon fits.

Forward sums are float64 for float32 actions too: a rounding error in an acceleration or velocity grows with time, and
float32 sums miss 2e-6 of a ten-second motion (half types do not show it). Suffix sums of gradients grow with what is
added and stay in float32.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..types import AccelerationIntegrator
from .launch import (
    ScanTile,
    Upstream,
    contiguous,
    dt_arguments,
    output,
    outputs,
    run,
    scan_registers,
    scan_tile,
    start_arguments,
)
from .scan_acceleration import acceleration_fwd_kernel, acceleration_vjp_kernel
from .scan_jerk import jerk_fwd_kernel, jerk_vjp_kernel
from .start_gradients import StartGradients

# Where more is at hand at a time: three sums, three gradients in float64.
MANY_REGISTERS = 152


def acceleration_forward(
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
    """Return position, velocity, acceleration and jerk `[B, H, D]` of acceleration actions `[B, H, D]`, rad/s^2.

    Starts, `start_index`, `dt`, `out`, `tile`: as for `clique.clique_forward`.
    """
    scheme = {"SEMI_IMPLICIT": AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER}
    return scan_forward(acceleration_fwd_kernel, action, (p0, v0, a0), start_index, dt, out, tile, scheme)


def acceleration_vjp(
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int | Sequence[int],
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True),
    integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH,
    out: Tensor | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0, a0; arguments as for `clique.clique_vjp`."""
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    scheme = {"SEMI_IMPLICIT": AccelerationIntegrator(integrator) is AccelerationIntegrator.SEMI_IMPLICIT_EULER}
    return scan_vjp(
        acceleration_vjp_kernel, upstream, start_index, dt, start_rows, action_horizon, needs, out, tile, scheme
    )


def jerk_forward(
    action: Tensor,
    p0: Tensor,
    v0: Tensor | None,
    a0: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    out: Sequence[Tensor] | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of jerk actions `[B, H, D]`, rad/s^3.

    Starts, `start_index`, `dt`, `out`, `tile`: as for `clique.clique_forward`.
    """
    return scan_forward(
        jerk_fwd_kernel, action, (p0, v0, a0), start_index, dt, out, tile, {}, wide_registers=MANY_REGISTERS
    )


def jerk_vjp(
    grad_position: Tensor | None,
    grad_velocity: Tensor | None,
    grad_acceleration: Tensor | None,
    grad_jerk: Tensor | None,
    start_index: Tensor | None,
    dt: Tensor,
    *,
    start_rows: int | Sequence[int],
    action_horizon: int,
    needs: Sequence[bool] = (True, True, True, True),
    out: Tensor | None = None,
    tile: ScanTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients with respect to action, p0, v0, a0; arguments as for `clique.clique_vjp`."""
    upstream = Upstream.of(grad_position, grad_velocity, grad_acceleration, grad_jerk)
    return scan_vjp(jerk_vjp_kernel, upstream, start_index, dt, start_rows, action_horizon, needs, out, tile, {})


def scan_forward(
    kernel: object,
    action: Tensor,
    start: tuple[Tensor | None, Tensor | None, Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    out: Sequence[Tensor] | None,
    tile: ScanTile | None,
    scheme: dict[str, bool],
    wide_registers: int = 128,
) -> tuple[Tensor, ...]:
    """Launch the forward kernel of a map that sums along time."""
    batch, horizon, dof = action.shape
    trajectory = outputs(out, (batch, horizon, dof), action)
    half = action.dtype in (torch.float16, torch.bfloat16)
    registers = scan_registers(action.dtype == torch.float64, 128 if half else wide_registers)
    tile = tile or scan_tile(horizon, dof, registers)
    column_programs = -(-dof // tile.columns)
    arguments = {
        "p_action": contiguous(action),
        **start_arguments("pva", start, start_index),
        **dt_arguments(dt, batch, horizon),
        **dict(zip(("p_position", "p_velocity", "p_acceleration", "p_jerk"), trajectory, strict=True)),
        "H": horizon,
        "D": dof,
        "n_column_programs": column_programs,
        **scheme,
        "HALF": half,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
    }
    run(kernel, batch * column_programs, arguments, tile.warps, registers)
    return trajectory


def scan_vjp(
    kernel: object,
    upstream: Upstream,
    start_index: Tensor | None,
    dt: Tensor,
    start_rows: int | Sequence[int],
    action_horizon: int,
    needs: Sequence[bool],
    out: Tensor | None,
    tile: ScanTile | None,
    scheme: dict[str, bool],
    wide_registers: int = 128,
) -> tuple[Tensor | None, ...]:
    """Launch the transpose kernel of a map that sums along time."""
    like = upstream.some
    batch, horizon, dof = like.shape
    if horizon != action_horizon:
        raise ValueError(f"action_horizon: expected the horizon {horizon} of the gradients, got {action_horizon}")
    grad_action = output(out, (batch, horizon, dof), like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like)
    registers = scan_registers(like.dtype == torch.float64, wide_registers if dt.shape[1] > 1 else 128)
    tile = tile or scan_tile(horizon, dof, registers)
    column_programs = -(-dof // tile.columns)
    arguments = {
        **upstream.arguments(),
        **dt_arguments(dt, batch, horizon),
        "p_grad_action": grad_action,
        **starts.arguments("pva"),
        "H": horizon,
        "D": dof,
        "n_column_programs": column_programs,
        **scheme,
        "DOUBLE": like.dtype == torch.float64,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
    }
    if any(needs):
        run(kernel, batch * column_programs, arguments, tile.warps, registers)
    return (grad_action, *starts.gradients())
