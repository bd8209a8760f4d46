"""One validator for the arguments of every step function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

_ACTION_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_UPSTREAM_NAMES = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")
_START_NAMES = ("start_position", "start_velocity", "start_acceleration", "start_jerk")


class StepInputs(NamedTuple):
    """Arguments of one step in the form that the operators take."""

    action: Tensor  # [B, Ha, D]
    start: tuple[Tensor | None, ...]  # position, velocity, acceleration (and jerk), each [S, D]
    start_index: Tensor | None  # [B]; None: S is 1 or B
    dt: Tensor  # [1 or B, 1 or Ha], s, float32 or float64


def prepare_step(
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    *,
    uniform_dt_only: bool = False,
) -> StepInputs:
    """Check every argument of a step function by shape, dtype and device, and bring it into the operators' form.

    `start` are the start position, velocity, acceleration and so on; all but the first may be None. Values of tensors
    are not looked at (that would wait for the device); a `dt` given as a number is.

    Raises:
        TypeError: an argument of a wrong type or dtype.
        ValueError: an argument of a wrong shape, device or value.

    """
    _check_action(action)
    if start[0] is None:
        raise TypeError("start_position: expected a tensor, got None")
    for name, rows in zip(_START_NAMES[: len(start)], start, strict=True):
        if rows is not None:
            _check_start(name, rows, action)
    if start_index is not None:
        _check_start_index(start_index, action)
    rows = _common_rows(start, action.shape[0], start_index)
    step = _normalize_dt(dt, tuple(action.shape[:2]), action.device, dt_per, uniform_dt_only)
    return StepInputs(action, rows, start_index, step)


class VjpInputs(NamedTuple):
    """Arguments of a transposed step in the form that the operators take."""

    upstream: tuple[Tensor | None, ...]  # position, velocity, acceleration, jerk, each [B, H, D]
    start_index: Tensor | None  # [B]; None: the start has 1 row or B
    dt: Tensor  # [1 or B, 1 or Ha], s, float32 or float64


def prepare_vjp(
    upstream: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    *,
    start_rows: int,
    action_horizon: int,
    output_horizon: int,
    uniform_dt_only: bool = False,
) -> VjpInputs:
    """Check the arguments of a transposed step as `prepare_step` checks those of a step.

    Raises:
        TypeError: an argument of a wrong type or dtype.
        ValueError: an argument of a wrong shape, device or value; no gradient at all.

    """
    given = [(name, gradient) for name, gradient in zip(_UPSTREAM_NAMES, upstream, strict=True) if gradient is not None]
    if not given:
        raise ValueError("upstream: expected at least one tensor, got None for all four")
    like = given[0][1]
    for name, gradient in given:
        _check_tensor(name, gradient, _ACTION_DTYPES)
        if gradient.dim() != 3 or gradient.shape[1] != output_horizon or gradient.shape != like.shape:
            raise ValueError(
                f"{name}: expected shape [batch, horizon = {output_horizon}, dof], the same for all, got "
                f"{list(gradient.shape)}"
            )
        if (gradient.dtype, gradient.device) != (like.dtype, like.device):
            raise TypeError(
                f"{name}: expected {like.dtype} on {like.device} like the others, got {gradient.dtype} on "
                f"{gradient.device}"
            )
    batch = like.shape[0]
    if start_index is not None:
        _check_start_index(start_index, like)
    elif start_rows not in (1, batch):
        raise ValueError(f"start_rows: expected 1 or {batch} without start_index, got {start_rows}")
    step = _normalize_dt(dt, (batch, action_horizon), like.device, dt_per, uniform_dt_only)
    return VjpInputs(tuple(upstream), start_index, step)


def _check_action(action: Tensor) -> None:
    _check_tensor("action", action, _ACTION_DTYPES)
    if action.dim() != 3 or action.shape[1] < 1:
        raise ValueError(f"action: expected shape [batch, horizon >= 1, dof], got {list(action.shape)}")


def _check_tensor(name: str, value: Tensor, dtypes: Sequence[torch.dtype]) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if value.dtype not in dtypes:
        raise TypeError(f"{name}: expected one of {', '.join(map(str, dtypes))}, got {value.dtype}")


def _check_start(name: str, rows: Tensor, action: Tensor) -> None:
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(rows).__name__}")
    if rows.dtype != action.dtype:
        raise TypeError(f"{name}: expected the action's dtype {action.dtype}, got {rows.dtype}")
    if rows.device != action.device:
        raise ValueError(f"{name}: expected the action's device {action.device}, got {rows.device}")
    if rows.dim() != 2 or rows.shape[1] != action.shape[2]:
        raise ValueError(f"{name}: expected shape [rows, dof = {action.shape[2]}], got {list(rows.shape)}")


def _check_start_index(start_index: Tensor, action: Tensor) -> None:
    if not isinstance(start_index, Tensor) or start_index.dtype not in (torch.int32, torch.int64):
        got = start_index.dtype if isinstance(start_index, Tensor) else type(start_index).__name__
        raise TypeError(f"start_index: expected an int32 or int64 tensor, got {got}")
    if start_index.device != action.device:
        raise ValueError(f"start_index: expected the action's device {action.device}, got {start_index.device}")
    if start_index.dim() != 1 or start_index.shape[0] != action.shape[0]:
        raise ValueError(f"start_index: expected shape [batch = {action.shape[0]}], got {list(start_index.shape)}")


def _common_rows(start: Sequence[Tensor | None], batch: int, start_index: Tensor | None) -> tuple[Tensor | None, ...]:
    """The start rows, brought to the same number of rows: one for all, one for each trajectory, or a pool."""
    pool = start[0].shape[0]
    single = several = False
    for name, rows in zip(_START_NAMES[: len(start)], start, strict=True):
        if rows is None:
            continue
        count = rows.shape[0]
        if start_index is not None:
            if count != pool:
                raise ValueError(f"{name}: expected the {pool} rows of start_position's pool, got {count}")
        elif count == batch:
            several = True
        elif count == 1:
            single = True
        else:
            raise ValueError(
                f"{name}: expected 1 row, or one for each of the {batch} trajectories, or start_index to pick from a "
                f"pool; got {count} rows"
            )
    if not (single and several):
        return tuple(start)
    return tuple(rows if rows is None else rows.expand(batch, -1) for rows in start)


def _normalize_dt(
    dt: float | Tensor, shape: tuple[int, int], device: torch.device, dt_per: str, uniform_dt_only: bool
) -> Tensor:
    """`dt` as `[1 or B, 1 or Ha]`, float32 or float64, for actions of `shape` `(B, Ha)`."""
    batch, horizon = shape
    if dt_per not in ("step", "trajectory"):
        raise ValueError(f"dt_per: expected 'step' or 'trajectory', got {dt_per!r}")
    if not isinstance(dt, Tensor):
        return _number_dt(dt, device)
    if not dt.dtype.is_floating_point:
        raise TypeError(f"dt: expected a floating-point tensor, got {dt.dtype}")
    if dt.device != device:
        if dt.dim() > 0:
            raise ValueError(f"dt: expected the action's device {device}, got {dt.device}")
        dt = dt.to(device)
    step = dt if dt.dtype in (torch.float32, torch.float64) else dt.float()
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
    return step


def _number_dt(dt: float, device: torch.device) -> Tensor:
    try:
        seconds = float(dt)
    except (TypeError, ValueError):
        raise TypeError(f"dt: expected a number of seconds or a tensor, got {type(dt).__name__}") from None
    if not (seconds > 0 and math.isfinite(seconds)):
        raise ValueError(f"dt: expected a finite number of seconds > 0, got {seconds}")
    return torch.full((1, 1), seconds, dtype=torch.float64, device=device)
