"""Motions in closed form that maps must reproduce."""

from __future__ import annotations

import torch
from torch import Tensor


def motion(coefficients: Tensor, time: Tensor, order: int = 0) -> Tensor:
    """Derivative `order` of the polynomial `sum_k c[k] t^k / k!`: coefficients [K, B, D], time [H] -> [B, H, D]."""
    terms = coefficients[order:]
    value = torch.zeros(terms.shape[1], len(time), terms.shape[2], dtype=torch.float64)
    factor = torch.ones_like(time)
    for k, term in enumerate(terms):
        value = value + term[:, None] * factor[:, None]
        factor = factor * time / (k + 1)
    return value
