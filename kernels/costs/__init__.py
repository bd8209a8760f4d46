"""Costs of trajectories and their gradients, built on the control maps, which know nothing about costs.

Nothing but torch and the rest of `kernels` may be imported here.
"""

from .quadratic_cost import quadratic_cost
from .terms import CostTerm, QuadraticCost, limit_violations

__all__ = ["CostTerm", "QuadraticCost", "limit_violations", "quadratic_cost"]
