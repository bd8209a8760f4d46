"""Checks for NaN and infinity in received arrays and in results."""

from __future__ import annotations

import numpy as np

from ..execution.native import all_finite
from .rejection import Rejected, RejectionReason


def require_finite(field: str, values: np.ndarray, reason: RejectionReason = RejectionReason.NOT_FINITE) -> None:
    """Check an array of any shape for NaN and infinity.

    Raises:
        Rejected: for `reason`, naming the first such element.

    """
    if all_finite(values):
        return
    finite = np.isfinite(values)
    index = tuple(int(i) for i in np.argwhere(~finite)[0])
    raise Rejected(reason, f"{field}: expected finite numbers, got {values[index]} at {list(index)}")
