"""The client of an integrator node for programs in Python: arrays in and out, retries, refusals as exceptions.

Planners, optimizers and policies import it. May import `wire`, but only its modules without torch.
"""

from ..wire.arrays import packed
from ..wire.transport import prepare_transport
from .answers import (
    Committed,
    Evaluation,
    Gradient,
    JointMotion,
    Refused,
    Retimed,
    Stopped,
    Trajectories,
    trajectories_of,
)
from .client import NODE_NAME, IntegratorClient
from .requests import ORDERS, SECOND_NS, gradient_request, sequence, set_stamp, stamp_of

__all__ = [
    "NODE_NAME",
    "ORDERS",
    "SECOND_NS",
    "Committed",
    "Evaluation",
    "Gradient",
    "IntegratorClient",
    "JointMotion",
    "Refused",
    "Retimed",
    "Stopped",
    "Trajectories",
    "gradient_request",
    "packed",
    "prepare_transport",
    "sequence",
    "set_stamp",
    "stamp_of",
    "trajectories_of",
]
