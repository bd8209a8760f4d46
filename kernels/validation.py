"""Validation of the arguments of every step function."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .arguments import promoted, row_indices, step_lengths, truth_values
from .signature import Signature

_ACTION_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
_UPSTREAM_NAMES = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")
_KINDS = ("position", "velocity", "acceleration", "jerk")


class StepInputs(NamedTuple):
    """Arguments of one step in the form that the operators take."""

    action: Tensor  # [B, Ha, D]
    start: tuple[Tensor | None, ...]  # position, velocity, acceleration (and jerk), each [S, D]
    start_index: Tensor | None  # [B]; None: S is 1 or B
    dt: Tensor  # [1 or B, 1 or Ha], s, float32 or float64
    goal: tuple[Tensor | None, ...] = ()  # like start; all None: there is no goal
    goal_index: Tensor | None = None


def prepare_step(
    operator: Signature,
    action: Tensor,
    start: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    goal: Sequence[Tensor | None] = (),
    goal_index: Tensor | None = None,
    action_name: str | None = None,
) -> StepInputs:
    """Check shape, dtype and device of every argument of a step function, and convert it to the operators' form.

    `start` are the start position, velocity, acceleration and so on; all but the first may be None. `goal` are those of
    a goal, or all None. `action_name` is that of the actions in errors, if it is not the operator's. Values of
    tensors are not checked (this would wait for the device); the value of a `dt` given as a number is.
    """
    action, *ends = promoted((action, *start, *goal))
    start, goal = ends[: len(start)], ends[len(start) :]
    check_action(action, action_name or operator.action_name)
    if start[0] is None:
        raise TypeError("start_position: expected a tensor, got None")
    rows, start_index = _check_end("start", start, start_index, action)
    goal_rows = ()
    if goal:
        goal_rows, goal_index = check_goal(goal, goal_index, action)
    step = _normalize_dt(dt, tuple(action.shape[:2]), action.device, dt_per, operator.one_dt_for)
    return StepInputs(action, rows, start_index, step, goal_rows, goal_index)


def check_goal(
    goal: Sequence[Tensor | None], goal_index: Tensor | None, action: Tensor
) -> tuple[tuple[Tensor | None, ...], Tensor | None]:
    """Check goal rows and their index like those of a start; without a position, no other part may be given."""
    if goal[0] is None:
        names = (*(f"goal_{kind}" for kind in _KINDS[: len(goal)]), "goal_index")
        for name, value in zip(names, (*goal, goal_index), strict=True):
            if value is not None:
                raise ValueError(f"goal_position: expected a tensor with {name}, got None")
        return tuple(goal), None
    return _check_end("goal", goal, goal_index, action)


def check_goal_mask(mask: object, goal_rows: int, goal_index: Tensor | None, action: Tensor) -> Tensor | None:
    """Check which goal rows hold: `[goal_rows]`, or without an index also one for each trajectory; returned as bool."""
    if mask is None:
        return None
    holds = mask if isinstance(mask, Tensor) else truth_values("goal_mask", mask, action.device)
    if holds.dtype not in (torch.bool, torch.uint8):
        raise TypeError(f"goal_mask: expected a tensor of bool or uint8, got {holds.dtype}")
    if holds.device != action.device:
        raise ValueError(f"goal_mask: expected the action's device {action.device}, got {holds.device}")
    batch = action.shape[0]
    fits = holds.dim() == 1 and (holds.shape[0] == goal_rows or (goal_index is None and holds.shape[0] in (1, batch)))
    if not fits:
        own = "" if goal_index is not None else f", or [batch = {batch}]"
        raise ValueError(f"goal_mask: expected shape [goal rows = {goal_rows}]{own}, got {list(holds.shape)}")
    return holds.bool()


def _check_end(
    end: str, rows: Sequence[Tensor | None], index: Tensor | None, action: Tensor
) -> tuple[tuple[Tensor | None, ...], Tensor | None]:
    """Check the rows of start or goal, expanded to the same number, and their index."""
    for kind, row in zip(_KINDS[: len(rows)], rows, strict=True):
        if row is not None:
            _check_rows(f"{end}_{kind}", row, action)
    index = _check_index(f"{end}_index", index, action)
    return _common_rows(end, rows, action.shape[0], index), index


def prepare_vjp(
    operator: Signature,
    upstream: Sequence[Tensor | None],
    dt: float | Tensor,
    start_index: Tensor | None,
    dt_per: str,
    *,
    start_rows: int,
    action_horizon: int,
    output_horizon: int,
    goal_rows: int | None = None,
    goal_index: Tensor | None = None,
) -> tuple[Sequence[Tensor | None], Tensor | None, Tensor | None, Tensor]:
    """Check the arguments of a step's vjp as `prepare_step` checks those of a step: upstream, indices and dt."""
    upstream = promoted(upstream)
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
    start_index = _check_index("start_index", start_index, like)
    goal_index = _check_index("goal_index", goal_index, like)
    for end, rows, index in (("start", start_rows, start_index), ("goal", goal_rows, goal_index)):
        if index is None and rows not in (None, 1, batch):
            raise ValueError(f"{end}_rows: expected 1 or {batch} without {end}_index, got {rows}")
    step = _normalize_dt(dt, (batch, action_horizon), like.device, dt_per, operator.one_dt_for)
    return upstream, start_index, goal_index, step


