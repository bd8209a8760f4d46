"""One checked call of the engine, as runners take it: a map, its inputs and the memory for its results."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap
from .buffers import Buffers
from .types import Array


class Ends(NamedTuple):
    """The states in which trajectories begin, or in which they end."""

    rows: tuple[Array | None, ...] = ()
    """Position, velocity and acceleration, or those of them that the map takes, each `[S, dof]` or None for 0."""
    index: np.ndarray | None = None
    """`[B]`, int64; None where S is 1 or B."""
    count: int | None = None
    """S; None where there is no such state."""

    def part(self, begin: int, end: int, batch: int) -> Ends:
        """Return those of some of the trajectories: all rows, if they are shared."""
        if self.index is not None:
            return self._replace(index=self.index[begin:end])
        if self.count is None or self.count != batch:
            return self
        return Ends(tuple(None if rows is None else rows[begin:end] for rows in self.rows), None, end - begin)

    def are_shared(self, batch: int) -> bool:
        """Whether a row belongs to several trajectories."""
        return self.index is not None or self.count != batch


NO_ENDS = Ends()


class Call(NamedTuple):
    """Integrate, or compute the vector-Jacobian product of upstream gradients; results go to the host."""

    kernel: ControlMap
    shape: tuple[int, int, int]
    """Of the actions: B, Ha, dof."""
    dt: np.ndarray
    """s, float64, `[1 or B, 1 or Ha]`."""
    start: Ends
    goal: Ends = NO_ENDS
    actions: Array | None = None
    """`[B, Ha, dof]`; the vjp needs none, and no rows either: the maps are linear."""
    upstream: tuple[Array | None, ...] | None = None
    """Gradients of position to jerk, each `[B, H, dof]` or None for 0, not all None; None: integrate."""
    results: tuple[Tensor, ...] = ()
    """Trajectories `[4, B, H, dof]`; or gradients of actions, of the three start rows, and of the goal rows.

    Contiguous, or a slice of the trajectories.
    """

    @property
    def kind(self) -> tuple[object, ...]:
        """What calls have in common that differ in size only: direction, map, horizon."""
        direction = "forward" if self.upstream is None else "vjp"
        return direction, self.kernel.name, self.kernel.scheme, self.shape[1]

    @property
    def output_shape(self) -> tuple[int, int, int]:
        """Of each output: B, H, dof."""
        batch, horizon, dof = self.shape
        return batch, self.kernel.output_horizon(horizon), dof

    @property
    def inputs(self) -> dict[str, Array | None]:
        """All arrays that are read, by name."""
        named: dict[str, Array | None] = {"actions": self.actions}
        for name, arrays in (("upstream", self.upstream or ()), ("start", self.start.rows), ("goal", self.goal.rows)):
            named |= {f"{name}_{place}": array for place, array in enumerate(arrays)}
        return {**named, "start_index": self.start.index, "goal_index": self.goal.index, "dt": self.dt}

    def part(self, begin: int, end: int, sums: tuple[tuple[Tensor, ...], ...] = ((), ())) -> Call:
        """Return the call for some of the trajectories.

        `sums` is the memory for gradients of start and of goal rows that several trajectories share; () where each
        trajectory has its own.
        """
        batch, horizon, dof = self.shape
        results: tuple[Tensor, ...] = ()
        if self.results and self.upstream is None:
            results = (self.results[0][:, begin:end],)
        elif self.results:
            action, *rows = self.results
            results = (action[begin:end],)
            for own, summed in ((rows[:3], sums[0]), (rows[3:], sums[1])):
                results += summed or tuple(of_end[begin:end] for of_end in own)
        return self._replace(
            shape=(end - begin, horizon, dof),
            dt=part_of_dt(self.dt, begin, end),
            start=self.start.part(begin, end, batch),
            goal=self.goal.part(begin, end, batch),
            actions=None if self.actions is None else self.actions[begin:end],
            upstream=self.upstream
            and tuple(None if gradient is None else gradient[begin:end] for gradient in self.upstream),
            results=results,
        )

    def into(self, results: tuple[Tensor, ...]) -> Call:
        """Return the call with memory for its results."""
        return Call(*self[:-1], results)

    def without_rows(self) -> Call:
        """Return the call without start and goal rows, of which the vjp needs the numbers only."""
        start, goal = Ends((), *self.start[1:]), Ends((), *self.goal[1:])
        return Call(*self[:3], start, goal, *self[5:])


class Runner(Protocol):
    """Computes on one device."""

    def run(self, call: Call) -> None:
        """Compute a call; return when the results have arrived on the host."""

    def release(self) -> None:
        """Free all memory on the device."""


def part_of_dt(dt: np.ndarray, begin: int, end: int) -> np.ndarray:
    """Return the step lengths of a part of the trajectories."""
    return dt if dt.shape[0] == 1 else dt[begin:end]


# Goals in position control, which take the place of one of the actions.


def with_goal_in_actions(call: Call, buffers: Buffers) -> Call:
    """Return a call without goal, whose actions are a copy, on the host, with the goal in place of one of them."""
    copy = buffers.view("output", "actions to the goal", call.shape)
    if isinstance(call.actions, np.ndarray):
        np.copyto(copy.numpy(), call.actions, casting="same_kind")
    else:
        copy.copy_(call.actions.detach())
    position, index = call.goal.rows[0], call.goal.index
    rows = torch.from_numpy(position.copy()) if isinstance(position, np.ndarray) else position.detach().cpu()
    copy[:, call.kernel.goal_place] = rows if index is None else rows[torch.from_numpy(index)]
    return call._replace(actions=copy, goal=NO_ENDS)


def replaces_action(call: Call) -> bool:
    """Whether the goal of a call takes the place of an action."""
    return call.goal.count is not None and call.kernel.goal_place != 0


def gradient_to_goal(action: Tensor, goal: Tensor, index: np.ndarray | None, place: int) -> None:
    """Move the gradient of the replaced actions to the goal rows."""
    replaced = action[:, place]
    if index is not None:
        total = torch.zeros(goal.shape, dtype=torch.float64)
        goal.copy_(total.index_add_(0, torch.from_numpy(index), replaced.double()))
    elif goal.shape[0] == replaced.shape[0]:
        goal.copy_(replaced)
    else:
        goal.copy_(replaced.double().sum(0, keepdim=True))
    replaced.zero_()
