"""Memory of the caller that a launcher writes to."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def output_or_new(buffer: Tensor | None, shape: Sequence[int], like: Tensor, name: str) -> Tensor:
    """Return the caller's contiguous buffer, or a new tensor; no buffer is broadcast to or resized.

    Raises:
        ValueError: a buffer of another shape, or of another dtype or device than `like`; it is named.

    """
    if buffer is None:
        return torch.empty(shape, dtype=like.dtype, device=like.device)
    got = (tuple(buffer.shape), buffer.dtype, buffer.device)
    if got != (tuple(shape), like.dtype, like.device) or not buffer.is_contiguous():
        raise ValueError(
            f"{name}: expected a contiguous {like.dtype} tensor of shape {list(shape)} on {like.device}, got "
            f"{buffer.dtype}, {list(buffer.shape)}, strides {list(buffer.stride())} on {buffer.device}"
        )
    return buffer