def check_action(action: Tensor, name: str) -> None:
    """Raise TypeError or ValueError if there is something wrong with the actions, which errors call `name`."""
    _check_tensor(name, action, _ACTION_DTYPES)
    if action.dim() != 3 or action.shape[1] < 1:
        raise ValueError(f"{name}: expected shape [batch, horizon >= 1, dof], got {list(action.shape)}")


def _check_tensor(name: str, value: Tensor, dtypes: Sequence[torch.dtype]) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    if value.dtype not in dtypes:
        raise TypeError(f"{name}: expected one of {', '.join(map(str, dtypes))}, got {value.dtype}")


def _check_rows(name: str, rows: Tensor, action: Tensor) -> None:
    if not isinstance(rows, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(rows).__name__}")
    if rows.dtype != action.dtype:
        raise TypeError(f"{name}: expected the action's dtype {action.dtype}, got {rows.dtype}")
    if rows.device != action.device:
        raise ValueError(f"{name}: expected the action's device {action.device}, got {rows.device}")
    if rows.dim() != 2 or rows.shape[1] != action.shape[2]:
        raise ValueError(f"{name}: expected shape [rows, dof = {action.shape[2]}], got {list(rows.shape)}")


def _check_index(name: str, index: object, action: Tensor) -> Tensor | None:
    index = row_indices(name, index, action.device)
    if index is None:
        return None
    if index.device != action.device:
        raise ValueError(f"{name}: expected the action's device {action.device}, got {index.device}")
    if index.dim() != 1 or index.shape[0] != action.shape[0]:
        raise ValueError(f"{name}: expected shape [batch = {action.shape[0]}], got {list(index.shape)}")
    return index


def _common_rows(
    end: str, given: Sequence[Tensor | None], batch: int, index: Tensor | None
) -> tuple[Tensor | None, ...]:
    """Rows of start or goal, expanded to the same number: one for all, one for each trajectory, or a pool."""
    pool = given[0].shape[0]
    single = several = False
    for kind, rows in zip(_KINDS[: len(given)], given, strict=True):
        if rows is None:
            continue
        count = rows.shape[0]
        if index is not None:
            if count != pool:
                raise ValueError(f"{end}_{kind}: expected the {pool} rows of {end}_position's pool, got {count}")
        elif count == batch:
            several = True
        elif count == 1:
            single = True
        else:
            raise ValueError(
                f"{end}_{kind}: expected 1 row, or one for each of the {batch} trajectories, or {end}_index to pick "
                f"from a pool; got {count} rows"
            )
    if not (single and several):
        return tuple(given)
    return tuple(rows if rows is None else rows.expand(batch, -1) for rows in given)


def _normalize_dt(
    dt: float | Tensor, shape: tuple[int, int], device: torch.device, dt_per: str, one_dt_for: str | None
) -> Tensor:
    """`dt` as `[1 or B, 1 or Ha]`, float32 or float64, for actions of `shape` `(B, Ha)`."""
    batch, horizon = shape
    if dt_per not in ("step", "trajectory"):
        raise ValueError(f"dt_per: expected 'step' or 'trajectory', got {dt_per!r}")
    dt = step_lengths(dt, device)
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
    if one_dt_for is not None and step.shape[1] != 1:
        raise ValueError(
            f"dt: {one_dt_for} need one step length per trajectory, a scalar or [batch = {batch}, 1]; "
            f"got shape {list(dt.shape)}"
        )
    return step


def _number_dt(seconds: float, device: torch.device) -> Tensor:
    # On CUDA a fill is a launch, which takes a third of the time of a small call.
    traced = torch.compiler.is_compiling() or torch._C._len_torch_dispatch_stack() > 0
    if device.type == "cuda" and not traced and not torch.cuda.is_current_stream_capturing():
        return kept_dt(seconds, device)
    if torch.compiler.is_compiling():
        # torch.compile makes an input of a number that multiplies a tensor; it would compile again for each new fill.
        return torch.ones((1, 1), dtype=torch.float64, device=device) * seconds
    return torch.full((1, 1), seconds, dtype=torch.float64, device=device)


@functools.lru_cache(maxsize=256)
def kept_dt(seconds: float, device: torch.device) -> Tensor:
    """Return a step length as a tensor on a device; it is created once and must not be written to.

    It is copied synchronously, so that it is complete for any stream that reads it; and it is not an inference tensor,
    so that a later call may save it for its derivative.
    """
    with torch.inference_mode(False):
        return torch.tensor([[seconds]], dtype=torch.float64).to(device)
