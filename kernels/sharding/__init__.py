"""Trajectories split over the devices of a mesh: what happens to DTensors in the operators and beside them.

Imports `torch.distributed.tensor` once a DTensor comes, never before: neither the import of the kernels nor a torch
without it knows of this room. It knows layouts, not maps; whoever has something to compute on shards asks `shards`.
"""

from .lazy import is_sharded, rules, shards

__all__ = ["is_sharded", "rules", "shards"]
