"""The host side of the scans along time: launchers of the maps that sum accelerations, velocities or jerks.

A program computes all steps of one trajectory (and up to 32 joints), a block of rows at a time: within a block the
running sums are parallel along time, and the last state is carried from block to block. Any horizon is possible; if it
fits into one block, nothing is carried.

Forward sums of accelerations and jerks need more digits than float32 has: the effect of a rounding error in a velocity
grows with time, and a ten-second motion would exceed the bound of 2e-6. They are float64 where a GPU computes that at
half the rate of float32, and pairs of float32 (`pairs`) where it does so at 1/64 of it; half types do not show the
difference. Sums of velocities and suffix sums of gradients are float32, with carries that compensate their rounding
errors.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .launch import (
    ScanTile,
    Upstream,
    contiguous,
    dt_arguments,
    has_fast_double,
    output,
    outputs,
    run,
    scan_tile,
    start_arguments,
)
from .start_gradients import StartGradients

VJP_SCALARS = ("n_dt", "H", "D", "n_column_programs")
FORWARD_SCALARS = ("n_p0", "n_v0", "n_a0", *VJP_SCALARS)
FORWARD_POINTERS = (
    *("p_action", "p_idx", "p_p0", "p_v0", "p_a0", "p_dt"),
    *("p_position", "p_velocity", "p_acceleration", "p_jerk"),
)
VJP_POINTERS = (
    *("p_grad_position", "p_grad_velocity", "p_grad_acceleration", "p_grad_jerk", "p_dt"),
    *("p_grad_action", "p_grad_p0", "p_grad_v0", "p_grad_a0"),
)


def scan_forward(
    kernel: object,
    action: Tensor,
    start: tuple[Tensor | None, Tensor | None, Tensor | None],
    start_index: Tensor | None,
    dt: Tensor,
    out: Sequence[Tensor] | None,
    tile: ScanTile | None,
    scheme: dict[str, bool],
    *,
    wide: bool = False,
) -> tuple[Tensor, ...]:
    """Launch the forward kernel of a map that sums along time; `wide`: with more digits than float32 has."""
    batch, horizon, dof = action.shape
    trajectory = outputs(out, (batch, horizon, dof), action)
    tile = tile or scan_tile(horizon, dof, action.device)
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
        "SINGLE": horizon <= tile.rows,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
    }
    pairs = wide and action.dtype == torch.float32 and not has_fast_double(action.device)
    if wide:
        arguments |= {"PAIRS": pairs, "HALF": action.dtype in (torch.float16, torch.bfloat16)}
    run(kernel, batch * column_programs, arguments, tile.warps, contract=not pairs)
    return trajectory


def scan_vjp(
    kernel: object,
    upstream: Upstream,
    start_index: Tensor | None,
    dt: Tensor,
    start_rows: int,
    action_horizon: int,
    needs: Sequence[bool],
    out: Tensor | None,
    start_out: Sequence[Tensor | None] | None,
    tile: ScanTile | None,
    scheme: dict[str, bool],
) -> tuple[Tensor | None, ...]:
    """Launch the vjp kernel of a map that sums along time."""
    like = upstream.some
    batch, horizon, dof = like.shape
    if horizon != action_horizon:
        raise ValueError(f"action_horizon: expected the horizon {horizon} of the gradients, got {action_horizon}")
    grad_action = output(out, (batch, horizon, dof), like, "out") if needs[0] else None
    starts = StartGradients(needs[1:], start_rows, start_index, batch, dof, like, start_out)
    tile = tile or scan_tile(horizon, dof, like.device)
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
        "SINGLE": horizon <= tile.rows,
        "ROWS": tile.rows,
        "COLUMNS": tile.columns,
    }
    if any(needs):
        run(kernel, batch * column_programs, arguments, tile.warps)
    return (grad_action, *starts.gradients())
