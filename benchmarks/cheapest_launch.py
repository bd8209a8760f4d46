"""The cheapest kernel that Triton can launch: one program that stores one number."""

from __future__ import annotations

import triton
import triton.language as tl
from torch import Tensor


@triton.jit
def _store_one(p_target):
    tl.store(p_target, 1.0)


def launch(target: Tensor) -> Tensor:
    """Set the one element of `target` to 1."""
    _store_one[(1,)](target, num_warps=1)
    return target
