"""What a trajectory costs, and its gradients: on top of the control maps, which know nothing of it.

Nothing but torch and the rest of `kernels` may be imported here.
"""

from .quadratic_cost import quadratic_cost
from .terms import CostTerm, QuadraticCost

__all__ = ["CostTerm", "QuadraticCost", "quadratic_cost"]
