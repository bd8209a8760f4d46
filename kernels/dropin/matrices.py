"""Matrices that differentiate, integrate, shift and interpolate a sequence by multiplication from the left.

`F` is the forward-difference matrix `[h, h]`: row i < h - 1 has -1 at i and +1 at i + 1, the last row is 0. Each
docstring has the formula of its matrix for `horizon`, or h, steps; `device` and `dtype` are those of the result. Step
lengths, s, are `[horizon]`, or one for all. What cannot be built raises a ValueError that names the argument.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .joint_state import TensorDeviceType


def build_clique_matrix(
    horizon: int, dt: Tensor | float, device: torch.device | str = "cpu", dtype: torch.dtype = torch.float32
) -> Tensor:
    """Return `[3 horizon, horizon]`, three blocks: positions shifted by one step, their velocity, their acceleration.

    The blocks are `S` (ones on the first subdiagonal), `V = diag(1 / dt) W` with `W = I - S` but `W[0, 0] = 0`, and
    `diag(1 / dt) V`.
    """
    rate = _step_lengths("dt", dt, horizon, device).reciprocal()[:, None]
    shift = torch.diag(torch.ones(_length(horizon) - 1, dtype=torch.float64, device=device), -1)
    difference = torch.eye(horizon, dtype=torch.float64, device=device) - shift
    difference[0, 0] = 0
    return torch.cat([shift, rate * difference, rate * rate * difference]).to(dtype)


def build_fd_matrix(
    horizon: int,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    order: int = 1,
    PREV_STATE: bool = False,
    FULL_RANK: bool = False,
    SHIFT: bool = False,
) -> Tensor:
    """Return a finite-difference matrix for steps of length 1: `F ** order`, `[h, h]`; or with one of the flags:

    - PREV_STATE: `-(F_n ** order)[:h]` with `n = h + order`, `[h, h + order]`: the sequence begins with `order` points
      before it.
    - FULL_RANK: negated forward differences above the middle row, a central one in it, backward ones below; for odd
      horizons >= 3. As published, every order returns the matrix of order 1.
    - SHIFT: backward differences; row 0 is 0.
    """
    _length(horizon)
    if order < 0:
        raise ValueError(f"order: expected >= 0, got {order}")
    flags = {"PREV_STATE": PREV_STATE, "FULL_RANK": FULL_RANK, "SHIFT": SHIFT}
    chosen = [name for name, value in flags.items() if value]
    if len(chosen) > 1:
        raise ValueError(f"PREV_STATE, FULL_RANK, SHIFT: expected at most one, got {', '.join(chosen)}")
    if FULL_RANK:
        return _full_rank_difference(horizon, device).to(dtype)
    difference = _forward_difference(horizon + order if PREV_STATE else horizon, device)
    if SHIFT:
        difference = difference.roll(1, 0)  # its last row, 0, becomes the first: backward differences
    matrix = torch.linalg.matrix_power(difference, order)
    # Adding 0 turns the -0 of the negated matrix into 0.
    return (matrix[:horizon].neg() + 0.0 if PREV_STATE else matrix).to(dtype)


def build_int_matrix(
    horizon: int,
    diagonal: int = 0,
    device: torch.device | str = "cpu",
    dtype: torch.dtype = torch.float32,
    order: int = 1,
    traj_dt: Tensor | float | None = None,
) -> Tensor:
    """Return the `[horizon, horizon]` matrix that sums a sequence: `T ** order`, or `(T diag(traj_dt)) ** order`.

    `T` has ones on and below `diagonal` (-1: without the current step). Gradients flow through `traj_dt`.
    """
    if order < 0:
        raise ValueError(f"order: expected >= 0, got {order}")
    ones = torch.ones(_length(horizon), horizon, dtype=torch.float64, device=device)
    matrix = ones.tril(diagonal)
    if traj_dt is not None:
        matrix = matrix * _step_lengths("traj_dt", traj_dt, horizon, device)
    return torch.linalg.matrix_power(matrix, order).to(dtype)


def build_start_state_mask(horizon: int, tensor_args: TensorDeviceType) -> tuple[Tensor, Tensor]:
    """Return `mask` `[horizon, 1]` and `n_mask` `[horizon, horizon]`: `mask p0 + n_mask u` is the position sequence.

    `mask` has its one 1 in row 0; `n_mask` has ones on the first subdiagonal.
    """
    options = tensor_args.as_torch_dict()
    mask = torch.zeros(_length(horizon), 1, **options)
    mask[0, 0] = 1
    return mask, torch.diag(torch.ones(horizon - 1, **options), -1)


def tensor_linspace(start_tensor: Tensor, end_tensor: Tensor, steps: int = 10) -> Tensor:
    """Return `start + (k / steps) (end - start)` for k = 1 .. steps: without the start, with the end.

    The points run along the last dimension where that is 1 (`[..., 1]` gives `[..., steps]`, a number `[steps]`), else
    along a new one before it (`[..., D]` gives `[..., steps, D]`).
    """
    if steps < 1:
        raise ValueError(f"steps: expected >= 1, got {steps}")
    start, end = torch.broadcast_tensors(start_tensor, end_tensor)
    fraction = torch.arange(1, steps + 1, device=start.device).to(start.dtype) / steps
    if start.dim() > 0 and start.shape[-1] != 1:
        start, end, fraction = start.unsqueeze(-2), end.unsqueeze(-2), fraction[:, None]
    return start + fraction * (end - start)


def sum_matrix(h: int, int_steps: int, tensor_args: TensorDeviceType) -> Tensor:
    """Return `[(h - 1) int_steps, h]`: every row of segment i has a 1 at column i (each value held for int_steps)."""
    matrix, _ = _segments(h, int_steps, tensor_args)
    for segment in range(h - 1):
        matrix[segment, :, segment] = 1
    return matrix.flatten(0, 1)


def interpolate_kernel(h: int, int_steps: int, tensor_args: TensorDeviceType) -> Tensor:
    """Return `[(h - 1) int_steps, h]`: segment i leads linearly from value i to value i + 1, both included."""
    if int_steps < 2:
        raise ValueError(f"int_steps: expected >= 2, the two ends of a segment, got {int_steps}")
    matrix, steps = _segments(h, int_steps, tensor_args)
    delta = steps / (int_steps - 1)
    for segment in range(h - 1):
        matrix[segment, :, segment] = 1 - delta
        matrix[segment, :, segment + 1] = delta
    return matrix.flatten(0, 1)


def action_interpolate_kernel(h: int, int_steps: int, tensor_args: TensorDeviceType, offset: int = 4) -> Tensor:
    """Return `[(h - 1) int_steps, h]`: segment i reaches value i + 1 after `int_steps - offset` rows, the rest is 0.

    The first row of a segment is already one part of the way. The last `offset` rows of the matrix have a 1 at
    column 1, as published: for h = 2 they hold the last action.
    """
    matrix, steps = _segments(h, int_steps, tensor_args)
    if not 0 <= offset < int_steps:
        raise ValueError(f"offset: expected in [0, int_steps = {int_steps}), got {offset}")
    moving = int_steps - offset
    delta = (steps[:moving] + 1) / moving
    for segment in range(h - 1):
        matrix[segment, :moving, segment] = 1 - delta
        matrix[segment, :moving, segment + 1] = delta
    matrix[-1, moving:, 1] = 1
    return matrix.flatten(0, 1)


def _forward_difference(h: int, device: torch.device | str) -> Tensor:
    # diff of the identity: row i is e[i + 1] - e[i].
    rows = torch.eye(h, dtype=torch.float64, device=device).diff(dim=0)
    return torch.cat([rows, rows.new_zeros(1, h)])


def _full_rank_difference(h: int, device: torch.device | str) -> Tensor:
    if h % 2 == 0 or h == 1:
        raise ValueError(f"horizon: expected an odd number >= 3 with FULL_RANK, got {h}")
    middle = h // 2
    forward = _forward_difference(h, device)
    matrix = forward.roll(1, 0)
    matrix[:middle] = -forward[:middle] + 0.0  # no -0
    matrix[middle] = 0
    matrix[middle, middle - 1], matrix[middle, middle + 1] = -1, 1
    return matrix


def _segments(h: int, int_steps: int, tensor_args: TensorDeviceType) -> tuple[Tensor, Tensor]:
    """Zeros `[h - 1, int_steps, h]` and the row numbers 0 .. int_steps - 1 of a segment."""
    if h < 2:
        raise ValueError(f"h: expected >= 2, the ends of one segment, got {h}")
    if int_steps < 1:
        raise ValueError(f"int_steps: expected >= 1, got {int_steps}")
    options = tensor_args.as_torch_dict()
    return torch.zeros(h - 1, int_steps, h, **options), torch.arange(int_steps, **options)


def _length(horizon: int) -> int:
    if horizon < 1:
        raise ValueError(f"horizon: expected >= 1, got {horizon}")
    return horizon


def _step_lengths(name: str, value: Tensor | float, horizon: int, device: torch.device | str) -> Tensor:
    """Step lengths as `[horizon]` in float64."""
    steps = torch.as_tensor(value, device=device).to(torch.float64).reshape(-1)
    if steps.shape[0] not in (1, _length(horizon)):
        raise ValueError(f"{name}: expected one step length or [horizon = {horizon}], got {steps.shape[0]}")
    return steps.expand(horizon)
