"""One evaluation of costs: the checked request, and the result."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels import ControlMap, QuadraticCost
from .goal import Goal
from .types import Array


class Wanted(NamedTuple):
    """Which gradients of the sum of the costs are wanted."""

    action: bool = True
    start: bool = False
    goal: bool = False
    dt: bool = False


USUALLY_WANTED = Wanted()


class Evaluation(NamedTuple):
    """Costs, and gradients of their sum; None if not wanted, or for a goal that is absent."""

    cost: np.ndarray
    """`[B]`."""
    action: np.ndarray | None
    """`[B, Ha, dof]`."""
    start: tuple[np.ndarray, ...] | None
    """Gradients of position, velocity and acceleration, `[S, dof]` each."""
    goal: tuple[np.ndarray, ...] | None
    """The same for the parts of the goal that the map takes."""
    dt: np.ndarray | None
    """Float64, `[1 or B, 1 or Ha]`."""


class EvaluationWork(NamedTuple):
    """One checked call; shapes as in `work`."""

    kernel: ControlMap
    actions: Array
    start: tuple[Array | None, ...]
    start_index: np.ndarray | None
    dt: np.ndarray
    goal: Goal
    cost: QuadraticCost
    """Arrays in the shapes of `kernels.quadratic_cost`; limit_weight, lower and upper are given together, the
    weight of the duration is a number."""
    wanted: Wanted

    @property
    def start_rows(self) -> int:
        """S."""
        return next(rows.shape[0] for rows in self.start if rows is not None)
