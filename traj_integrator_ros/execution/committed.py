"""The answer of `~/committed`, in the form in which the node finds it and clients get it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Committed(NamedTuple):
    """The motion in execution around a time; float64."""

    joint_names: tuple[str, ...]
    now_ns: int
    lead: float
    """Time from the arrival of a sequence until it can change the motion, s."""
    committed: int
    """Number of rows, counted from the first, that cannot be changed any more."""
    executing: bool
    position: np.ndarray
    """Position that will be commanded if nothing new arrives, `[rows, dof]`, rad."""
    velocity: np.ndarray
    commanded_position: np.ndarray
    """Position that was commanded, `[rows_before, dof]`; NaN where it is unknown, as in the next fields."""
    commanded_velocity: np.ndarray
    measured_position: np.ndarray
    measured_velocity: np.ndarray
