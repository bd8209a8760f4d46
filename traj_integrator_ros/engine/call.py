"""One call of the engine, checked by its caller: a map, its inputs, the memory for its results; and gradients."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
from torch import Tensor

from ..kernels import ControlMap
from ..kernels.signature import four

Array = np.ndarray | Tensor

# Number of step lengths, given as numbers, that stay cached as arrays.
_MOST_STEPS = 64
STARTS = 3
"""Kinds of start rows: position, velocity and acceleration."""


class Ends(NamedTuple):
    """Start or goal states of trajectories: one for all, one for each, or a pool."""

    rows: tuple[Array | None, ...] = ()
    """Position, velocity and acceleration, as many as the map takes, each `[S, dof]` or None for 0."""
    index: np.ndarray | None = None
    """Row of each trajectory, int64 `[B]`; None if S is 1 or B."""
    count: int | None = None
    """Number of rows S; None if there is no such state."""

    def part(self, which: np.ndarray, size: int, batch: int) -> Ends:
        """Return the rows of `size` of the trajectories; shared rows are returned whole."""
        if self.index is not None:
            return self._replace(index=self.index[which])
        if self.count is None or self.count != batch:
            return self
        return Ends(tuple(None if rows is None else rows[which] for rows in self.rows), None, size)


NO_ENDS = Ends()


def ends_of(rows: Sequence[Array | None], index: Array | None = None) -> Ends:
    """Return states of rows `[S, dof]`, of which position must be given; `index` picks a row for each trajectory."""
    index = None if index is None else np.ascontiguousarray(index, dtype=np.int64)
    return Ends(tuple(rows), index, rows[0].shape[0])


class Call(NamedTuple):
    """Integrate actions, or compute the vector-Jacobian product of upstream gradients; results go to the host.

    Callers check that the arguments fit together. The engine does not repeat that, but the C++ loops refuse what they
    cannot read.
    """

    kernel: ControlMap
    shape: tuple[int, int, int]
    """Shape of the actions: B, Ha, dof."""
    dt: np.ndarray
    """Step lengths, s, float64 `[1 or B, 1 or Ha]` (see `step_lengths`)."""
    start: Ends
    goal: Ends = NO_ENDS
    actions: Array | None = None
    """Actions, `[B, Ha, dof]`. The maps are linear, so a vjp needs actions and rows for the gradient of dt only."""
    upstream: tuple[Array | None, ...] | None = None
    """Upstream gradients of the four outputs, each `[B, H, dof]` or None for 0; None if the call integrates."""
    results: tuple[Tensor, ...] = ()
    """Trajectories `[4, B, H, dof]`; or gradients of actions, three start rows and goal rows; adjacent."""

    @property
    def kind(self) -> tuple[object, ...]:
        """The key that calls share if they differ in size only: direction, map, horizon."""
        direction = "forward" if self.upstream is None else "vjp"
        return direction, self.kernel.name, self.kernel.scheme, self.shape[1]

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Shape of each output: B, H, dof."""
        batch, horizon, dof = self.shape
        return batch, self.kernel.output_horizon(horizon), dof

    @property
    def inputs(self) -> dict[str, Array | None]:
        """All input arrays, by name."""
        named: dict[str, Array | None] = {"actions": self.actions}
        for name, arrays in (("upstream", self.upstream or ()), ("start", self.start.rows), ("goal", self.goal.rows)):
            named |= {f"{name}_{place}": array for place, array in enumerate(arrays)}
        return {**named, "start_index": self.start.index, "goal_index": self.goal.index, "dt": self.dt}

    @property
    def of_map(self) -> tuple[tuple[Array | None, ...], tuple[np.ndarray | None, ...], np.ndarray]:
        """The fields of `kernels.types.Inputs`; a goal that replaces an action is not among them."""
        start, goal = self.start, self.goal
        values = (self.actions, *start.rows)
        if self.kernel.operator.goals:
            values = (self.actions, *four(start.rows), *goal.rows)
        return values, (start.index, goal.index), self.dt

    def into(self, results: tuple[Tensor, ...]) -> Call:
        """Return the call with memory for its results."""
        return Call(*self[:-1], results)


def call_of(kernel: ControlMap, actions: Array, dt: float | np.ndarray, start: Ends, goal: Ends = NO_ENDS) -> Call:
    """Return the call that integrates actions `[B, Ha, dof]`; `dt` as for `step_lengths`."""
    return Call(kernel, tuple(actions.shape), step_lengths(dt), start, goal, actions)


class Gradient(NamedTuple):
    """Gradients of a cost with respect to actions, rows and step lengths; None if not wanted, or without a goal."""

    action: np.ndarray | None
    """`[B, Ha, dof]`."""
    start: tuple[np.ndarray, ...] | None
    """Rows of position, velocity and acceleration, `[S, dof]` each."""
    goal: tuple[np.ndarray, ...] | None
    """Rows of those parts of the goal that the map takes, `[S, dof]` each."""
    dt: np.ndarray | None
    """Float64, `[1 or B, 1 or Ha]`."""


class Wanted(NamedTuple):
    """Flags of the wanted gradients of the sum of the costs."""

    action: bool = True
    start: bool = False
    goal: bool = False
    dt: bool = False


class Runner(Protocol):
    """Computes on one device."""

    def run(self, call: Call) -> None:
        """Compute a call; return when the results have arrived on the host."""

    def release(self) -> None:
        """Free all memory on the device."""


# Time


def step_lengths(dt: float | np.ndarray) -> np.ndarray:
    """Return step lengths, s, a number, `[Ha]` or `[1 or B, 1 or Ha]`, as a call takes them."""
    if type(dt) is float:
        return _one_step(dt)
    return np.ascontiguousarray(np.atleast_2d(np.asarray(dt, np.float64)))


@lru_cache(_MOST_STEPS)
def _one_step(dt: float) -> np.ndarray:
    step = np.full((1, 1), dt)
    step.flags.writeable = False
    return step


def time_from_start(kernel: ControlMap, dt: np.ndarray, action_horizon: int) -> np.ndarray:
    """Return the time of every output row, s, float64: `[H]`, or `[B, H]` where dt differs by trajectory.

    The start state is at 0: it is row 0, or row 1 of a central difference, whose row 0 is then at -dt.
    """
    time = np.empty((dt.shape[0], kernel.output_horizon(action_horizon)))
    time[:] = dt
    time[:, 0] = 0.0
    time.cumsum(axis=1, out=time)
    if kernel.start_row:
        time -= kernel.start_row * dt[:, :1]
    return time if dt.shape[0] > 1 else time[0]
