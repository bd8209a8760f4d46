"""Weights, targets and limits of a quadratic cost, their check, and their cost in plain torch.

`cost_of` is the oracle for the fused loops.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

from ..arguments import values_hidden
from ..types import Trajectory
from ..validation import check_device, check_tensor

Number = float | Tensor


class CostTerm(NamedTuple):
    """The cost of one output of a trajectory; None means 0. A number applies to all joints.

    With x the output, it is the sum over rows and joints of

        weight (x - target)^2 + limit_weight (max(0, x - upper)^2 + max(0, lower - x)^2)

    plus terminal_weight (x - target)^2 in the last row. Unit of the weights: the cost's over the output's
    squared.
    """

    weight: Number | None = None
    """Weight of squared deviations, `[D]`, `[H, D]` or `[B, H, D]`; H is the number of output rows."""
    target: Number | None = None
    """Target of the output, in its unit and in the same shapes."""
    terminal_weight: Number | None = None
    """Weight of the squared deviation in the last row, `[D]` or `[B, D]`."""
    limit_weight: Number | None = None
    """Weight of squared violations, `[D]`, which requires a limit. Limits without it are for `limit_violations` alone.
    """
    lower: Number | None = None
    """Lower limit, `[D]`, in the unit of the output; None or -inf: no limit."""
    upper: Number | None = None
    """Upper limit, `[D]`, in the unit of the output; None or inf: no limit."""


class QuadraticCost(NamedTuple):
    """The cost of a trajectory: the sum of the costs of its four outputs, and of its duration."""

    position: CostTerm = CostTerm()
    velocity: CostTerm = CostTerm()
    acceleration: CostTerm = CostTerm()
    jerk: CostTerm = CostTerm()
    duration_weight: Number | None = None
    """Weight of the time from the start to the last row, s: a number, or `[B]`. It contributes to the gradient of dt.
    """

    @property
    def outputs(self) -> tuple[CostTerm, CostTerm, CostTerm, CostTerm]:
        """The terms of position, velocity, acceleration and jerk."""
        return self[:4]


# torch.export can save a module that takes a cost as an argument.
_pytree._register_namedtuple(CostTerm, serialized_type_name="traj_integrator_ros.kernels.CostTerm")
_pytree._register_namedtuple(QuadraticCost, serialized_type_name="traj_integrator_ros.kernels.QuadraticCost")

_NUMBERS = {float, int, type(None)}

Terms = tuple[CostTerm, CostTerm, CostTerm, CostTerm]
"""Terms of position, velocity, acceleration and jerk, whose fields are tensors or None; limits are both given or None.
"""


def limit_violations(trajectory: Trajectory | Sequence[Tensor], cost: QuadraticCost) -> Trajectory:
    """Return `max(x - upper, lower - x)` for every row and joint: positive beyond a limit, negative by the room left.

    `quadratic_cost` adds squares of the positive part, which vanish with their gradient at the limit. Augmented
    Lagrangian methods and SQP need the values themselves, with the constraint c <= 0; `limit_weight` is not used. The
    values are differentiable to any order, and -inf where there is no limit.

    Args:
        trajectory: outputs of a map, `[B, H, D]` each.
        cost: has the limits (`CostTerm.lower`, `CostTerm.upper`), which need no `limit_weight` here.

    Returns:
        `[B, H, D]` for each output, in its unit, float32 at least; an output without limits takes no memory.

    Raises:
        TypeError: a limit of a wrong type or dtype, named.
        ValueError: a limit of a wrong shape or device, named.

    """
    like = trajectory[0]
    results = []
    for output, term in zip(trajectory, checked_terms(cost, like, tuple(like.shape)), strict=True):
        wide = torch.promote_types(output.dtype, torch.float32)
        if term.lower is None:
            results.append(output.new_full((), -math.inf, dtype=wide).expand(output.shape))
        else:
            x, lower, upper = output.to(wide), term.lower.to(wide), term.upper.to(wide)
            results.append(torch.maximum(x - upper, lower - x))
    return Trajectory(*results)


def cost_of(trajectory: Trajectory | Sequence[Tensor], terms: Terms) -> Tensor:
    """Return the cost of each trajectory, `[B]`, in the dtype of the trajectory (float32 for half precisions)."""
    position = trajectory[0]
    wide = position.dtype if position.dtype in (torch.float32, torch.float64) else torch.float32
    total = position.new_zeros(position.shape[0], dtype=wide)
    for output, term in zip(trajectory, terms, strict=True):
        if any(part is not None for part in term):
            total = total + _cost_of_output(output.to(wide), term)
    return total


def checked_terms(cost: QuadraticCost, like: Tensor, shape: tuple[int, int, int]) -> Terms:
    """Return the terms of a cost of `[B, H, D]` outputs as tensors on the device of `like`."""
    pairs = zip(cost._fields, cost.outputs, strict=False)
    if values_hidden():
        return tuple(_checked(name, term, like, shape) for name, term in pairs)
    return tuple(
        _of_numbers(name, term, like.device, shape[2])
        if _NUMBERS.issuperset(map(type, term))
        else _checked(name, term, like, shape)
        for name, term in pairs
    )


def checked_duration_weight(cost: QuadraticCost, like: Tensor) -> Tensor | None:
    """Return the weight of the duration, `[1]` or `[B]`."""
    return _tensor("duration_weight", cost.duration_weight, like, {1: (like.shape[0],)})


def _cost_of_output(output: Tensor, given: CostTerm) -> Tensor:
    term = CostTerm(*(part if part is None else part.to(output.dtype) for part in given))
    total = output.new_zeros(output.shape[0])
    if term.weight is not None or term.terminal_weight is not None:
        error = output if term.target is None else output - term.target
        if term.weight is not None:
            total = total + (term.weight * error.square()).sum((1, 2))
        if term.terminal_weight is not None:
            total = total + (term.terminal_weight * error[:, -1].square()).sum(1)
    if term.limit_weight is not None:
        outside = (output - term.upper).relu().square() + (term.lower - output).relu().square()
        total = total + (term.limit_weight * outside).sum((1, 2))
    return total


@functools.lru_cache(maxsize=256)
def _of_numbers(name: str, term: CostTerm, device: torch.device, dof: int) -> CostTerm:
    """`_checked` for a term without tensors, whose result serves every later call."""
    with torch.inference_mode(False):
        return _checked(name, term, torch.empty(0, device=device), (0, 0, dof))


def _checked(name: str, term: CostTerm, like: Tensor, shape: tuple[int, int, int]) -> CostTerm:
    batch, horizon, dof = shape
    rows = {1: (dof,), 2: (horizon, dof), 3: (batch, horizon, dof)}
    ends = {1: (dof,), 2: (batch, dof)}
    joints = {1: (dof,)}
    places = zip(term._fields, term, (rows, rows, ends, joints, joints, joints), strict=True)
    values = CostTerm(*(_tensor(f"{name}.{field}", value, like, known) for field, value, known in places))
    if values.target is not None and values.weight is None and values.terminal_weight is None:
        raise ValueError(f"{name}.target: expected a weight or a terminal_weight with it, got None")
    limited = values.lower is not None or values.upper is not None
    if values.limit_weight is not None and not limited:
        raise ValueError(f"{name}.limit_weight: expected lower or upper with it, got None")
    if not limited:
        return values
    given = values.upper if values.lower is None else values.lower
    lower = torch.full_like(given, -math.inf) if values.lower is None else values.lower
    upper = torch.full_like(given, math.inf) if values.upper is None else values.upper
    return values._replace(lower=lower, upper=upper)


def _tensor(name: str, value: Number | None, like: Tensor, shapes: dict[int, tuple[int, ...]]) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, Tensor):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name}: expected a number or a tensor, got {type(value).__name__}")
        return torch.full(shapes[1], float(value), dtype=torch.float64, device=like.device)
    check_tensor(name, value)
    check_device(name, value, like)
    if value.dim() == 0:
        return value.expand(shapes[1])
    if tuple(value.shape) != shapes.get(value.dim()):
        expected = ", ".join(str(list(shape)) for shape in shapes.values())
        raise ValueError(f"{name}: expected a number or one of the shapes {expected}, got {list(value.shape)}")
    return value
