"""From the arguments of the engine's methods to checked calls."""

from __future__ import annotations

import numpy as np

from ..kernels import ControlMap, ControlSpace, SplineForm, control_map
from .call import Call, Ends
from .checks import check_actions, check_dt, check_goal, check_start, check_start_index
from .types import Array, IntegratorConfig, StartState

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
