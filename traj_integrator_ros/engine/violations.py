"""By how much integrated trajectories exceed limits: `kernels.limit_violations` for arrays."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from ..kernels import CostTerm, QuadraticCost, limit_violations


def violations_of(trajectories: np.ndarray, limits: QuadraticCost) -> tuple[np.ndarray | None, ...]:
    """Return `max(x - upper, lower - x)` for position to jerk.

    Args:
        trajectories: `[4, B, H, dof]`, as `TrajectoryIntegrator.integrate_array` returns them.
        limits: arrays `[dof]` lower and upper; other fields are not used.

    Returns:
        New arrays `[B, H, dof]` in the unit of the output, -inf where a joint has no limit; None for an output that has
        none at all.

    """
    terms = [CostTerm(lower=_tensor(term.lower), upper=_tensor(term.upper)) for term in limits.outputs]
    found = limit_violations(torch.from_numpy(trajectories).unbind(), QuadraticCost(*terms))
    return tuple(
        None if term.lower is None and term.upper is None else values.numpy()
        for term, values in zip(terms, found, strict=True)
    )


def _tensor(values: np.ndarray | None) -> Tensor | None:
    return None if values is None else torch.tensor(values)
