"""The host side of the launchers: arguments of kernels, output buffers, gradients of start pools, and the launch."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import torch
from torch import Tensor

from ..reference_backend import collect_rows
from ..signature import KINDS
from ..types import End, Inputs, VjpInputs

REGISTERS = 255
"""Bound for each thread: without one, the compiler may spill registers to fit one more program."""


def forward(
    kernel: object, inputs: Inputs, rows: int, out: Sequence[Tensor] | None, **options: object
) -> tuple[Tensor, ...]:
    """Return position, velocity, acceleration and jerk `[B, rows, D]`, computed by a kernel.

    `out` has four contiguous buffers to write to. A kernel takes what it needs of the arguments named here and in
    `run`; `options` are the others.
    """
    action = inputs.action
    batch, _, dof = action.shape
    if out is not None and len(out) != 4:
        raise ValueError(f"out: expected 4 tensors, got {len(out)}")
    trajectory = [
        _output(buffer, (batch, rows, dof), action, f"out[{i}]") for i, buffer in enumerate(out or [None] * 4)
    ]
    arguments = {
        "p_action": action.contiguous(),
        **{f"p_{kind}": output for kind, output in zip(KINDS, trajectory, strict=True)},
        **_state_arguments("start", inputs.ends[0]),
        **_state_arguments("goal", inputs.ends[1]),
    }
    run(kernel, action.shape, rows, inputs.dt, arguments | options)
    return tuple(trajectory)


def vjp(
    kernel: object, inputs: VjpInputs, rows: int, walked: int, out: Sequence[Tensor | None] | None, **options: object
) -> tuple[Tensor | None, ...]:
    """Return the gradients of `Inputs.values`, computed by a kernel; None if not needed.

    As `forward`; `out` has contiguous buffers for the gradients, or None, and a program walks over `walked` rows.
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
    of_action = _output(out[0], shape, like, "out[0]") if inputs.needs[0] else None
    results, written = zip(*(_row_gradients(inputs, end, out) for end in range(2)), strict=True)
    arguments = {f"p_grad_{kind}": _contiguous(one) for kind, one in zip(KINDS, inputs.upstream, strict=True)}
    arguments["p_grad_action"] = of_action
    for end, gradients in zip(("start", "goal"), written, strict=True):
        arguments |= {f"p_grad_{end}_{kind[0]}": one for kind, one in zip(KINDS, gradients, strict=True)}
    if any(inputs.needs):
        run(kernel, shape, walked, inputs.dt, arguments | options)
    for index, pool, each in zip(inputs.indices, results, written, strict=True):
        _add_up(index, pool, each)
    return (of_action, *results[0], *results[1])


def run(kernel: object, shape: Sequence[int], walked: int, dt: Tensor, arguments: dict[str, object]) -> None:
    """Launch a kernel; nothing where tensors are empty.

    Args:
        kernel: with a parameter LANES, its programs walk over the elements of `[B, walked, D]`; with ROWS and COLUMNS,
            each scans some joints of a trajectory, a block of rows at a time.
        shape: of the actions, `[B, Ha, D]`.
        walked: see `kernel`.
        dt: `[1 or B, 1 or Ha]` s.
        arguments: of the kernel, and others.

    """
    batch, horizon, dof = shape
    if dt.dim() != 2 or dt.shape[0] not in (1, batch) or dt.shape[1] not in (1, horizon):
        raise ValueError(f"dt: expected shape [1 or {batch}, 1 or {horizon}], got {list(dt.shape)}")
    lanes = program_size(dt.device)
    columns = min(_power_of_two(dof), 32)
    column_programs = -(-dof // columns)
    scans = "ROWS" in kernel.arg_names
    programs = batch * column_programs if scans else -(-batch * walked * dof // lanes)
    if programs == 0:
        return
    arguments |= {
        "p_dt": dt.contiguous(),
        "n_dt_batch": dt.shape[1] if dt.shape[0] > 1 else 0,
        "n_dt_row": int(dt.shape[1] > 1),
        "n_batch": batch,
        "Ha": horizon,
        "D": dof,
        "n_column_programs": column_programs,
        "LANES": lanes,
        "ROWS": max(lanes // (2 * columns), 1),
        "COLUMNS": columns,
    }
    taken = {name: arguments[name] for name in kernel.arg_names}
    launch(kernel, programs, taken, warps=1 if scans else lanes // 32)


def launch(kernel: object, programs: int, arguments: dict[str, object], warps: int) -> None:
    """Start programs of a kernel on the device of its tensors.

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
        kernel[(programs,)](**arguments, num_warps=warps, maxnreg=REGISTERS)


def program_size(device: torch.device) -> int:
    """Elements of a program that walks; a block of rows of one that scans has half as many, for registers to last.

    The time of the interpreter depends on the number of programs, not on their size.
    """
    return 1024 if device.type == "cpu" else 256


def _output(buffer: Tensor | None, shape: tuple[int, ...], like: Tensor, name: str) -> Tensor:
    """Return the caller's contiguous buffer, checked, or a new tensor."""
    if buffer is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    got = (tuple(buffer.shape), buffer.dtype, buffer.device)
    if got != (shape, like.dtype, like.device) or not buffer.is_contiguous():
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
        _output(buffer, (rows, dof), like, f"out[{of_end.start + i}]") if needed else None
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
            rows = torch.where(inside, rows, 0.0)  # what starts outside of the pool counts nowhere
        result.copy_(collect_rows(rows, None if index is None else index.clamp(0, pool - 1), pool, rows))


def _power_of_two(number: int) -> int:
    return 1 << max(number - 1, 0).bit_length()
