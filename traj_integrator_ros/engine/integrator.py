"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Inputs are numpy arrays or torch tensors, results are on the CPU, as tensors or as numpy arrays.
After the first calls of a kind nothing is allocated any more, except for the gradient of dt. On the CPU the C++ kernels
read their inputs in place; on CUDA each kind of call is one graph (`engine.staged`), without copies if it is small
(`engine.mapped`). Batches that do not fit on the device are computed in parts (`engine.split`).
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterable

import numpy as np

from ..kernels import (
    Backend,
    ControlMap,
    ControlSpace,
    CostTerm,
    QuadraticCost,
    SplineForm,
    Trajectory,
    backend_info,
    default_backend,
)
from .auto import Crossover
from .calls import Calls
from .evaluation_work import USUALLY_WANTED, Evaluation, Wanted
from .signatures import takes_what
from .types import (
    Array,
    Gradient,
    GradientArrays,
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    UpstreamGradient,
    resolve_device,
)
from .work import Runner

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
        self._calls = Calls(config, runner)
        self.device, self.dtype = self._calls.device, self._calls.dtype

    @property
    def backend(self) -> str:
        """The backend on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    @property
    def crossover(self) -> Crossover | None:
        """Sizes from which on the device computes instead of the CPU; None if one computes all, or before measuring."""
        return self._calls.crossover

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
        results = self._calls.integrate(start, actions, dt, control_space, start_index, goal, goal_index, spline)
        return results.array

    @takes_what(integrate_array)
    def integrate(self, *arguments: object, **named: object) -> Trajectory:
        """Integrate as `integrate_array` does, into four CPU tensors `[B, H, dof]`."""
        return self._calls.integrate(*arguments, **named).trajectory

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
        """Compute the vector-Jacobian product of `integrate_array`: upstream gradients to those of its arguments.

        The maps are linear in actions and start state, so both are needed for the gradient of dt only; without actions,
        `batch` and `action_horizon` give the shape, without start, `start_rows` does.

        Args:
            start: as for `integrate_array`; None for rest.
            upstream: gradient with respect to each output, `[B, H, dof]` or None.
            actions: `[B, Ha, dof]`; required by `want_dt`.
            batch: B, where `actions` is None.
            action_horizon: Ha, where `actions` is None.
            dt: as for `integrate_array`.
            control_space: as for `integrate_array`.
            start_index: as for `integrate_array`.
            start_rows: S, where `start` is None.
            goal: as for `integrate_array`.
            goal_index: as for `integrate_array`.
            goal_rows: rows of the goal where `goal` is None; None: there is no goal.
            spline: as for `integrate_array`.
            want_dt: also return the gradient of dt, for which each call allocates memory.

        Returns:
            Gradients as arrays, valid until the next call that computes gradients.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results do not fit on the host.

        """
        shape, ends = (actions, batch, action_horizon), (goal, goal_index, goal_rows)
        memory, dt_gradient = self._calls.vjp(
            start, upstream, *shape, dt, control_space, start_index, start_rows, *ends, spline, want_dt
        )
        return memory.arrays if dt_gradient is None else memory.arrays._replace(dt=dt_gradient.numpy())

    @takes_what(vjp_arrays)
    def vjp(self, *arguments: object, **named: object) -> Gradient:
        """Compute what `vjp_arrays` does, as CPU tensors."""
        memory, dt_gradient = self._calls.vjp(*arguments, **named)
        return memory.tensors if dt_gradient is None else memory.tensors._replace(dt=dt_gradient)

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
        """Return the costs of trajectories, and gradients of the sum of the costs; no trajectory is kept.

        Args:
            start: as for `integrate_array`, like all arguments whose shape is not given here.
            actions: `[B, Ha, dof]`.
            cost: as for `kernels.quadratic_cost`, with arrays; limit_weight, lower and upper are given together.
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
        arguments = (dt, control_space, start_index, goal, goal_index, spline)
        return self._calls.evaluate(start, actions, cost, *arguments, wanted)

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
        same = ("device", "dtype", "max_graphs", "mapped_bytes")
        if all(getattr(changed.config, name) == getattr(self.config, name) for name in same):
            changed._calls.take_over(self._calls)
        return changed

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)`, so that the first real call is no slower.

        Where kernels are compiled at first use, this compiles all kernels that calls with one step length, or with one
        for each step, need: for every choice of upstream gradients and start rows, for a start pool, for the gradient
        of dt, for costs with and without limits. Compiled kernels are cached on disk.
        """
        for batch, horizon in shapes:
            start = StartState(np.zeros((1, self.config.dof), np.float32))
            actions = np.zeros((batch, horizon, self.config.dof), np.float32)
            with self._calls.on_what_compiles() as compiles:
                if compiles:
                    self._compile_variants(actions)
            for _ in range(2):  # a kind of call is recorded when it occurs for the second time
                trajectory = self.integrate(start, actions)
                self.vjp(start, UpstreamGradient(trajectory.position), actions=actions)

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        self._calls.release()

    def _compile_variants(self, actions: np.ndarray) -> None:
        """Make one call of each kind that runs different machine code."""
        batch, horizon, dof = actions.shape
        some = np.zeros((batch, self.output_horizon(horizon), dof), np.float32)
        steps = [None] if self.control_map().uniform_dt_only else [None, np.full(horizon, self.config.dt)]
        given = list(itertools.product((None, some), repeat=4))[1:]
        row = np.zeros((1, dof), np.float32)
        starts = [StartState(row, *others) for others in itertools.product((None, row), repeat=2)]
        for dt in steps:
            for subset in given:
                # The kernel for the gradient of dt is the same for all of them.
                want_dt = subset is given[-1]
                self.vjp(starts[-1], UpstreamGradient(*subset), actions=actions, dt=dt, want_dt=want_dt)
            for index in (None, np.zeros(batch, np.int64)):
                for given_start in starts:
                    self.integrate(given_start, actions, dt, start_index=index)
                for limit in (None, row[0]):
                    term = CostTerm(weight=row[0], limit_weight=limit, lower=limit, upper=limit)
                    self.evaluate(starts[-1], actions, QuadraticCost(*[term] * 4), dt, start_index=index)
        pool = StartState(*[np.zeros((2, dof), np.float32)] * 3)
        self.vjp(pool, UpstreamGradient(*given[-1]), actions=actions, start_index=np.zeros(batch, np.int64))
