"""Trajectories split over the devices of a mesh: how the operators, and functions around them, treat DTensors.

Imports `torch.distributed.tensor` when the first DTensor is passed, never before: importing the kernels does not need
it. This room knows layouts, not maps; code that computes on shards uses `shards`.
"""

from .lazy import is_sharded, rules, shards

__all__ = ["is_sharded", "rules", "shards"]
