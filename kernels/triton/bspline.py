"""B-splines between two states, and their vjp: launchers.

Extended control points c are those that represent the start, the given ones, and those that represent the goal or
repeat the last one. With the weights of `splines/weights.py`, row k of segment i is

    out_q = sum_m W_q[k, m] (Delta^q c)[i + m] / h^q,      m = 0 .. K - q,   q = 0 (position) .. 3 (jerk)

Differences are taken in float64, where those of float32 points are exact; the weights of the remaining sum are all
positive.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..splines.form import SplineForm
from ..splines.weights import STATE_WEIGHTS, row_weights
from ..types import End, Inputs, VjpInputs
from .bspline_fwd import bspline_fwd_kernel
from .bspline_vjp import bspline_vjp_kernel
from .launch import FlatTile, Upstream, contiguous, one_dt_arguments, output, outputs, programs_for, run
from .start_gradients import StartGradients

_NAMES = ("position", "velocity", "acceleration", "jerk")
# Bound on registers per thread: at least two programs of 256 threads fit on a multiprocessor at a time.
_REGISTERS = 128


def bspline_forward(
    inputs: Inputs, *, form: SplineForm, out: Sequence[Tensor] | None = None, tile: FlatTile | None = None
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, H, D]` of control points `[B, n, D]`, rad.

    Arguments as for `chain.clique_forward`; dt is `[1 or B, 1]`.
    """
    action, dt, (start, goal) = inputs.action, inputs.dt, inputs.ends
    batch, points, dof = action.shape
    rows = form.rows(points)
    trajectory = outputs(out, (batch, rows, dof), action)
    elements = batch * rows * dof
    tile = tile or _tile(action)
    has_goal = goal.rows[0] is not None
    arguments = {
        "p_action": contiguous(action),
        **_state_arguments("start", start),
        **_state_arguments("goal", goal),
        **_shape_arguments(form, points, has_goal, dt, batch),
        "p_weights": _tables(form, action.device)[0],
        **{f"p_{name}": tensor for name, tensor in zip(_NAMES, trajectory, strict=True)},
        "n_batch": batch,
        "D": dof,
        "HAS_JERK": form.has_jerk,
        "DTYPE": _arithmetic(action.dtype),
        "LANES": tile.lanes,
    }
    registers = 2 * _REGISTERS - 1 if action.dtype == torch.float64 else _REGISTERS
    run(bspline_fwd_kernel, programs_for(elements, tile.lanes), arguments, tile.warps, registers)
    return trajectory


def bspline_vjp(
    inputs: VjpInputs,
    *,
    form: SplineForm,
    out: Sequence[Tensor | None] | None = None,
    tile: FlatTile | None = None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of control points, start and goal rows, None where not needed.

    Arguments as for `chain.clique_vjp`.
    """
    upstream, like, dt = Upstream.of(*inputs.upstream), inputs.like, inputs.dt
    needs, action_horizon = inputs.needs, inputs.action_horizon
    batch, rows, dof = like.shape
    if rows != form.rows(action_horizon):
        raise ValueError(
            f"action_horizon: expected gradients of {form.rows(action_horizon)} rows for {action_horizon} control "
            f"points, got {rows}"
        )
    has_goal = inputs.rows[1] >= 0
    elements = batch * action_horizon * dof
    tile = tile or _tile(like)
    grad_action = output(out and out[0], (batch, action_horizon, dof), like, "out[0]") if needs[0] else None
    starts, goals = (StartGradients(inputs, end, out) for end in range(2))
    wants_ends = any(needs) and ((needs[0] and not has_goal) or any(needs[1:]))
    interior = programs_for(elements, tile.lanes) if needs[0] else 0
    groups = programs_for(batch * dof, tile.lanes) if wants_ends else 0
    each = -(-interior // max(groups, 1))
    programs = groups * (each + 1) if groups else interior
    _, derivatives, states = _tables(form, like.device)
    arguments = {
        **upstream.arguments(),
        **_shape_arguments(form, action_horizon, has_goal, dt, batch),
        "p_weights": derivatives,
        "p_states": states,
        "p_grad_action": grad_action,
        **starts.arguments("pvaj", "p_grad_start_{}"),
        **goals.arguments("pvaj", "p_grad_goal_{}"),
        "n_batch": batch,
        "D": dof,
        "n_group": each + 1 if groups else 0,
        "LANES": tile.lanes,
    }
    run(bspline_vjp_kernel, programs, arguments, tile.warps, _REGISTERS)
    return (grad_action, *starts.gradients(), *goals.gradients())


def _tile(like: Tensor) -> FlatTile:
    """Size of a program: one element for each thread, more of them for the interpreter."""
    return FlatTile(1024 if like.device.type == "cpu" else 256, 8)


def _state_arguments(name: str, end: End) -> dict[str, Tensor | int | None]:
    """Kernel arguments `p_<name>_p` to `p_<name>_j`, `n_<name>` (rows) and `p_<name>_index`."""
    rows = {f"p_{name}_{kind}": contiguous(row) for kind, row in zip("pvaj", end.rows, strict=True)}
    return {**rows, f"n_{name}": 1 if end.count < 0 else end.count, f"p_{name}_index": contiguous(end.index)}


def _shape_arguments(form: SplineForm, points: int, has_goal: bool, dt: Tensor, batch: int) -> dict[str, object]:
    return {
        **one_dt_arguments(dt, batch),
        "n_points": points,
        "n_used": form.used(points, has_goal),
        "n_segments": form.segments(points),
        "n_steps": form.steps,
        "K": form.degree,
        "HEAD": form.head,
        "HAS_GOAL": has_goal,
    }


def _arithmetic(dtype: torch.dtype) -> object:
    import triton.language as tl

    return tl.float64 if dtype == torch.float64 else tl.float32


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
