"""The host side of the launchers: arguments of kernels, output buffers, gradients of start pools, and the launch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ..reference_backend import collect_rows
from ..signature import KINDS
from ..types import End, Inputs, VjpInputs
from .ends import ends_kernel

OPTIONS = {"maxnreg": 255, "enable_fp_fusion": False}
"""Options of the compiler. Without a bound on the registers of a thread, it may spill some to fit one more program."""
TRAJECTORIES = 8
"""Largest number of trajectories in a program, each with a chunk: with many, few programs contain a start or a goal."""
PER_THREAD = 2
"""Number of elements of a chunk for each thread: few need few registers, so that many programs hide memory's latency.
"""
MOST_ROWS = 16
"""Number of rows of a block that is summed in float32: rounding errors grow with it."""
MANY_PROGRAMS = 2048
"""Number of groups of trajectories above which all processors are busy without a program for each chunk."""


def forward(
    kernel: object, inputs: Inputs, rows: int, out: Sequence[Tensor] | None, **options: object
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, rows, D]`, computed by a kernel.

    `out` has four contiguous buffers to write to. A kernel takes what it needs of the arguments named here and in
    `run`, which has the others.
    """
    action = inputs.action
    batch, _, dof = action.shape
    if out is not None and len(out) != 4:
        raise ValueError(f"out: expected 4 tensors, got {len(out)}")
    trajectory = [
        output_or_new(buffer, (batch, rows, dof), action, f"out[{i}]") for i, buffer in enumerate(out or [None] * 4)
    ]
    arguments = {
        "p_action": action.contiguous(),
        **{f"p_{kind}": output for kind, output in zip(KINDS, trajectory, strict=True)},
        **_state_arguments("start", inputs.ends[0]),
        **_state_arguments("goal", inputs.ends[1]),
    }
    run(kernel, action.shape, action.dtype, rows, inputs.dt, arguments | options)
    return tuple(trajectory)


