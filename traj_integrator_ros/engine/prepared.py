"""A call that is made again and again on the same memory: checked once."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .evaluation_work import Evaluation
from .types import GradientArrays


class PreparedCall(NamedTuple):
    """Reads the arrays that it was prepared with, in which only the numbers may have changed."""

    run: Callable[[], bool]
    """Computes; False, having done nothing, if the arrays are of a kind that the loops do not take."""
    results: np.ndarray | Evaluation | GradientArrays
    """What each run overwrites; the memory belongs to this call."""
    values: np.ndarray
    """The same, all numbers in one contiguous array."""
