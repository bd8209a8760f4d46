"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Arrays go in as numpy or torch, results come out on the CPU, as tensors or as numpy arrays. Once a
kind of call has been seen, nothing is allocated any more, except for the gradient of dt. On the CPU the C++ kernels
read what they are given in place; on CUDA each kind of call is one graph (`engine.staged`). What does not fit on the
device is done in parts (`engine.split`).
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import (
    Backend,
    ControlMap,
    ControlSpace,
    QuadraticCost,
    SplineForm,
    Trajectory,
    backend_info,
    control_map,
    default_backend,
)
from . import split
from .buffers import Buffers
from .checks import check_actions, check_dt, check_start, check_start_index, check_upstream
from .direct import DirectRunner
from .dt import DtWork, vjp_dt
from .evaluation import USUALLY_WANTED, Evaluation, EvaluationWork, Wanted, evaluate
from .goal import NO_GOAL, actions_to_goal, check_goal, gradient_to_goal
from .results import ForwardResults, VjpResults, gradient_size
from .staged import StagedRunner
from .types import (
    DTYPES,
    Array,
    Gradient,
    GradientArrays,
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    UpstreamGradient,
    is_out_of_memory,
    resolve_device,
)
from .work import ForwardWork, Runner, VjpWork

__all__ = [
    "Evaluation",
    "Gradient",
    "GradientArrays",
    "IntegratorConfig",
    "OutOfDeviceMemory",
    "StartState",
    "TrajectoryIntegrator",
    "UpstreamGradient",
    "Wanted",
    "resolve_device",
]

# Step lengths given as numbers that are kept as arrays.
_MOST_STEPS = 64
# Control maps that are kept: planners could ask for ever new forms of splines.
_MOST_MAPS = 64
_AT_REST = (None, None, None)


