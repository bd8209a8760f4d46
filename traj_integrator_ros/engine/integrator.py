"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Inputs are numpy arrays or torch tensors, results are numpy arrays.
After the first calls of a kind nothing is allocated any more, except for the gradient of dt. On the CPU the C++ kernels
read their inputs in place; on CUDA each kind of call is one graph (`engine.staged`). Batches that do not fit on the
device are computed in parts (`engine.runners`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable
from functools import partial

import numpy as np
import torch

from ..kernels import (
    Backend,
    ControlMap,
    ControlSpace,
    QuadraticCost,
    SplineForm,
    backend_info,
    default_backend,
)
from .auto import AutoRunner, Crossover, numbers_of
from .call import (
    NO_ENDS,
    STARTS,
    Call,
    CheckedCalls,
    Runner,
    check_upstream,
    gradient_to_goal,
    replaces_action,
    with_goal_in_actions,
)
from .evaluation import composed_evaluation, fused_evaluation, vjp_dt
from .runners import Buffers, DirectRunner, PartSizes, Pieces
from .staged import StagedRunner
from .types import (
    DTYPES,
    Array,
    Evaluation,
    Gradient,
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    UpstreamGradient,
    Wanted,
    is_out_of_memory,
    resolve_device,
)

_SAME_MEMORY = ("device", "dtype", "max_graphs")
"""Fields of the configuration that memory depends on."""
_USUALLY_WANTED = Wanted()


class TrajectoryIntegrator:
    """Integrates action sequences, and computes vector-Jacobian products of the integration.

    Results are views of buffers that the next call of the same kind overwrites. Inputs are
    read during the call only, and may be read-only.

    Args:
        config: what to integrate, how and where.
        runner: what computes; None for the fastest runner on the device.

    Raises:
        ValueError: a device that does not exist, named with those that do.

    """

    def __init__(self, config: IntegratorConfig, runner: Runner | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dtype = DTYPES[config.dtype]
        self._buffers = Buffers(self.device, self.dtype)
        self._inputs = Buffers(self.device, self.dtype)  # of what the runner does not do
        self._runner = self._make_runner() if runner is None else runner
        self._sizes = PartSizes(str(self.device), self._runner, self._inputs)
        self._calls = CheckedCalls(config)

    @property
    def backend(self) -> str:
        """The backend on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    @property
    def crossover(self) -> Crossover | None:
        """Sizes from which on the device computes instead of the CPU; None if one computes all, or before measuring."""
        return self._runner.crossover if isinstance(self._runner, AutoRunner) else None

    @property
    def place(self) -> str:
        """Where calls are computed, in words."""
        if self.crossover is None:
            return str(self.device)
        forward, vjp = (f"{numbers:.3g}" for numbers in self.crossover)
        return f"{self.device}, or the CPU below {forward} numbers in a batch of trajectories (gradients: {vjp})"

    @property
    def backend_obstacle(self) -> str:
        """Why a backend slower than the device's best one is used; empty if the best one is."""
        kind = self.device.type
        best = Backend.TRITON if kind == "cuda" else Backend.NATIVE
        unavailable = next((info.unavailable for info in backend_info() if info.device == kind), {})
        return unavailable.get(best, "")

    def control_map(self, control_space: ControlSpace | None = None, spline: SplineForm | None = None) -> ControlMap:
        """Return the map of `control_space` (None: the configured one) with the configured schemes.

        `spline` is the form of B-splines; None for the configured one.
        """
        return self._calls.control_map(control_space, spline)

    def output_horizon(
        self, action_horizon: int, control_space: ControlSpace | None = None, spline: SplineForm | None = None
    ) -> int:
        """Number of trajectory rows for `action_horizon` actions."""
        return self.control_map(control_space, spline).output_horizon(action_horizon)

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
            One contiguous array `[4, B, H, dof]`, position to jerk, valid until the next call that integrates.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results do not fit on the host.

        """
        ends = (start, 1, start_index, goal, goal_index, None)
        call = self._calls.checked(actions.shape, dt, control_space, spline, ends, actions)
        if replaces_action(call):
            call = with_goal_in_actions(call, self._buffers.actions_to_the_goal(call.shape))
        results = self._results("trajectory", ((4, *call.output_shape),))
        self._sizes.run(call.into(results.tensors), self._runner)
        return results.arrays[0]

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
    ) -> Gradient:
        """Compute the vector-Jacobian product of `integrate_array`: upstream gradients to those of its arguments.

        The maps are linear in actions and start state, so both are needed for the gradient of dt only; without actions,
        `batch` and `action_horizon` give the shape, without start, `start_rows` does.

        Args (those of `integrate_array` apart):
            start: may be None, for rest.
            upstream: gradient with respect to each output, `[B, H, dof]` or None.
            actions: `[B, Ha, dof]`; required by `want_dt`.
            batch: B, where `actions` is None.
            action_horizon: Ha, where `actions` is None.
            start_rows: S, where `start` is None.
            goal_rows: rows of the goal where `goal` is None; None: there is no goal.
            want_dt: also return the gradient of dt, for which each call allocates memory.

        Returns:
            Gradients as arrays, valid until the next call that computes gradients.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results do not fit on the host.

        """
        if actions is None and want_dt:
            raise ValueError("actions: the gradient of dt needs them, got None")
        if actions is None and (batch is None or action_horizon is None):
            raise ValueError(f"batch, action_horizon: expected both without actions, got {batch}, {action_horizon}")
        shape = (batch, action_horizon, self.config.dof) if actions is None else actions.shape
        ends = (start, start_rows, start_index, goal, goal_index, goal_rows)
        call = self._calls.checked(shape, dt, control_space, spline, ends, None, tuple(upstream))
        is_zero = not check_upstream(upstream, call.output_shape)
        found = self._vjp(call, is_zero=is_zero)
        if not want_dt:
            return found
        if is_zero:
            return found._replace(dt=np.zeros(np.shape(dt)))
        call = self._calls.checked(shape, dt, control_space, spline, ends, actions, tuple(upstream))
        return found._replace(dt=self._vjp_dt(call).reshape(np.shape(dt)))

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
        wanted: Wanted = _USUALLY_WANTED,
    ) -> Evaluation:
        """Return the costs of trajectories, and gradients of the sum of the costs; no trajectory is kept.

        Args (those of `integrate_array` apart):
            cost: as for `kernels.quadratic_cost`, with arrays; limit_weight, lower and upper are given together, and
                duration_weight is a number or an array `[B]`.
            wanted: which gradients.

        Returns:
            Evaluation of arrays, valid until the next call of `evaluate`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device.

        """
        ends = (start, 1, start_index, goal, goal_index, None)
        call = self._calls.checked(actions.shape, dt, control_space, spline, ends, actions)
        runner = self._runner
        if isinstance(runner, AutoRunner) and runner.is_for_cpu(numbers_of(call)):
            runner = runner.cpu
        try:
            if isinstance(runner, DirectRunner) and not wanted.dt:
                return fused_evaluation(call, cost, wanted, self._buffers)
            return composed_evaluation(call, cost, wanted, self._inputs, self._sizes)
        except (MemoryError, RuntimeError) as error:
            raise self._host_is_full(error) from error

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
        step = self._calls.step_lengths(dt, batch, action_horizon, kernel)
        time = np.empty((step.shape[0], kernel.output_horizon(action_horizon)))
        time[:] = step
        time[:, 0] = 0.0
        time.cumsum(axis=1, out=time)
        if kernel.start_row:
            time -= kernel.start_row * step[:, :1]
        return time if np.ndim(dt) == 2 else time[0]

    def with_changes(self, **changes: object) -> TrajectoryIntegrator:
        """Return an engine with some configuration fields changed; it takes over the memory if that still fits."""
        changed = TrajectoryIntegrator(dataclasses.replace(self.config, **changes))
        if all(getattr(changed.config, name) == getattr(self.config, name) for name in _SAME_MEMORY):
            changed._buffers, changed._inputs = self._buffers, self._inputs
            changed._runner, changed._sizes = self._runner, self._sizes
        return changed

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)`, so that the first real call is no slower.

        Where kernels are compiled at first use, this compiles all kernels that calls with one step length, or with one
        for each step, need: for every choice of upstream gradients and start rows, for a start pool, and for the
        gradient of dt. Compiled kernels are cached on disk.
        """
        for batch, horizon in shapes:
            start = StartState(np.zeros((1, self.config.dof), np.float32))
            actions = np.zeros((batch, horizon, self.config.dof), np.float32)
            runner = self._runner.device if isinstance(self._runner, AutoRunner) else self._runner
            if isinstance(runner, StagedRunner):
                _call_every_kind(TrajectoryIntegrator(self.config, runner), actions)
            for _ in range(2):  # a kind of call is recorded when it occurs for the second time
                trajectory = self.integrate_array(start, actions)
                self.vjp_arrays(start, UpstreamGradient(trajectory[0]), actions=actions)

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        self._buffers.release()
        self._sizes.release()

    def _vjp(self, call: Call, *, is_zero: bool) -> Gradient:
        """The gradients but that of dt, in memory that the next call overwrites."""
        dof, goals = call.shape[2], 0 if call.goal.count is None else len(call.kernel.goal)
        shapes = call.shape, *((call.start.count, dof),) * STARTS, *((call.goal.count, dof),) * goals
        results = self._results("gradient", shapes)
        if is_zero:
            results.whole.fill(0)
        elif replaces_action(call):
            *kept, goal = results.tensors
            self._sizes.run(call._replace(goal=NO_ENDS, results=tuple(kept)), self._runner)
            gradient_to_goal(kept[0], goal, call.goal.index, call.kernel.goal_place)
        else:
            self._sizes.run(call.into(results.tensors), self._runner)
        return Gradient(*results.arrays[: 1 + STARTS], None, results.whole, *results.arrays[1 + STARTS :])

    def _vjp_dt(self, call: Call) -> np.ndarray:
        """The gradient of dt, `[1 or B, 1 or Ha]`."""
        if call.goal.count is not None and not call.goal.rows:
            raise ValueError("goal: the gradient of dt needs it, got None")
        if replaces_action(call):
            call = with_goal_in_actions(call, self._buffers.actions_to_the_goal(call.shape))
        return vjp_dt(call, self._inputs, self._sizes).numpy()

    def _make_runner(self) -> Runner:
        if default_backend(self.device) is Backend.NATIVE:
            return DirectRunner(self.dtype)
        staged = StagedRunner(self.device, self.dtype, self.config.max_graphs)
        if self.config.device != "auto" or default_backend(torch.device("cpu")) is not Backend.NATIVE:
            return staged
        allocate = partial(torch.empty, dtype=self.dtype, pin_memory=self.device.type == "cuda")
        return AutoRunner(DirectRunner(self.dtype), staged, allocate)

    def _results(self, name: str, shapes: tuple[tuple[int, ...], ...]) -> Pieces:
        """Host memory for the results of a call."""
        try:
            return self._buffers.pieces(name, shapes)
        except (MemoryError, RuntimeError) as error:
            raise self._host_is_full(error) from error

    def _host_is_full(self, error: Exception) -> Exception:
        """The error to raise: itself, unless the host has no memory left for results."""
        if isinstance(error, OutOfDeviceMemory) or not is_out_of_memory(error):
            return error
        self._buffers.release()
        return OutOfDeviceMemory(f"out of memory on cpu: {str(error).splitlines()[0]}")


def _call_every_kind(engine: TrajectoryIntegrator, actions: np.ndarray) -> None:
    """Make a call of each kind that runs other machine code, of the configured map; actions are `[B, Ha, dof]`."""
    batch, horizon, dof = actions.shape
    gradient, row = np.zeros((batch, engine.output_horizon(horizon), dof), np.float32), np.zeros((1, dof), np.float32)
    *given, all_given = list(itertools.product((None, gradient), repeat=4))[1:]
    starts = [StartState(row, *others) for others in itertools.product((None, row), repeat=2)]
    index = np.zeros(batch, np.int64)
    for dt in [None] if engine.control_map().uniform_dt_only else [None, np.full(horizon, engine.config.dt)]:
        for subset in given:
            engine.vjp_arrays(None, UpstreamGradient(*subset), actions=actions, dt=dt)
        # The kernel for the gradient of dt is the same for all choices.
        engine.vjp_arrays(starts[-1], UpstreamGradient(*all_given), actions=actions, dt=dt, want_dt=True)
        for start, start_index in itertools.product(starts, (None, index)):
            engine.integrate_array(start, actions, dt, start_index=start_index)
    engine.vjp_arrays(None, UpstreamGradient(*all_given), actions=actions, start_index=index, start_rows=2)
