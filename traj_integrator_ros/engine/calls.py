"""From the arguments of the engine's methods to checked calls."""

from __future__ import annotations

import numpy as np

from ..kernels import ControlMap, ControlSpace, SplineForm, control_map
from .call import NO_ENDS, Call, Ends
from .types import Array, IntegratorConfig, StartState, UpstreamGradient

# Number of step lengths, given as numbers, that are kept as arrays.
_MOST_STEPS = 64
# Number of control maps that are kept, because planners could request ever new forms of splines.
_MOST_MAPS = 64
_AT_REST = (None, None, None)


class CheckedCalls:
    """Checks arguments and finds the control map; maps and step lengths are made once.

    Args:
        config: of the engine.

    """

    def __init__(self, config: IntegratorConfig) -> None:
        self._config = config
        self._maps: dict[tuple[ControlSpace | None, SplineForm | None], ControlMap] = {}
        self._steps: dict[float, np.ndarray] = {}

    def control_map(self, control_space: ControlSpace | None, spline: SplineForm | None) -> ControlMap:
        """See `TrajectoryIntegrator.control_map`."""
        known = self._maps.get((control_space, spline))
        if known is None:
            config = self._config
            space = config.control_space if control_space is None else control_space
            form = config.spline() if spline is None else spline
            known = control_map(space, config.finite_difference, config.acceleration_integrator, *form.scheme)
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            self._maps[control_space, spline] = known
        return known

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
        kernel = self._maps.get((control_space, spline)) or self.control_map(control_space, spline)
        shape = batch, horizon, _ = *check_actions(shape, self._config), self._config.dof
        count = start_rows if start is None else check_start(start, self._config.dof)
        index = check_start_index(start_index, count, batch)
        step = self.step_lengths(dt, batch, horizon, kernel)
        of_goal = check_goal(kernel, goal, goal_index, goal_rows, shape)
        of_start = Ends(_AT_REST if start is None else start.rows, index, count)
        return Call(kernel, shape, step, of_start, of_goal, actions, upstream)

    def step_lengths(self, dt: float | Array | None, batch: int, horizon: int, kernel: ControlMap) -> np.ndarray:
        """Step lengths, s, `[1 or B, 1 or Ha]`, float64; those given as numbers are checked and converted once."""
        if dt is None:
            dt = self._config.dt
        if type(dt) is not float:
            return check_dt(dt, batch, horizon, one_for=kernel.operator.one_dt_for)
        step = self._steps.get(dt)
        if step is None:
            step = check_dt(dt, batch, horizon)
            if len(self._steps) >= _MOST_STEPS:
                self._steps.clear()
            self._steps[dt] = step
        return step


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
