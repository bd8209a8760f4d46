"""Temporal ensembling: the average of the positions of all chunks that cover a time (ACT, Zhao et al. 2023)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def ensemble(chunks: Sequence[np.ndarray], decay: float, *, newest_first: bool = False) -> np.ndarray:
    """Average positions of chunks at the same times, with weights exp(-decay i).

    Args:
        chunks: from the oldest to the newest, `[N, D]` each, NaN where a chunk does not cover the time; the newest
            covers all times.
        decay: m of ACT, where i counts the chunks that cover the time from the oldest; 0: equal weights.
        newest_first: whether i counts from the newest instead.

    Returns:
        `[N, D]`.

    """
    stacked = np.stack(chunks)
    covers = ~np.isnan(stacked[:, :, 0])
    order = np.flip(covers, 0).cumsum(0) if newest_first else covers.cumsum(0)
    rank = (np.flip(order, 0) if newest_first else order) - 1
    weights = np.where(covers, np.exp(-decay * rank), 0.0)
    weights /= weights.sum(axis=0)
    return np.einsum("cn,cnd->nd", weights, np.where(covers[:, :, None], stacked, 0.0))
