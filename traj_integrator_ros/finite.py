"""Finding NaN and infinity in arrays from outside and in results."""

from __future__ import annotations

import numpy as np

from .rejection import Rejected, RejectionReason


def require_finite(
    field: str, values: np.ndarray, reason: RejectionReason = RejectionReason.NOT_FINITE
) -> None:
    """Check an array of any shape for NaN and infinity, in one pass without a temporary of its size.

    Raises:
        Rejected: `reason`, with the first offending element.

    """
    # A sum in float64 of at most 2**32 float32 values cannot overflow, so it is finite exactly if they all are.
    if values.dtype == np.float32 and np.isfinite(np.add.reduce(values, axis=None, dtype=np.float64)):
        return
    finite = np.isfinite(values)
    if finite.all():
        return
    index = tuple(int(i) for i in np.argwhere(~finite)[0])
    raise Rejected(reason, f"{field}: expected finite numbers, got {values[index]} at {list(index)}")
