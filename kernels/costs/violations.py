"""By how much trajectories exceed their limits: signed values, for optimizers that take constraints."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from ..types import Trajectory
from .terms import QuadraticCost, checked_limits


def limit_violations(trajectory: Trajectory | Sequence[Tensor], cost: QuadraticCost) -> Trajectory:
    """Return `max(x - upper, lower - x)` for every row and joint: positive beyond a limit, negative by the room left.

    `quadratic_cost` adds squares of the positive part, which vanish with their gradient at the limit. Augmented
    Lagrangian methods and SQP need the values: c <= 0 is the constraint, and `limit_weight` is not used. Differentiable
    to any order; where there is no limit the value is -inf.

    Args:
        trajectory: outputs of a map, `[B, H, D]` each.
        cost: whose limits to take (`CostTerm.lower`, `CostTerm.upper`); they need no `limit_weight` here.

    Returns:
        `[B, H, D]` for each output, in its unit, float32 at least; what has no limits takes no memory.

    Raises:
        TypeError: a limit of a wrong type or dtype, named.
        ValueError: a limit of a wrong shape or device, named.

    """
    like = trajectory[0]
    results = []
    for output, term in zip(trajectory, checked_limits(cost, like, tuple(like.shape)), strict=True):
        wide = torch.promote_types(output.dtype, torch.float32)
        if term.lower is None:
            results.append(output.new_full((), -math.inf, dtype=wide).expand(output.shape))
        else:
            x, lower, upper = output.to(wide), term.lower.to(wide), term.upper.to(wide)
            results.append(torch.maximum(x - upper, lower - x))
    return Trajectory(*results)
