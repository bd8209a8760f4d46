"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Arrays go in as numpy or torch, results come out on the CPU, as tensors or as numpy arrays. Once a
kind of call has been seen, nothing is allocated any more, except for the gradient of dt. On the CPU the C++ kernels
read what they are given in place; on CUDA each kind of call is one graph (`engine.staged`). What does not fit on the
device is done in parts (`engine.split`).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import Backend, ControlMap, ControlSpace, Trajectory, control_map, default_backend
from . import split
from .buffers import Buffers
from .checks import check_actions, check_dt, check_start, check_start_index, check_upstream
from .direct import DirectExecutor
from .dt import DtWork, vjp_dt
from .staged import StagedExecutor
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
from .work import Executor, ForwardWork, VjpWork

__all__ = [
    "Gradient",
    "GradientArrays",
    "IntegratorConfig",
    "OutOfDeviceMemory",
    "StartState",
    "TrajectoryIntegrator",
    "UpstreamGradient",
    "resolve_device",
]

# Step lengths given as numbers that are kept as arrays.
_MOST_STEPS = 64
_AT_REST = (None, None, None)


class TrajectoryIntegrator:
    """Integrates action sequences and pulls gradients back through them.

    Results of `integrate` and `vjp` are views of buffers that the next call of the same method overwrites. Inputs are
    read during the call only, and may be read-only.

    Args:
        config: what to integrate, how and where.
        executor: what does the work; None for the fastest on the device.

    Raises:
        ValueError: a device that is not there, named with what is.

    """

    def __init__(self, config: IntegratorConfig, executor: Executor | None = None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dtype = DTYPES[config.dtype]
        self._buffers = Buffers(self.device, self.dtype)
        self._executor = self._make_executor() if executor is None else executor
        self._sizes = split.PartSizes(str(self.device), self._executor.release)
        self._maps: dict[ControlSpace | None, ControlMap] = {}
        self._steps: dict[float, np.ndarray] = {}

    @property
    def backend(self) -> str:
        """What computes on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    def control_map(self, control_space: ControlSpace | None = None) -> ControlMap:
        """Return the map of `control_space` (None: the configured one) under the configured schemes."""
        known = self._maps.get(control_space)
        if known is None:
            config = self.config
            space = config.control_space if control_space is None else control_space
            known = control_map(space, config.finite_difference, config.acceleration_integrator)
            self._maps[control_space] = known
        return known

    def output_horizon(self, action_horizon: int, control_space: ControlSpace | None = None) -> int:
        """Number of trajectory rows that `action_horizon` actions give."""
        return action_horizon + self.control_map(control_space).extra_horizon

    def integrate(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None = None,
        *,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
    ) -> Trajectory:
        """Integrate a batch of action sequences.

        Args:
            start: start rows `[1, dof]`, `[B, dof]`, or a pool `[S, dof]` for `start_index`.
            actions: `[B, Ha, dof]`, in the unit of the control space.
            dt: step lengths, s: None for the configured one, a number, `[Ha]`, `[B, 1]` or `[B, Ha]`.
            control_space: None for the configured one.
            start_index: `[B]` integers, the start row of each trajectory.

        Returns:
            Trajectory of `[B, H, dof]` CPU tensors, valid until the next call of `integrate`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results not on the host.

        """
        return self._integrate(start, actions, dt, control_space, start_index).trajectory

    def integrate_array(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None = None,
        *,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
    ) -> np.ndarray:
        """Integrate as `integrate` does, into one contiguous array `[4, B, H, dof]`: position to jerk."""
        return self._integrate(start, actions, dt, control_space, start_index).array

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
            want_dt: also return the gradient of dt; that one takes memory of its own at each call.

        Returns:
            Gradient of CPU tensors, valid until the next call of `vjp`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: one trajectory does not fit on the device, or the results not on the host.

        """
        arguments = (start, upstream, actions, batch, action_horizon, dt, control_space, start_index, start_rows)
        memory, dt_gradient = self._vjp(*arguments, want_dt)
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
        want_dt: bool = False,
    ) -> GradientArrays:
        """Pull back as `vjp` does, into numpy arrays."""
        arguments = (start, upstream, actions, batch, action_horizon, dt, control_space, start_index, start_rows)
        memory, dt_gradient = self._vjp(*arguments, want_dt)
        return memory.arrays if dt_gradient is None else memory.arrays._replace(dt=dt_gradient.numpy())

    def time_from_start(
        self,
        dt: float | Array | None,
        batch: int,
        action_horizon: int,
        control_space: ControlSpace | None = None,
    ) -> np.ndarray:
        """Time of every output row, s, float64: `[H]`, or `[B, H]` where dt differs by trajectory.

        The start state is at 0: it is row 0, or row 1 of a central difference, whose row 0 is then at -dt.
        """
        kernel = self.control_map(control_space)
        step = self._step_lengths(dt, batch, action_horizon, kernel)
        time = np.empty((step.shape[0], action_horizon + kernel.extra_horizon))
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
            changed._buffers, changed._executor, changed._sizes = self._buffers, self._executor, self._sizes
        return changed

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)`, so that the first real one is no slower."""
        for batch, horizon in shapes:
            start = StartState(np.zeros((1, self.config.dof), np.float32))
            actions = np.zeros((batch, horizon, self.config.dof), np.float32)
            for _ in range(2):  # a kind of call is recorded when it comes for the second time
                trajectory = self.integrate(start, actions)
                self.vjp(start, UpstreamGradient(trajectory.position), actions=actions)

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        self._buffers.clear()
        self._executor.release()
        self._sizes.forget()

    def _make_executor(self) -> Executor:
        if default_backend(self.device) is Backend.NATIVE:
            return DirectExecutor(self.dtype)
        return StagedExecutor(self.device, self.dtype, self.config.max_graphs)

    def _integrate(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None,
        control_space: ControlSpace | None,
        start_index: Array | None,
    ) -> _ForwardResults:
        config = self.config
        kernel = self._maps.get(control_space) or self.control_map(control_space)
        batch, horizon = check_actions(actions.shape, config)
        index = check_start_index(start_index, check_start(start, config.dof), batch)
        step = self._step_lengths(dt, batch, horizon, kernel)
        shape = (4, batch, horizon + kernel.extra_horizon, config.dof)
        results = self._results("trajectory", shape, _ForwardResults.of)
        work = ForwardWork(kernel, actions, start.rows, index, step, results.tensor)
        split.forward(work, self._executor, self._sizes)
        return results

    def _vjp(
        self,
        start: StartState | None,
        upstream: UpstreamGradient,
        actions: Array | None,
        batch: int | None,
        action_horizon: int | None,
        dt: float | Array | None,
        control_space: ControlSpace | None,
        start_index: Array | None,
        start_rows: int,
        want_dt: bool,
    ) -> tuple[_VjpResults, Tensor | None]:
        config = self.config
        kernel = self._maps.get(control_space) or self.control_map(control_space)
        if actions is None:
            if want_dt:
                raise ValueError("actions: the gradient of dt needs them, got None")
            if batch is None or action_horizon is None:
                raise ValueError(f"batch, action_horizon: expected both without actions, got {batch}, {action_horizon}")
            shape = (batch, action_horizon, config.dof)
        else:
            shape = tuple(actions.shape)
        batch, horizon = check_actions(shape, config)
        rows = start_rows if start is None else check_start(start, config.dof)
        index = check_start_index(start_index, rows, batch)
        step = self._step_lengths(dt, batch, horizon, kernel)
        some = check_upstream(upstream, (batch, horizon + kernel.extra_horizon, config.dof))
        results = self._results("gradient", (rows, *shape), _VjpResults.of)
        if some:
            work = VjpWork(kernel, upstream, index, step, results.tensors.action, results.tensors[1:4])
            split.vjp(work, self._executor, self._sizes)
        else:
            results.arrays.values.fill(0)
        if not want_dt:
            return results, None
        if not some:
            return results, torch.zeros(np.shape(dt), dtype=torch.float64)
        work = DtWork(kernel, upstream, actions, _AT_REST if start is None else start.rows, index, step)
        gradient = vjp_dt(work, self.device, self.dtype, self._sizes)
        return results, gradient.reshape(np.shape(dt))

    def _step_lengths(self, dt: float | Array | None, batch: int, horizon: int, kernel: ControlMap) -> np.ndarray:
        """Step lengths, s, `[1 or B, 1 or Ha]`, float64; those given as numbers are checked and made once."""
        if dt is None:
            dt = self.config.dt
        if type(dt) is not float:
            return check_dt(dt, batch, horizon, uniform=kernel.uniform_dt_only)
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
        rows, batch, horizon, dof = shape
        size = math.prod(shape) if name == "trajectory" else (batch * horizon + 3 * rows) * dof
        try:
            return self._buffers.made("output", name, shape, size, lambda flat: make(flat, shape))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._buffers.clear()
            raise OutOfDeviceMemory(f"out of memory on cpu: {str(error).splitlines()[0]}") from error


class _ForwardResults(NamedTuple):
    """`[4, B, H, dof]` three times over."""

    tensor: Tensor
    array: np.ndarray
    trajectory: Trajectory

    @classmethod
    def of(cls, flat: Tensor, shape: tuple[int, ...]) -> _ForwardResults:
        tensor = flat.view(shape)
        return cls(tensor, tensor.numpy(), Trajectory(*tensor.unbind()))


class _VjpResults(NamedTuple):
    """Gradients of actions and start rows twice over."""

    tensors: Gradient
    arrays: GradientArrays

    @classmethod
    def of(cls, flat: Tensor, shape: tuple[int, ...]) -> _VjpResults:
        rows, batch, horizon, dof = shape
        action, *starts = flat.split([batch * horizon * dof, *[rows * dof] * 3])
        views = [action.view(batch, horizon, dof), *(start.view(rows, dof) for start in starts)]
        return cls(Gradient(*views, None), GradientArrays(*(view.numpy() for view in views), None, flat.numpy()))
