"""Finding NaN and infinity in arrays from outside and in results."""

from __future__ import annotations

import numpy as np

from .rejection import Rejected, RejectionReason


def require_finite(
    field: str, values: np.ndarray, reason: RejectionReason = RejectionReason.NOT_FINITE
) -> None:
    """Check an array of any shape for NaN and infinity.

    Raises:
        Rejected: `reason`, with the first offending element.

    """
    finite = np.isfinite(values)
    if finite.all():
        return
    index = tuple(int(i) for i in np.argwhere(~finite)[0])
    raise Rejected(reason, f"{field}: expected finite numbers, got {values[index]} at {list(index)}")
