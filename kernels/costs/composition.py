"""The quadratic cost in plain torch: the oracle for the fused loops, and the source of second derivatives."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..types import Trajectory
from .terms import CostTerm, Terms


def cost_of(trajectory: Trajectory | Sequence[Tensor], terms: Terms) -> Tensor:
    """Return the cost of each trajectory, `[B]`, in the dtype of the trajectory (float32 for half precisions)."""
    position = trajectory[0]
    wide = position.dtype if position.dtype in (torch.float32, torch.float64) else torch.float32
    total = position.new_zeros(position.shape[0], dtype=wide)
    for output, term in zip(trajectory, terms, strict=True):
        if any(part is not None for part in term):
            total = total + _cost_of_output(output.to(wide), term)
    return total


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
