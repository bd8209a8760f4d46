"""The node on a device that holds no buffer of more than 10,000 elements, as a program of its own."""

from __future__ import annotations

import sys

import torch

from traj_integrator_ros.engine.runners import Buffers
from traj_integrator_ros.node.main import main

MOST_ELEMENTS = 10_000

_allocate = Buffers._allocate


def _allocate_or_fail(self: Buffers, side: str, size: int, dtype: torch.dtype) -> torch.Tensor:
    if size > MOST_ELEMENTS:
        raise torch.OutOfMemoryError(f"tried to allocate {size} elements")
    return _allocate(self, side, size, dtype)


if __name__ == "__main__":
    Buffers._allocate = _allocate_or_fail
    sys.exit(main())
