"""The limit that CPU kernels are measured against: plain copies of as many bytes."""

from __future__ import annotations

import torch
from torch import Tensor

from .checks import is_close_to, random
from .registry import Contender


def copies_of(elements: int, *, count: int) -> Contender:
    """Plain copies of `count` tensors of so many elements."""
    sources = [random(elements) for _ in range(count)]
    targets = [torch.empty_like(source) for source in sources]

    def run() -> list[Tensor]:
        for source, target in zip(sources, targets, strict=True):
            target.copy_(source)
        return targets

    return Contender("copy of the same bytes", run, is_close_to(*sources))