def vjp(
    kernel: object,
    inputs: VjpInputs,
    rows: int,
    walked: int,
    out: Sequence[Tensor | None] | None,
    ends: dict[str, object] | None = None,
    **options: object,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `Inputs.values`, computed by a kernel; None if not needed.

    Arguments are those of `forward`; `out` has contiguous buffers for the gradients, or None, and a program loops over
    `walked` rows. With `ends`, the arguments of `ends_kernel`, that kernel computes the gradients of start and goal.
    """
    like, horizon = inputs.like, inputs.action_horizon
    for kind, gradient in zip(KINDS, inputs.upstream, strict=True):
        if gradient is not None and gradient.shape != like.shape:
            raise ValueError(f"grad_{kind}: expected shape {list(like.shape)}, got {list(gradient.shape)}")
    batch, given, dof = like.shape
    if given != rows:
        raise ValueError(f"action_horizon: expected gradients of {rows} rows for {horizon} actions, got {given}")
    out = out or [None] * len(inputs.needs)
    shape = batch, horizon, dof
    of_action = output_or_new(out[0], shape, like, "out[0]") if inputs.needs[0] else None
    results, written = zip(*(_row_gradients(inputs, end, out) for end in range(2)), strict=True)
    arguments = {f"p_grad_{kind}": _contiguous(one) for kind, one in zip(KINDS, inputs.upstream, strict=True)}
    arguments["p_grad_action"] = of_action
    for end, gradients in zip(("start", "goal"), written, strict=True):
        arguments |= {f"p_grad_{end}_{kind[0]}": one for kind, one in zip(KINDS, gradients, strict=True)}
    if of_action is not None or (ends is None and any(inputs.needs)):
        run(kernel, shape, like.dtype, walked, inputs.dt, arguments | options)
    if ends is not None and any(inputs.needs[1:]):
        run(ends_kernel, shape, like.dtype, rows, inputs.dt, arguments | ends | {"H": rows})
    for index, pool, each in zip(inputs.indices, results, written, strict=True):
        _add_up(index, pool, each)
    return (of_action, *results[0], *results[1])


def run(
    kernel: object, shape: Sequence[int], dtype: torch.dtype, walked: int, dt: Tensor, arguments: dict[str, object]
) -> None:
    """Launch a kernel, unless tensors are empty.

    Args:
        kernel: with a parameter LANES, its programs loop over chunks of the elements `[walked, D]` of some
            trajectories; with ROWS, each sums up some joints of one trajectory, a block of rows at a time; other
            kernels compute little, for some joints of some trajectories.
        shape: shape of the actions, `[B, Ha, D]`.
        dtype: dtype of the actions.
        walked: see `kernel`.
        dt: `[1 or B, 1 or Ha]` s.
        arguments: arguments of the kernel, and others. `edges` are the first element of a trajectory that does not
            depend on the start any more, and the first one that depends on the end.

    """
    batch, horizon, dof = shape
    if dt.dim() != 2 or dt.shape[0] not in (1, batch) or dt.shape[1] not in (1, horizon):
        raise ValueError(f"dt: expected shape [1 or {batch}, 1 or {horizon}], got {list(dt.shape)}")
    size, columns = program_size(dt.device), min(_power_of_two(dof), 32)
    found = {
        "p_dt": dt.contiguous(),
        "n_dt_batch": dt.shape[1] if dt.shape[0] > 1 else 0,
        "UNIFORM": dt.shape[1] == 1,
        "SHARED_DT": dt.shape[0] == 1,
        "n_batch": batch,
        "Ha": horizon,
        "D": dof,
        "COLUMNS": columns,
        "WIDE": dtype == torch.float64,
    }
    if "ROWS" in kernel.arg_names:
        most = horizon if found["WIDE"] else MOST_ROWS
        found["ROWS"] = min(max(size // (2 * columns), 1), _power_of_two(min(most, horizon)))
        programs, warps = (batch, -(-dof // columns)), 1
    elif "LANES" in kernel.arg_names:
        elements = walked * dof
        lanes = min(_power_of_two(elements), max(size // TRAJECTORIES, 1))
        chunks, trajectories = -(-elements // lanes), max(size // lanes, 1)
        first, end = arguments.get("edges") or (0, elements)
        head = min(-(-first // lanes), chunks)
        inner = max((chunks if end >= elements else end // lanes) - head, 0)
        edge = chunks - inner
        found |= {"LANES": lanes, "TRAJECTORIES": trajectories, "n_head": head, "n_inner": inner, "n_edge": edge}
        groups = -(-batch // trajectories)
        programs = (groups, 1 if groups > MANY_PROGRAMS else max(edge, inner))
        warps = max(size // (32 * PER_THREAD), 1)
    else:
        lanes = size // 4
        found["TRAJECTORIES"] = max(lanes // columns, 1)
        programs, warps = (-(-batch // found["TRAJECTORIES"]), -(-dof // columns)), max(lanes // 32, 1)
    if min(programs) > 0 and walked > 0:
        found = arguments | found
        launch(kernel, programs, {name: found[name] for name in kernel.arg_names}, warps)


def launch(kernel: object, programs: tuple[int, ...], arguments: dict[str, object], warps: int) -> None:
    """Start programs of a kernel, along up to three axes, on the device of its tensors.

    Raises:
        ValueError: the tensors are not where Triton can reach them.

    """
    tensors = [value for value in arguments.values() if isinstance(value, Tensor)]
    device = tensors[0].device
    for tensor in tensors:
        if tensor.device != device:
            raise ValueError(f"all tensors: expected on {device}, got one on {tensor.device}")
    if device.type != "cuda" and type(kernel).__name__ != "InterpretedFunction":
        raise ValueError(f"all tensors: expected on a CUDA device (or TRITON_INTERPRET=1), got {device}")
    with torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext():
        kernel[programs](**arguments, num_warps=warps, **OPTIONS)


def program_size(device: torch.device) -> int:
    """Return the number of elements of a program that loops; a block of rows of one that sums has half as many.

    The time of the interpreter depends on the number of programs, not on their size.
    """
    return 8192 if device.type == "cpu" else 256


def output_or_new(buffer: Tensor | None, shape: Sequence[int], like: Tensor, name: str) -> Tensor:
    """Return the caller's contiguous buffer, or a new tensor; no buffer is broadcast to or resized.

    Raises ValueError, which names it, for a buffer of another shape, or of another dtype or device than `like`.
    """
    if buffer is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    got = (tuple(buffer.shape), buffer.dtype, buffer.device)
    if got != (tuple(shape), like.dtype, like.device) or not buffer.is_contiguous():
        raise ValueError(
            f"{name}: expected a contiguous {like.dtype} tensor of shape {list(shape)} on {like.device}, got "
            f"{buffer.dtype}, {list(buffer.shape)}, strides {list(buffer.stride())} on {buffer.device}"
        )
    return buffer


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _state_arguments(name: str, end: End) -> dict[str, Tensor | int | None]:
    """Kernel arguments `p_<name>_p` to `p_<name>_j`, `n_<name>` (rows) and `p_<name>_index`."""
    rows = {f"p_{name}_{kind[0]}": _contiguous(row) for kind, row in zip(KINDS, end.rows, strict=True)}
    return {**rows, f"n_{name}": max(end.count, 1), f"p_{name}_index": _contiguous(end.index)}


def _row_gradients(
    inputs: VjpInputs, end: int, out: Sequence[Tensor | None]
) -> tuple[list[Tensor | None], list[Tensor | None]]:
    """Gradients of the rows of start (0) or goal (1), `[S, D]`, and `[B, D]` where a kernel writes them."""
    of_end, name = slice(1 + 4 * end, 5 + 4 * end), ("start", "goal")[end]
    needs, index, rows, like = inputs.needs[of_end], inputs.indices[end], inputs.rows[end], inputs.like
    batch, _, dof = like.shape
    if any(needs) and index is None and rows not in (1, batch):
        raise ValueError(f"{name}_rows: expected 1 or {batch} without {name}_index, got {rows}")
    results = [
        output_or_new(buffer, (rows, dof), like, f"out[{of_end.start + i}]") if needed else None
        for i, (needed, buffer) in enumerate(zip(needs, out[of_end], strict=True))
    ]
    if index is None and rows == batch:
        return results, results
    dtype = torch.float64 if like.dtype == torch.float64 else torch.float32
    return results, [torch.empty(batch, dof, dtype=dtype, device=like.device) if needed else None for needed in needs]


def _add_up(index: Tensor | None, results: list[Tensor | None], written: list[Tensor | None]) -> None:
    """Sum the rows of trajectories that share a start or goal, in float64, and always in the same order."""
    for result, rows in zip(results, written, strict=True):
        if rows is result:
            continue
        rows, pool = rows.double(), len(result)
        if index is not None:
            inside = ((index >= 0) & (index < pool))[:, None]
            rows = torch.where(inside, rows, 0.0)  # trajectories that start outside of the pool count nowhere
        result.copy_(collect_rows(rows, None if index is None else index.clamp(0, pool - 1), pool, rows))


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