class TrajectoryIntegrator:
    """Integrates action sequences and pulls gradients back through them.

    Results of `integrate` and `vjp` are views of buffers that the next call of the same method overwrites. Inputs are
    read during the call only, and may be read-only.

    Args:
        config: what to integrate, how and where.
        runner: what does the work; None for the fastest on the device.

    Raises:
        ValueError: a device that is not there, named with what is.

    """

    def __init__(self, config: IntegratorConfig, runner: Runner | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dtype = DTYPES[config.dtype]
        self._buffers = Buffers(self.device, self.dtype)
        self._runner = self._make_runner() if runner is None else runner
        self._sizes = split.PartSizes(str(self.device), self._runner.release)
        self._maps: dict[tuple[ControlSpace | None, SplineForm | None], ControlMap] = {}
        self._steps: dict[float, np.ndarray] = {}

    @property
    def backend(self) -> str:
        """What computes on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    @property
    def backend_obstacle(self) -> str:
        """Why something slower than the device's best computes; empty where the best does."""
        kind = self.device.type
        best = Backend.TRITON if kind == "cuda" else Backend.NATIVE
        unavailable = next((info.unavailable for info in backend_info() if info.device == kind), {})
        return unavailable.get(best, "")

    def control_map(self, control_space: ControlSpace | None = None, spline: SplineForm | None = None) -> ControlMap:
        """Return the map of `control_space` (None: the configured one) under the configured schemes.

        `spline` is the form of B-splines; None for the configured one.
        """
        known = self._maps.get((control_space, spline))
        if known is None:
            config = self.config
            space = config.control_space if control_space is None else control_space
            form = config.spline() if spline is None else spline
            known = control_map(space, config.finite_difference, config.acceleration_integrator, *form.scheme)
            if len(self._maps) >= _MOST_MAPS:
                self._maps.clear()
            self._maps[control_space, spline] = known
        return known

    def output_horizon(
        self, action_horizon: int, control_space: ControlSpace | None = None, spline: SplineForm | None = None
    ) -> int:
        """Number of trajectory rows that `action_horizon` actions give."""
        return self.control_map(control_space, spline).output_horizon(action_horizon)

    def integrate(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None = None,
        *,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        spline: SplineForm | None = None,
    ) -> Trajectory:
        """Integrate a batch of action sequences.

        Args:
            start: start rows `[1, dof]`, `[B, dof]`, or a pool `[S, dof]` for `start_index`.
            actions: `[B, Ha, dof]`, in the unit of the control space.
            dt: step lengths, s: None for the configured one, a number, `[Ha]`, `[B, 1]` or `[B, Ha]`.
            control_space: None for the configured one.
            start_index: `[B]` integers, the start row of each trajectory.
            goal: goal rows, like `start`, where the map takes them (`ControlMap.goal`); None: there is no goal.
            goal_index: `[B]` integers, the goal row of each trajectory.
            spline: the form of B-splines; None for the configured one.

        Returns:
            Trajectory of `[B, H, dof]` CPU tensors, valid until the next call of `integrate`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results not on the host.

        """
        return self._integrate(start, actions, dt, control_space, start_index, goal, goal_index, spline).trajectory

    def integrate_array(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None = None,
        *,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        spline: SplineForm | None = None,
    ) -> np.ndarray:
        """Integrate as `integrate` does, into one contiguous array `[4, B, H, dof]`: position to jerk."""
        return self._integrate(start, actions, dt, control_space, start_index, goal, goal_index, spline).array

    def vjp(
        self,
        start: StartState | None,
        upstream: UpstreamGradient,
        *,
        actions: Array | None = None,
        batch: int | None = None,
        action_horizon: int | None = None,
        dt: float | Array | None = None,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        start_rows: int = 1,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        goal_rows: int | None = None,
        spline: SplineForm | None = None,
        want_dt: bool = False,
    ) -> Gradient:
        """Pull the gradient of a cost back through `integrate`: the vector-Jacobian product.

        The maps are linear in actions and start state, so both are needed for the gradient of dt alone; without
        actions `batch` and `action_horizon` say the shape, without start `start_rows` does.

        Args:
            start: as for `integrate`; None for rest.
            upstream: gradient with respect to each output, `[B, H, dof]` or None.
            actions: `[B, Ha, dof]`; required by `want_dt`.
            batch: B, where `actions` is None.
            action_horizon: Ha, where `actions` is None.
            dt: as for `integrate`.
            control_space: as for `integrate`.
            start_index: as for `integrate`.
            start_rows: S, where `start` is None.
            goal: as for `integrate`.
            goal_index: as for `integrate`.
            goal_rows: rows of the goal where `goal` is None; None: there is no goal.
            spline: as for `integrate`.
            want_dt: also return the gradient of dt; that one takes memory of its own at each call.

        Returns:
            Gradient of CPU tensors, valid until the next call of `vjp`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results not on the host.

        """
        shape = (batch, action_horizon)
        goal_arguments = (goal, goal_index, goal_rows, spline)
        memory, dt_gradient = self._vjp(
            start, upstream, actions, shape, dt, control_space, start_index, start_rows, goal_arguments, want_dt
        )
        return memory.tensors if dt_gradient is None else memory.tensors._replace(dt=dt_gradient)

    def vjp_arrays(
        self,
        start: StartState | None,
        upstream: UpstreamGradient,
        *,
        actions: Array | None = None,
        batch: int | None = None,
        action_horizon: int | None = None,
        dt: float | Array | None = None,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        start_rows: int = 1,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        goal_rows: int | None = None,
        spline: SplineForm | None = None,
        want_dt: bool = False,
    ) -> GradientArrays:
        """Pull back as `vjp` does, into numpy arrays."""
        shape = (batch, action_horizon)
        goal_arguments = (goal, goal_index, goal_rows, spline)
        memory, dt_gradient = self._vjp(
            start, upstream, actions, shape, dt, control_space, start_index, start_rows, goal_arguments, want_dt
        )
        return memory.arrays if dt_gradient is None else memory.arrays._replace(dt=dt_gradient.numpy())

    def evaluate(
        self,
        start: StartState,
        actions: Array,
        cost: QuadraticCost,
        dt: float | Array | None = None,
        *,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        spline: SplineForm | None = None,
        wanted: Wanted = USUALLY_WANTED,
    ) -> Evaluation:
        """Return what trajectories cost, and gradients of the sum of the costs; no trajectory is kept.

        Args:
            start: as for `integrate`, as all that is not said here.
            actions: `[B, Ha, dof]`.
            cost: as for `kernels.quadratic_cost`, of arrays; limits come all three or not at all.
            dt: step lengths, s.
            control_space: None for the configured one.
            start_index: `[B]` integers.
            goal: goal rows.
            goal_index: `[B]` integers.
            spline: the form of B-splines.
            wanted: which gradients.

        Returns:
            Evaluation of arrays, valid until the next call of `evaluate`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device.

        """
        config = self.config
        kernel = self.control_map(control_space, spline)
        batch, horizon = check_actions(actions.shape, config)
        index = check_start_index(start_index, check_start(start, config.dof), batch)
        step = self._step_lengths(dt, batch, horizon, kernel)
        end = check_goal(kernel, goal, goal_index, None, actions.shape)
        work = EvaluationWork(kernel, actions, start.rows, index, step, end, cost, wanted)
        fused = isinstance(self._runner, DirectRunner)
        return evaluate(work, self.device, self.dtype, self._buffers, self._sizes, fused=fused)

    def time_from_start(
        self,
        dt: float | Array | None,
        batch: int,
        action_horizon: int,
        control_space: ControlSpace | None = None,
        spline: SplineForm | None = None,
    ) -> np.ndarray:
        """Time of every output row, s, float64: `[H]`, or `[B, H]` where dt differs by trajectory.

        The start state is at 0: it is row 0, or row 1 of a central difference, whose row 0 is then at -dt.
        """
        kernel = self.control_map(control_space, spline)
        step = self._step_lengths(dt, batch, action_horizon, kernel)
        time = np.empty((step.shape[0], kernel.output_horizon(action_horizon)))
        time[:] = step
        time[:, 0] = 0.0
        time.cumsum(axis=1, out=time)
        if kernel.start_row:
            time -= kernel.start_row * step[:, :1]
        return time if np.ndim(dt) == 2 else time[0]

    def with_changes(self, **changes: object) -> TrajectoryIntegrator:
        """Return an engine with some configuration fields changed; it takes over the memory where it still fits."""
        changed = TrajectoryIntegrator(dataclasses.replace(self.config, **changes))
        same_graphs = changed.config.max_graphs == self.config.max_graphs
        if (changed.device, changed.dtype) == (self.device, self.dtype) and same_graphs:
            changed._buffers, changed._runner, changed._sizes = self._buffers, self._runner, self._sizes
        return changed

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)`, so that the first real one is no slower.

        Where kernels are compiled at their first use, those for every choice of upstream gradients are, and those for
        step lengths of their own and for a start pool; what has been compiled once is kept on disk.
        """
        for batch, horizon in shapes:
            start = StartState(np.zeros((1, self.config.dof), np.float32))
            actions = np.zeros((batch, horizon, self.config.dof), np.float32)
            if isinstance(self._runner, StagedRunner):
                self._compile_variants(start, actions)
            for _ in range(2):  # a kind of call is recorded when it comes for the second time
                trajectory = self.integrate(start, actions)
                self.vjp(start, UpstreamGradient(trajectory.position), actions=actions)

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        self._buffers.clear()
        self._runner.release()
        self._sizes.forget()

    def _compile_variants(self, start: StartState, actions: np.ndarray) -> None:
        """Do each kind of call that runs other machine code once."""
        batch, horizon, dof = actions.shape
        shape = (batch, self.output_horizon(horizon), dof)
        some = np.zeros(shape, np.float32)
        for given in itertools.product((None, some), repeat=4):
            if any(gradient is not None for gradient in given):
                self.vjp(start, UpstreamGradient(*given), actions=actions)
        steps = None if self.control_map().uniform_dt_only else np.full(horizon, self.config.dt)
        pool = StartState(*(np.zeros((2, dof), np.float32) for _ in range(3)))
        for dt, row, index in ((steps, start, None), (None, pool, np.zeros(batch, np.int64))):
            self.integrate(row, actions, dt, start_index=index)
            self.vjp(row, UpstreamGradient(*[some] * 4), actions=actions, dt=dt, start_index=index)

    def _make_runner(self) -> Runner:
        if default_backend(self.device) is Backend.NATIVE:
            return DirectRunner(self.dtype)
        return StagedRunner(self.device, self.dtype, self.config.max_graphs)

    def _integrate(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None,
        control_space: ControlSpace | None,
        start_index: Array | None,
        goal: StartState | None,
        goal_index: Array | None,
        spline: SplineForm | None,
    ) -> ForwardResults:
        config = self.config
        kernel = self._maps.get((control_space, spline)) or self.control_map(control_space, spline)
        batch, horizon = check_actions(actions.shape, config)
        index = check_start_index(start_index, check_start(start, config.dof), batch)
        step = self._step_lengths(dt, batch, horizon, kernel)
        end = check_goal(kernel, goal, goal_index, None, actions.shape)
        if end.count is not None and kernel.goal_place:
            actions, end = actions_to_goal(actions, end, kernel.goal_place, self._buffers), NO_GOAL
        shape = (4, batch, kernel.output_horizon(horizon), config.dof)
        results = self._results("trajectory", shape, ForwardResults.of)
        work = ForwardWork(kernel, actions, start.rows, index, step, results.tensor, end.rows, end.index)
        split.forward(work, self._runner, self._sizes)
        return results

    def _vjp(
        self,
        start: StartState | None,
        upstream: UpstreamGradient,
        actions: Array | None,
        batch_and_horizon: tuple[int | None, int | None],
        dt: float | Array | None,
        control_space: ControlSpace | None,
        start_index: Array | None,
        start_rows: int,
        goal_arguments: tuple[StartState | None, Array | None, int | None, SplineForm | None],
        want_dt: bool,
    ) -> tuple[VjpResults, Tensor | None]:
        config = self.config
        *goal_arguments, spline = goal_arguments
        kernel = self._maps.get((control_space, spline)) or self.control_map(control_space, spline)
        if actions is None:
            if want_dt:
                raise ValueError("actions: the gradient of dt needs them, got None")
            if None in batch_and_horizon:
                given = ", ".join(map(str, batch_and_horizon))
                raise ValueError(f"batch, action_horizon: expected both without actions, got {given}")
            shape = (*batch_and_horizon, config.dof)
        else:
            shape = tuple(actions.shape)
        batch, horizon = check_actions(shape, config)
        rows = start_rows if start is None else check_start(start, config.dof)
        index = check_start_index(start_index, rows, batch)
        step = self._step_lengths(dt, batch, horizon, kernel)
        some = check_upstream(upstream, (batch, kernel.output_horizon(horizon), config.dof))
        end = check_goal(kernel, *goal_arguments, shape)
        replaces = end.count is not None and kernel.goal_place
        goals = 0 if end.count is None else len(kernel.goal)
        results = self._results("gradient", (rows, *shape, end.count or 0, goals), VjpResults.of)
        tensors = results.tensors
        if some:
            into = () if replaces else tensors[5 : 5 + goals]
            work = VjpWork(kernel, upstream, index, step, tensors.action, tensors[1:4], into, end.index)
            split.vjp(work if into else work._replace(goal_index=None), self._runner, self._sizes)
            if replaces:
                gradient_to_goal(tensors.action, tensors.goal_position, end.index, kernel.goal_place)
        else:
            results.arrays.values.fill(0)
        if not want_dt:
            return results, None
        if not some:
            return results, torch.zeros(np.shape(dt), dtype=torch.float64)
        if end.count is not None and not end.rows:
            raise ValueError("goal: the gradient of dt needs it, got None")
        if replaces:
            actions, end = actions_to_goal(actions, end, kernel.goal_place, self._buffers), NO_GOAL
        states = (_AT_REST if start is None else start.rows, index, step, end.rows, end.index)
        work = DtWork(kernel, upstream, actions, *states)
        gradient = vjp_dt(work, self.device, self.dtype, self._sizes)
        return results, gradient.reshape(np.shape(dt))

    def _step_lengths(self, dt: float | Array | None, batch: int, horizon: int, kernel: ControlMap) -> np.ndarray:
        """Step lengths, s, `[1 or B, 1 or Ha]`, float64; those given as numbers are checked and made once."""
        if dt is None:
            dt = self.config.dt
        if type(dt) is not float:
            return check_dt(dt, batch, horizon, one_for=kernel.operator.one_dt_for)
        step = self._steps.get(dt)
        if step is None:
            step = check_dt(dt, batch, horizon)
            if len(self._steps) >= _MOST_STEPS:
                self._steps.clear()
            self._steps[dt] = step
        return step

    def _results(self, name: str, shape: tuple[int, ...], make: Callable[..., NamedTuple]) -> NamedTuple:
        """Host memory for the results of a call, in all the forms they are wanted in.

        Raises:
            OutOfDeviceMemory: the host has not enough of it.

        """
        size = math.prod(shape) if name == "trajectory" else gradient_size(shape)
        try:
            return self._buffers.made("output", name, shape, size, lambda flat: make(flat, shape))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._buffers.clear()
            raise OutOfDeviceMemory(f"out of memory on cpu: {str(error).splitlines()[0]}") from error
