"""One checked call of the engine, as runners take it: a map, its inputs and the memory for its results."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from ..kernels import ControlMap
from .types import Array


class ForwardWork(NamedTuple):
    """Integrate `actions`; results go to the host."""

    kernel: ControlMap
    actions: Array
    """`[B, Ha, dof]`."""
    start: tuple[Array | None, ...]
    """Position, velocity and acceleration, each `[S, dof]` or None for 0."""
    start_index: np.ndarray | None
    """`[B]`, int64; None if S is 1 or B."""
    dt: np.ndarray
    """s, float64, `[1 or B, 1 or Ha]`."""
    out: Tensor
    """`[4, B, H, dof]` on the host; contiguous, or a slice of the trajectories."""
    goal: tuple[Array | None, ...] = ()
    """For maps that take a goal: like start; all None: there is no goal."""
    goal_index: np.ndarray | None = None
    """`[B]`, int64; None where the goal has 1 row or B."""

    @property
    def batch(self) -> int:
        """B."""
        return self.actions.shape[0]

    @property
    def start_rows(self) -> int:
        """S."""
        return next((rows.shape[0] for rows in self.start if rows is not None), 1)

    def part(self, begin: int, end: int) -> ForwardWork:
        """Return the work for a part of the trajectories."""
        return self._replace(
            actions=self.actions[begin:end],
            start=part_of_rows(self.start, self.start_index, begin, end),
            start_index=None if self.start_index is None else self.start_index[begin:end],
            dt=part_of_dt(self.dt, begin, end),
            out=self.out[:, begin:end],
            goal=part_of_rows(self.goal, self.goal_index, begin, end),
            goal_index=None if self.goal_index is None else self.goal_index[begin:end],
        )


class VjpWork(NamedTuple):
    """The vjp of upstream gradients for actions, start and goal rows; results go to the host."""

    kernel: ControlMap
    upstream: tuple[Array | None, ...]
    """Gradients of position, velocity, acceleration and jerk, each `[B, H, dof]` or None for 0; not all None."""
    start_index: np.ndarray | None
    """`[B]`, int64; None if S is 1 or B."""
    dt: np.ndarray
    """s, float64, `[1 or B, 1 or Ha]`."""
    action: Tensor
    """`[B, Ha, dof]` on the host."""
    start: tuple[Tensor, ...]
    """Position, velocity and acceleration, each `[S, dof]` on the host."""
    goal: tuple[Tensor, ...] = ()
    """The same for the goal; empty if there is none."""
    goal_index: np.ndarray | None = None
    """`[B]`, int64; None where the goal has 1 row or B."""

    @property
    def batch(self) -> int:
        """B."""
        return self.action.shape[0]

    @property
    def start_rows(self) -> int:
        """S."""
        return self.start[0].shape[0]

    @property
    def sums_rows(self) -> bool:
        """Whether a start row sums the gradients of several trajectories."""
        return self.start_index is not None or self.start_rows != self.batch

    @property
    def sums_goals(self) -> bool:
        """Whether a goal row sums the gradients of several trajectories."""
        return bool(self.goal) and (self.goal_index is not None or self.goal[0].shape[0] != self.batch)

    def part(
        self, begin: int, end: int, sums: tuple[Tensor, ...] | None, goal_sums: tuple[Tensor, ...] | None
    ) -> VjpWork:
        """Return the work for a part of the trajectories; the gradients of rows that are summed go to `sums`."""
        return self._replace(
            upstream=tuple(None if gradient is None else gradient[begin:end] for gradient in self.upstream),
            start_index=None if self.start_index is None else self.start_index[begin:end],
            dt=part_of_dt(self.dt, begin, end),
            action=self.action[begin:end],
            start=tuple(rows[begin:end] for rows in self.start) if sums is None else sums,
            goal=tuple(rows[begin:end] for rows in self.goal) if goal_sums is None else goal_sums,
            goal_index=None if self.goal_index is None else self.goal_index[begin:end],
        )


class Runner(Protocol):
    """Computes on one device; both methods return when the results have arrived on the host."""

    def forward(self, work: ForwardWork) -> None:
        """Integrate."""

    def vjp(self, work: VjpWork) -> None:
        """Compute the vector-Jacobian product."""

    def release(self) -> None:
        """Free all memory on the device."""


def part_of_rows(
    rows: tuple[Array | None, ...], index: np.ndarray | None, begin: int, end: int
) -> tuple[Array | None, ...]:
    """Return the start or goal rows of a part of the trajectories: all rows, if they are shared."""
    count = next((row.shape[0] for row in rows if row is not None), 1)
    if index is not None or count == 1:
        return rows
    return tuple(None if row is None else row[begin:end] for row in rows)


def part_of_dt(dt: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return the step lengths of a part of the trajectories."""
    return dt if dt.shape[0] == 1 else dt[begin:end]
