"""Weights, targets and limits of a quadratic cost, and the check of their shapes."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.utils import _pytree

Number = float | Tensor
_DTYPES = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


class CostTerm(NamedTuple):
    """The cost of one output of a trajectory; None means 0. A number applies to all joints.

    With x the output, it is the sum over rows and joints of

        weight (x - target)^2 + limit_weight (max(0, x - upper)^2 + max(0, lower - x)^2)

    plus terminal_weight (x - target)^2 in the last row. Unit of the weights: that of the cost over that of the output
    squared.
    """

    weight: Number | None = None
    """`[D]`, `[H, D]` or `[B, H, D]`; H is the number of output rows."""
    target: Number | None = None
    """The same shapes, in the unit of the output."""
    terminal_weight: Number | None = None
    """`[D]` or `[B, D]`."""
    limit_weight: Number | None = None
    """`[D]`; needs a limit."""
    lower: Number | None = None
    """`[D]`, in the unit of the output; None or -inf: no limit."""
    upper: Number | None = None
    """`[D]`, in the unit of the output; None or inf: no limit."""


class QuadraticCost(NamedTuple):
    """The cost of a trajectory: the sum of the costs of its four outputs."""

    position: CostTerm = CostTerm()
    velocity: CostTerm = CostTerm()
    acceleration: CostTerm = CostTerm()
    jerk: CostTerm = CostTerm()


# torch.export can save a module that takes one.
_pytree._register_namedtuple(CostTerm, serialized_type_name="traj_integrator_ros.kernels.CostTerm")
_pytree._register_namedtuple(QuadraticCost, serialized_type_name="traj_integrator_ros.kernels.QuadraticCost")

Terms = tuple[CostTerm, CostTerm, CostTerm, CostTerm]
"""Terms of position to jerk: every field is a tensor or None; limit_weight, lower and upper are given together."""


def checked_terms(cost: QuadraticCost, like: Tensor, shape: tuple[int, int, int]) -> Terms:
    """Return the terms of a cost of `[B, H, D]` outputs as tensors on the device of `like`.

    Raises:
        TypeError: a field that is neither a number nor a floating-point tensor, named.
        ValueError: a field of a wrong shape or device, a target or limit without a weight, or a limit weight without a
            limit; named.

    """
    return tuple(_checked(name, term, like, shape) for name, term in zip(cost._fields, cost, strict=True))


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
    if limited != (values.limit_weight is not None):
        missing = "a limit_weight with the limits" if limited else "lower or upper with it"
        raise ValueError(f"{name}.limit_weight: expected {missing}, got None")
    if not limited:
        return values
    lower = values.limit_weight.new_full((dof,), -math.inf) if values.lower is None else values.lower
    upper = values.limit_weight.new_full((dof,), math.inf) if values.upper is None else values.upper
    return values._replace(lower=lower, upper=upper)


def _tensor(name: str, value: Number | None, like: Tensor, shapes: dict[int, tuple[int, ...]]) -> Tensor | None:
    if value is None:
        return None
    if not isinstance(value, Tensor):
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise TypeError(f"{name}: expected a number or a tensor, got {type(value).__name__}")
        return torch.full(shapes[1], float(value), dtype=torch.float64, device=like.device)
    if value.dtype not in _DTYPES:
        raise TypeError(f"{name}: expected one of {', '.join(map(str, _DTYPES))}, got {value.dtype}")
    if value.device != like.device:
        raise ValueError(f"{name}: expected the action's device {like.device}, got {value.device}")
    if value.dim() == 0:
        return value.expand(shapes[1])
    if tuple(value.shape) != shapes.get(value.dim()):
        expected = ", ".join(str(list(shape)) for shape in shapes.values())
        raise ValueError(f"{name}: expected a number or one of the shapes {expected}, got {list(value.shape)}")
    return value
