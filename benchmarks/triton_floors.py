"""The floors of the Triton kernels: one tensor read and four written, the reverse, and the cheapest launch."""

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

_LANES, _WARPS = 1024, 4


def spread(source: Tensor, targets: Sequence[Tensor]) -> Sequence[Tensor]:
    """Copy a tensor to four."""
    _spread_kernel[(-(-source.numel() // _LANES),)](source, *targets, source.numel(), _LANES, num_warps=_WARPS)
    return targets


def gather(sources: Sequence[Tensor], target: Tensor) -> Tensor:
    """Add four tensors to one."""
    _gather_kernel[(-(-target.numel() // _LANES),)](*sources, target, target.numel(), _LANES, num_warps=_WARPS)
    return target


def launch(target: Tensor) -> Tensor:
    """Set the one element of `target` to 1."""
    _store_one[(1,)](target, num_warps=1)
    return target


@triton.jit
def _store_one(p_target):
    tl.store(p_target, 1.0)


@triton.jit
def _spread_kernel(p_source, p_0, p_1, p_2, p_3, n, LANES: tl.constexpr):
    b_at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    b_in = b_at < n
    b_x = tl.load(p_source + b_at, mask=b_in)
    tl.store(p_0 + b_at, b_x, mask=b_in)
    tl.store(p_1 + b_at, b_x, mask=b_in)
    tl.store(p_2 + b_at, b_x, mask=b_in)
    tl.store(p_3 + b_at, b_x, mask=b_in)


@triton.jit
def _gather_kernel(p_0, p_1, p_2, p_3, p_target, n, LANES: tl.constexpr):
    b_at = tl.program_id(0).to(tl.int64) * LANES + tl.arange(0, LANES)
    b_in = b_at < n
    b_sum = (tl.load(p_0 + b_at, mask=b_in) + tl.load(p_1 + b_at, mask=b_in)) + (
        tl.load(p_2 + b_at, mask=b_in) + tl.load(p_3 + b_at, mask=b_in)
    )
    tl.store(p_target + b_at, b_sum, mask=b_in)
