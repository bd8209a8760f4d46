"""Checks for NaN and infinity in received arrays and in results."""

from __future__ import annotations

import math

import numpy as np

from .rejection import Rejected, RejectionReason

_FEW = 32


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


def all_finite(values: np.ndarray) -> bool:
    """Whether an array of any shape holds neither NaN nor infinity."""
    # For few numbers, the sum in plain Python is fastest; it is finite only if all of them are.
    if values.size <= _FEW and math.isfinite(sum(values.reshape(-1).tolist())):
        return True
    return bool(np.logical_and.reduce(np.isfinite(values), axis=None))
