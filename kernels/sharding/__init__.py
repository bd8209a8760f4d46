"""Trajectories split over the devices of a mesh: how the operators, and functions around them, treat DTensors.

Imports `torch.distributed.tensor` when the first DTensor is passed, never before: importing the kernels does not need
it. This room knows layouts, not maps; code that computes on shards uses `shards`.
"""

import functools
import importlib
import sys
from types import ModuleType

from torch import Tensor
from torch.nn import Parameter

_ORDINARY = (Tensor, Parameter)


def is_sharded(tensor: object) -> bool:
    """Return whether a tensor is a DTensor; there can be none before its module has been imported."""
    if type(tensor) in _ORDINARY:
        return False
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(tensor, module.DTensor)


@functools.cache
def shards() -> ModuleType:
    """The sharding rules of the operators, and the functions that compute on the shards of DTensors."""
    return importlib.import_module(".shards", __package__)
