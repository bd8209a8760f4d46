"""One checked call of the engine, as runners take it: a map, its inputs and the memory for its results."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from ..kernels import ControlMap, ControlSpace, SplineForm, control_map
from .types import Array, IntegratorConfig, StartState, UpstreamGradient

# Number of step lengths, given as numbers, that are kept as arrays.
_MOST_STEPS = 64
# Number of control maps that are kept, because planners could request ever new forms of splines.
_MOST_MAPS = 64
STARTS = 3
"""Kinds of start rows: position, velocity and acceleration."""


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

    @property
    def summed(self) -> range:
        """Places of the results that are sums over trajectories: gradients of rows that several of them share."""
        if self.upstream is None:
            return range(0)
        batch = self.shape[0]
        first = 1 if self.start.are_shared(batch) else 1 + STARTS
        return range(first, len(self.results) if self.goal.are_shared(batch) else min(1 + STARTS, len(self.results)))

    def part(self, begin: int, end: int) -> Call:
        """Return the call for some of the trajectories; its sums have memory of their own."""
        batch, horizon, dof = self.shape
        if self.upstream is None:
            results = tuple(outputs[:, begin:end] for outputs in self.results)
        else:
            results = tuple(
                torch.empty_like(rows) if place in self.summed else rows[begin:end]
                for place, rows in enumerate(self.results)
            )
        return self._replace(
            shape=(end - begin, horizon, dof),
            dt=self.dt if self.dt.shape[0] == 1 else self.dt[begin:end],
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


class Runner(Protocol):
    """Computes on one device."""

    def run(self, call: Call) -> None:
        """Compute a call; return when the results have arrived on the host."""

    def release(self) -> None:
        """Free all memory on the device."""


class CheckedCalls:
    """Checks arguments and finds the control map; maps are made once.

    Args:
        config: of the engine.

    """

    def __init__(self, config: IntegratorConfig) -> None:
        self._config = config
        self.control_map = lru_cache(_MOST_MAPS)(self._make_map)

    def _make_map(self, control_space: ControlSpace | None, spline: SplineForm | None) -> ControlMap:
        config = self._config
        space = config.control_space if control_space is None else control_space
        form = config.spline() if spline is None else spline
        return control_map(space, config.finite_difference, config.acceleration_integrator, *form.scheme)

    def checked(
        self,
        shape: tuple[int | None, ...],
        dt: float | Array | None,
        control_space: ControlSpace | None,
        spline: SplineForm | None,
        ends: tuple[StartState | None, int, Array | None, StartState | None, Array | None, int | None],
        actions: Array | None,
        upstream: tuple[Array | None, ...] | None = None,
    ) -> Call:
        """A call with actions of a shape; `ends`: start, its rows where it is None, its index; the same of the goal.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.

        """
        start, start_rows, start_index, goal, goal_index, goal_rows = ends
        kernel = self.control_map(control_space, spline)
        shape = batch, horizon, _ = *check_actions(shape, self._config), self._config.dof
        count = start_rows if start is None else check_start(start, self._config.dof)
        index = check_start_index(start_index, count, batch)
        step = self.step_lengths(dt, batch, horizon, kernel)
        of_goal = check_goal(kernel, goal, goal_index, goal_rows, shape)
        if actions is None:  # the vjp needs the numbers of rows only
            return Call(kernel, shape, step, Ends((), index, count), Ends((), *of_goal[1:]), None, upstream)
        of_start = Ends(() if start is None else start.rows, index, count)
        return Call(kernel, shape, step, of_start, of_goal, actions, upstream)

    def step_lengths(self, dt: float | Array | None, batch: int, horizon: int, kernel: ControlMap) -> np.ndarray:
        """Step lengths, s, `[1 or B, 1 or Ha]`, float64."""
        if dt is None:
            dt = self._config.dt
        if type(dt) is float:
            return _one_step(dt)
        return check_dt(dt, batch, horizon, one_for=kernel.operator.one_dt_for)


@lru_cache(_MOST_STEPS)
def _one_step(dt: float) -> np.ndarray:
    return check_dt(dt, 1, 1)


def check_actions(shape: tuple[int, ...], config: IntegratorConfig) -> tuple[int, int]:
    """Return batch and horizon of actions of `shape`.

    Raises:
        ValueError: not `[batch, horizon, dof]` within the configured sizes.

    """
    if len(shape) != 3 or shape[2] != config.dof:
        raise ValueError(f"actions: expected shape [batch, horizon, dof = {config.dof}], got {list(shape)}")
    batch, horizon, _ = shape
    if not 1 <= batch <= config.max_batch:
        raise ValueError(f"actions: expected 1 to {config.max_batch} trajectories, got {batch}")
    if not 1 <= horizon <= config.max_horizon:
        raise ValueError(f"actions: expected 1 to {config.max_horizon} steps, got {horizon}")
    return batch, horizon


def check_start(start: StartState, dof: int, name: str = "start") -> int:
    """Return the number of rows of a start, or of a goal.

    Raises:
        ValueError: rows of different shapes, or not `dof` wide.

    """
    shape = start.position.shape
    if len(shape) != 2 or shape[1] != dof:
        rows = shape[0] if shape else 1
        raise ValueError(f"{name}.position: expected shape [{rows}, dof = {dof}], got {list(shape)}")
    for kind, value in (("velocity", start.velocity), ("acceleration", start.acceleration)):
        if value is not None and value.shape != shape:
            raise ValueError(f"{name}.{kind}: expected shape [{shape[0]}, dof = {dof}], got {list(value.shape)}")
    return shape[0]


def check_start_index(start_index: Array | None, rows: int, batch: int, name: str = "start") -> np.ndarray | None:
    """Return the start (or goal) row of each trajectory as int64; None without an index.

    Raises:
        ValueError: an index of a wrong shape or out of range, or without an index neither 1 row nor `batch` rows.

    """
    if start_index is None:
        if rows not in (1, batch):
            raise ValueError(f"{name}.position: expected 1 or {batch} rows without {name}_index, got {rows}")
        return None
    index = np.ascontiguousarray(start_index, dtype=np.int64)
    if index.shape != (batch,):
        raise ValueError(f"{name}_index: expected shape [{batch}], got {list(index.shape)}")
    if index.min() < 0 or index.max() >= rows:
        raise ValueError(f"{name}_index: expected rows 0 to {rows - 1}, got {index.min()} to {index.max()}")
    return index


def check_goal(
    kernel: ControlMap,
    goal: StartState | None,
    goal_index: Array | None,
    goal_rows: int | None,
    shape: tuple[int, ...],
) -> Ends:
    """Return the goal of a call with actions of `shape`; if `goal` is None, `goal_rows` says whether there is one.

    Raises:
        ValueError: a goal, or a part of one, that the map does not take; a wrong shape, named.

    """
    batch, horizon, dof = shape
    if goal is None and goal_rows is None:
        if goal_index is not None:
            raise ValueError("goal: expected a goal state with goal_index, got None")
        return NO_ENDS
    if not kernel.goal:
        raise ValueError(f"goal: expected None, because control map {kernel.name} takes no goal")
    if horizon < -kernel.goal_place:
        raise ValueError(f"actions: expected at least {-kernel.goal_place} steps with a goal, got {horizon}")
    given: tuple[Array | None, ...] = ()
    if goal is not None:
        goal_rows = check_start(goal, dof, "goal")
        for name, rows in zip(("velocity", "acceleration"), goal.rows[1:], strict=True):
            if rows is not None and name not in kernel.goal:
                raise ValueError(f"goal.{name}: expected None, because control map {kernel.name} takes a position only")
        given = goal.rows[: len(kernel.goal)]
    return Ends(given, check_start_index(goal_index, goal_rows, batch, "goal"), goal_rows)


def check_dt(dt: float | Array, batch: int, horizon: int, *, one_for: str | None = None) -> np.ndarray:
    """Return step lengths, s, as `[1 or batch, 1 or horizon]`, float64 and contiguous.

    Raises:
        ValueError: step lengths of another shape, not finite or not positive, or for `one_for` differing along the
            horizon.

    """
    step = np.asarray(dt, dtype=np.float64)
    step = np.ascontiguousarray(step if step.ndim == 2 else np.atleast_2d(step))
    if step.ndim != 2 or step.shape[0] not in (1, batch) or step.shape[1] not in (1, horizon):
        raise ValueError(
            f"dt: expected a number, [horizon = {horizon}], [batch = {batch}, 1] or [{batch}, {horizon}], "
            f"got shape {list(np.shape(dt))}"
        )
    if not (np.isfinite(step).all() and (step > 0).all()):
        bad = step[~(np.isfinite(step) & (step > 0))][0]
        raise ValueError(f"dt: expected finite numbers of seconds > 0, got {bad}")
    if one_for is not None and step.shape[1] != 1:
        raise ValueError(f"dt: {one_for} need one step length, got shape {list(np.shape(dt))}")
    return step


def check_upstream(upstream: UpstreamGradient, shape: tuple[int, int, int]) -> bool:
    """Return whether any gradient is given.

    Raises:
        ValueError: a gradient of another shape.

    """
    some = False
    for name, value in zip(upstream._fields, upstream, strict=True):
        if value is None:
            continue
        if value.shape != shape:
            raise ValueError(f"upstream.{name}: expected shape {list(shape)}, got {list(value.shape)}")
        some = True
    return some


# Goals in position control, which take the place of one of the actions.


def with_goal_in_actions(call: Call, copy: Tensor) -> Call:
    """Return a call without goal, whose actions are copied to `copy`, with the goal in place of one of them."""
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
