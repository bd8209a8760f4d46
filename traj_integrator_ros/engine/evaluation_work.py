"""One evaluation of what trajectories cost: what is asked, checked, and what is answered."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..kernels import ControlMap, QuadraticCost
from .goal import Goal
from .types import Array


class Wanted(NamedTuple):
    """Which gradients are wanted of the sum of the costs."""

    action: bool = True
    start: bool = False
    goal: bool = False
    dt: bool = False


USUALLY_WANTED = Wanted()


class Evaluation(NamedTuple):
    """Costs, and gradients of their sum; None where not wanted, or where there is no goal to have one."""

    cost: np.ndarray
    """`[B]`."""
    action: np.ndarray | None
    """`[B, Ha, dof]`."""
    start: tuple[np.ndarray, ...] | None
    """Of position, velocity and acceleration, `[S, dof]` each."""
    goal: tuple[np.ndarray, ...] | None
    """The same of the goal, as far as the map takes it."""
    dt: np.ndarray | None
    """Float64, `[1 or B, 1 or Ha]`."""


class EvaluationWork(NamedTuple):
    """One call, checked; shapes as in `work`."""

    kernel: ControlMap
    actions: Array
    start: tuple[Array | None, ...]
    start_index: np.ndarray | None
    dt: np.ndarray
    goal: Goal
    cost: QuadraticCost
    """Of arrays in the shapes that `kernels.quadratic_cost` knows, limits all three or not at all."""
    wanted: Wanted

    @property
    def start_rows(self) -> int:
        """S."""
        return next(rows.shape[0] for rows in self.start if rows is not None)
