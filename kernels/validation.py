"""Validation of the arguments of every step function."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .arguments import promoted, row_indices, step_lengths
from .signature import KINDS, Signature
from .types import DT_PER, End, Inputs, VjpInputs, encoded_rows, first_given

FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def prepare_step(operator: Signature, given: Inputs, dt_per: str, action_name: str | None = None) -> Inputs:
    """Check shape, dtype and device of every argument of a step function, and convert it to the operators' form.

    All values except the action and the start's position may be None; dt may be anything that a caller may give.
    `action_name` is that of the actions in errors, if it is not the operator's. Values of tensors are not checked (this
    would wait for the device); the value of a `dt` given as a number is.
    """
    given = given._replace(values=promoted(given.values))
    action, (start, goal), dt = given.action, given.ends, given.dt
    name = action_name or operator.action_name
    check_action(action, name)
    if start.rows[0] is None:
        raise TypeError("start_position: expected a tensor, got None")
    start, goal = _check_end("start", start, action), check_goal(goal, action)
    steps = _normalize_dt(dt, action, action.shape[1], dt_per, operator.one_dt_for)
    return Inputs((action, *start.rows, *goal.rows), (start.index, goal.index), steps)


def prepare_vjp(
    operator: Signature,
    upstream: Sequence[Tensor | None],
    ends: dict[str, tuple[int | None, Tensor | None]],
    dt: float | Tensor,
    dt_per: str,
    horizons: tuple[int, int],
    needs: Sequence[bool],
) -> VjpInputs:
    """Check the arguments of a step's vjp as `prepare_step` checks those of a step.

    `ends` are numbers of rows and indices of start and goal; `horizons` those of actions and outputs.
    """
    upstream = promoted(upstream)
    like = first_given(upstream)
    given = {f"grad_{kind}": one for kind, one in zip(KINDS, upstream, strict=True) if one is not None}
    for name, gradient in given.items():
        check_tensor(name, gradient)
        if gradient.dim() != 3 or gradient.shape[1] != horizons[1] or gradient.shape != like.shape:
            raise ValueError(
                f"{name}: expected shape [batch, horizon = {horizons[1]}, dof], the same for all, got "
                f"{list(gradient.shape)}"
            )
        if (gradient.dtype, gradient.device) != (like.dtype, like.device):
            raise TypeError(
                f"{name}: expected {like.dtype} on {like.device} like the others, got {gradient.dtype} on "
                f"{gradient.device}"
            )
    indices = []
    for end, (rows, index) in ends.items():
        indices.append(_check_index(f"{end}_index", index, like))
        if indices[-1] is None and rows not in (None, 1, like.shape[0]):
            raise ValueError(f"{end}_rows: expected 1 or {like.shape[0]} without {end}_index, got {rows}")
    counts = encoded_rows([-1 if rows is None else rows for rows, _ in ends.values()], indices, like.shape[0])
    steps = _normalize_dt(dt, like, horizons[0], dt_per, operator.one_dt_for)
    return VjpInputs(upstream, indices, steps, counts, horizons[0], needs)


def check_action(action: Tensor, name: str) -> None:
    """Raise TypeError or ValueError if the actions are wrong; errors call them `name`."""
    check_tensor(name, action)
    if action.dim() != 3 or action.shape[1] < 1:
        raise ValueError(f"{name}: expected shape [batch, horizon >= 1, dof], got {list(action.shape)}")


def check_tensor(name: str, value: Tensor, dtypes: Sequence[torch.dtype] = FLOATS) -> None:
    """Raise TypeError if a value is no tensor of one of these dtypes."""
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: expected a tensor, got {type(value).__name__}")
    check_dense(name, value)
    if value.dtype not in dtypes:
        raise TypeError(f"{name}: expected one of {', '.join(map(str, dtypes))}, got {value.dtype}")


def check_dense(name: str, tensor: Tensor) -> None:
    """Raise TypeError if a tensor is sparse or nested."""
    if tensor.is_nested or tensor.layout is not torch.strided:
        kind = "nested" if tensor.is_nested else str(tensor.layout)
        raise TypeError(f"{name}: expected a dense tensor, got a {kind} one")


def check_device(name: str, tensor: Tensor, like: Tensor, owner: str = "action's") -> None:
    """Raise ValueError if a tensor is on another device than a second one, which errors call by its owner."""
    if tensor.device != like.device:
        raise ValueError(f"{name}: expected the {owner} device {like.device}, got {tensor.device}")


def check_goal(goal: End, action: Tensor) -> End:
    """Check goal rows and their index like those of a start; without a position, no other part may be given."""
    if goal.rows[0] is not None:
        return _check_end("goal", goal, action)
    for kind, value in zip((*KINDS[: len(goal.rows)], "index"), (*goal.rows, goal.index), strict=True):
        if value is not None:
            raise ValueError(f"goal_position: expected a tensor with goal_{kind}, got None")
    return goal


def _check_end(name: str, end: End, action: Tensor) -> End:
    """Check the rows of start or goal, and their index. The result has one row, one for each trajectory, or a pool.

    A tensor `[dof]` is one row for all trajectories, as torch broadcasts.
    """
    batch, _, dof = action.shape
    index = _check_index(f"{name}_index", end.index, action)
    rows = [row[None] if isinstance(row, Tensor) and row.dim() == 1 else row for row in end.rows]
    pool, alike = None, True
    for kind, row in zip(KINDS, rows, strict=False):
        if row is None:
            continue
        if not isinstance(row, Tensor):
            raise TypeError(f"{name}_{kind}: expected a tensor, got {type(row).__name__}")
        check_dense(f"{name}_{kind}", row)
        if row.dtype != action.dtype:
            raise TypeError(f"{name}_{kind}: expected the action's dtype {action.dtype}, got {row.dtype}")
        check_device(f"{name}_{kind}", row, action)
        if row.dim() != 2 or row.shape[1] != dof:
            raise ValueError(f"{name}_{kind}: expected shape [rows, dof = {dof}], got {list(row.shape)}")
        count = row.shape[0]
        alike = alike and pool in (None, count)
        pool = count if pool in (None, 1) else pool
        if index is not None and count not in (1, pool):
            raise ValueError(f"{name}_{kind}: expected the {pool} rows of {name}_position's pool, got {count}")
        if index is None and count != batch and count != 1:
            raise ValueError(
                f"{name}_{kind}: expected 1 row, or one for each of the {batch} trajectories, or {name}_index to pick "
                f"from a pool; got {count} rows"
            )
    if alike:
        return End(rows, index)
    return End([row if row is None else row.expand(pool, -1) for row in rows], index)


def _check_index(name: str, index: object, action: Tensor) -> Tensor | None:
    index = row_indices(name, index)
    if index is None:
        return None
    check_dense(name, index)
    check_device(name, index, action)
    if index.dim() != 1 or index.shape[0] != action.shape[0]:
        raise ValueError(f"{name}: expected shape [batch = {action.shape[0]}], got {list(index.shape)}")
    return index


def _normalize_dt(dt: float | Tensor, like: Tensor, horizon: int, dt_per: str, one_dt_for: str | None) -> Tensor:
    """`dt` as `[1 or B, 1 or Ha]`, float32 or float64, on the device of actions or gradients."""
    batch, device = like.shape[0], like.device
    if dt_per not in DT_PER:
        raise ValueError(f"dt_per: expected 'step' or 'trajectory', got {dt_per!r}")
    dt = step_lengths(dt)
    if not isinstance(dt, Tensor):
        return _number_dt(dt, device)
    check_dense("dt", dt)
    if not dt.dtype.is_floating_point:
        raise TypeError(f"dt: expected a floating-point tensor, got {dt.dtype}")
    if dt.device != device:
        if dt.dim() > 0:
            check_device("dt", dt, like)
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
    if torch.compiler.is_compiling():
        # torch.compile turns a number that multiplies a tensor into an input; it would compile again for each new fill.
        return torch.ones((1, 1), dtype=torch.float64, device=device) * seconds
    return torch.full((1, 1), seconds, dtype=torch.float64, device=device)
