"""One validator for the arguments of every step function."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

_ACTION_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class StepInputs(NamedTuple):
    """Arguments of one step in the reference's own form: float64, start rows gathered, dt broadcastable."""

    action: Tensor  # [B, Ha, D]
    start: tuple[Tensor, ...]  # position, velocity, acceleration (and jerk), each [1 or B, D]
    dt: Tensor  # [1 or B, 1 or H, 1], s


def prepare_step(
    action: Tensor,
    start: dict[str, Tensor | None],
    dt: float | Tensor,
    start_idx: Tensor | None,
    dt_per: str,
    *,
    uniform_dt_only: bool = False,
) -> StepInputs:
    """Check every argument of a step function by shape, dtype and device, and bring it into the reference's form.

    `start` maps argument names to tensors; the first is the start position and required. Values of tensors are not
    looked at (that would wait for the device); a `dt` given as a number is.

    Raises:
        TypeError: an argument of a wrong type or dtype.
        ValueError: an argument of a wrong shape, device or value.

    """
    _check_action(action)
    rows = [_start_rows(name, value, action, start_idx) for name, value in start.items() if value is not None]
    names = [name for name, value in start.items() if value is not None]
    if next(iter(start)) not in names:
        raise TypeError(f"{next(iter(start))}: expected a tensor, got None")
    given = dict(zip(names, rows, strict=True))
    position = given[next(iter(start))]
    gathered = tuple(given[name] if name in given else torch.zeros_like(position) for name in start)
    step = _normalize_dt(dt, action, dt_per, uniform_dt_only)
    return StepInputs(action.double(), tuple(row.double() for row in gathered), step)


def _check_action(action: Tensor) -> None:
    if not isinstance(action, Tensor):
        raise TypeError(f"action: expected a tensor, got {type(action).__name__}")
    if action.dtype not in _ACTION_DTYPES:
        raise TypeError(f"action: expected one of {', '.join(map(str, _ACTION_DTYPES))}, got {action.dtype}")
    if action.dim() != 3 or action.shape[1] < 1:
        raise ValueError(f"action: expected shape [batch, horizon >= 1, dof], got {list(action.shape)}")


def _start_rows(name: str, value: Tensor, action: Tensor, start_idx: Tensor | None) -> Tensor:
    """The start row of every trajectory, `[1 or B, D]`."""
    batch, _, dof = action.shape
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if value.dtype != action.dtype:
        raise TypeError(f"{name}: expected the action's dtype {action.dtype}, got {value.dtype}")
    if value.device != action.device:
        raise ValueError(f"{name}: expected the action's device {action.device}, got {value.device}")
    if value.dim() != 2 or value.shape[1] != dof:
        raise ValueError(f"{name}: expected shape [rows, dof = {dof}], got {list(value.shape)}")
    if start_idx is None:
        if value.shape[0] not in (1, batch):
            raise ValueError(
                f"{name}: expected 1 row, or one for each of the {batch} trajectories, or start_idx to pick from a "
                f"pool; got {value.shape[0]} rows"
            )
        return value
    if not isinstance(start_idx, Tensor) or start_idx.dtype not in (torch.int32, torch.int64):
        got = start_idx.dtype if isinstance(start_idx, Tensor) else type(start_idx).__name__
        raise TypeError(f"start_idx: expected an int32 or int64 tensor, got {got}")
    if start_idx.device != action.device:
        raise ValueError(f"start_idx: expected the action's device {action.device}, got {start_idx.device}")
    if tuple(start_idx.shape) != (batch,):
        raise ValueError(f"start_idx: expected shape [batch = {batch}], got {list(start_idx.shape)}")
    return value.index_select(0, start_idx)


def _normalize_dt(dt: float | Tensor, action: Tensor, dt_per: str, uniform_dt_only: bool) -> Tensor:
    """`dt` in float64 as `[1 or B, 1 or H, 1]`."""
    batch, horizon, _ = action.shape
    if dt_per not in ("step", "trajectory"):
        raise ValueError(f"dt_per: expected 'step' or 'trajectory', got {dt_per!r}")
    if not isinstance(dt, Tensor):
        return _number_dt(dt, action)
    if not dt.dtype.is_floating_point:
        raise TypeError(f"dt: expected a floating-point tensor, got {dt.dtype}")
    if dt.dim() > 0 and dt.device != action.device:
        raise ValueError(f"dt: expected the action's device {action.device}, got {dt.device}")
    step = dt.to(action.device).double()
    if step.dim() == 1 and dt_per == "trajectory":
        step = step[:, None]
    elif step.dim() < 2:
        step = step.reshape(1, -1)
    if step.dim() != 2 or step.shape[0] not in (1, batch) or step.shape[1] not in (1, horizon):
        raise ValueError(
            f"dt: expected a scalar, [horizon = {horizon}], [batch = {batch}, 1], [{batch}, {horizon}], or [batch] "
            f"with dt_per='trajectory'; got shape {list(dt.shape)} with dt_per={dt_per!r}"
        )
    if uniform_dt_only and step.shape[1] != 1:
        raise ValueError(
            f"dt: central differences need one step length per trajectory, a scalar or [batch = {batch}, 1]; "
            f"got shape {list(dt.shape)}"
        )
    return step[..., None]


def _number_dt(dt: float, action: Tensor) -> Tensor:
    try:
        seconds = float(dt)
    except (TypeError, ValueError):
        raise TypeError(f"dt: expected a number of seconds or a tensor, got {type(dt).__name__}") from None
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"dt: expected a finite number of seconds > 0, got {seconds}")
    return torch.full((1, 1, 1), seconds, dtype=torch.float64, device=action.device)
