"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Arrays go in as numpy or torch, results come out as tensors on the CPU.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from .engine_buffers import Buffers
from .kernels import (
    AccelerationIntegrator,
    ControlMap,
    ControlSpace,
    FiniteDifference,
    Trajectory,
    control_map,
    default_backend,
)

Array = np.ndarray | Tensor

_DTYPES = {"float32": torch.float32, "float64": torch.float64}


@dataclass(frozen=True)
class IntegratorConfig:
    """What an engine integrates, how, and on which device.

    Raises:
        ValueError: a field out of its range, named.

    """

    dof: int
    control_space: ControlSpace = ControlSpace.POSITION
    finite_difference: FiniteDifference = FiniteDifference.BACKWARD
    acceleration_integrator: AccelerationIntegrator = AccelerationIntegrator.ZOH
    dt: float = 0.02
    """Default step length, s."""
    device: str = "auto"
    """"auto" (CUDA where there is one), "cpu", "cuda" or "cuda:N"."""
    dtype: str = "float32"
    max_batch: int = 1024
    max_horizon: int = 256
    """Longest action horizon; trajectories by central difference are 4 longer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "control_space", ControlSpace(self.control_space))
        object.__setattr__(self, "finite_difference", FiniteDifference(self.finite_difference))
        object.__setattr__(self, "acceleration_integrator", AccelerationIntegrator(self.acceleration_integrator))
        for name in ("dof", "max_batch", "max_horizon"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if not (math.isfinite(self.dt) and self.dt > 0):
            raise ValueError(f"dt: expected a finite number of seconds > 0, got {self.dt}")
        if self.dtype not in _DTYPES:
            raise ValueError(f"dtype: expected one of {', '.join(_DTYPES)}, got {self.dtype!r}")


@dataclass(frozen=True)
class StartState:
    """Start rows `[S, dof]`: one for all trajectories, one for each, or a pool for `start_index`."""

    position: Array
    velocity: Array | None = None
    acceleration: Array | None = None

    @property
    def rows(self) -> tuple[Array | None, Array | None, Array | None]:
        """Position, velocity and acceleration rows."""
        return self.position, self.velocity, self.acceleration


class UpstreamGradient(NamedTuple):
    """Gradient of a cost with respect to a trajectory's outputs, each `[B, H, dof]`; None means 0 and costs nothing."""

    position: Array | None = None
    velocity: Array | None = None
    acceleration: Array | None = None
    jerk: Array | None = None


class Gradient(NamedTuple):
    """Gradient of a cost with respect to the inputs of `integrate`, on the CPU."""

    action: Tensor  # [B, Ha, dof]
    start_position: Tensor  # [S, dof]
    start_velocity: Tensor
    start_acceleration: Tensor
    dt: Tensor | None  # in the shape that dt was given; None unless asked for


class OutOfDeviceMemory(RuntimeError):
    """The device could not hold a batch; the engine has dropped its buffers and goes on."""


class TrajectoryIntegrator:
    """Integrates action sequences and pulls gradients back through them.

    Results of `integrate` and `vjp` are views of buffers that the next call of the same method overwrites.

    Raises:
        ValueError: a device that is not there, named with what is.

    """

    def __init__(self, config: IntegratorConfig) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dtype = _DTYPES[config.dtype]
        self._buffers = Buffers(self.device, self.dtype)

    @property
    def backend(self) -> str:
        """What computes on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    def control_map(self, control_space: ControlSpace | None = None) -> ControlMap:
        """Return the map of `control_space` (None: the configured one) under the configured schemes."""
        config = self.config
        space = config.control_space if control_space is None else control_space
        return control_map(space, config.finite_difference, config.acceleration_integrator)

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
            OutOfDeviceMemory: the batch does not fit; smaller ones still do.

        """
        kernel = self.control_map(control_space)
        batch, horizon = self._check_actions(tuple(actions.shape))
        index = self._check_start(start, start_index, batch)
        step = self._check_dt(dt, batch, horizon)
        with self._device_memory(), torch.no_grad():
            buffers = self._buffers
            outputs = kernel.step(
                buffers.device_input("actions", actions),
                *self._start_to_device(start),
                dt=buffers.device_input("dt", step, torch.float64),
                start_idx=None if index is None else buffers.device_input("start_index", index, torch.int64),
            )
            return Trajectory(*buffers.host_outputs(Trajectory._fields, outputs))

    def vjp(
        self,
        start: StartState,
        upstream: UpstreamGradient,
        *,
        actions: Array | None = None,
        batch: int | None = None,
        action_horizon: int | None = None,
        dt: float | Array | None = None,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        want_dt: bool = False,
    ) -> Gradient:
        """Pull the gradient of a cost back through `integrate`: the vector-Jacobian product.

        The maps are linear in actions and start state, so `actions` are needed for the gradient of dt alone; without
        them `batch` and `action_horizon` say the shape.

        Args:
            start: as for `integrate`.
            upstream: gradient with respect to each output, `[B, H, dof]` or None.
            actions: `[B, Ha, dof]`; required by `want_dt`.
            batch: B, where `actions` is None.
            action_horizon: Ha, where `actions` is None.
            dt: as for `integrate`.
            control_space: as for `integrate`.
            start_index: as for `integrate`.
            want_dt: also return the gradient of dt.

        Returns:
            Gradient of CPU tensors, valid until the next call of `vjp`.

        Raises:
            ValueError: an argument of a wrong shape, size or value, named.
            OutOfDeviceMemory: the batch does not fit; smaller ones still do.

        """
        kernel = self.control_map(control_space)
        if actions is None and want_dt:
            raise ValueError("actions: the gradient of dt needs them, got None")
        if actions is None and (batch is None or action_horizon is None):
            raise ValueError(f"batch, action_horizon: expected both without actions, got {batch}, {action_horizon}")
        shape = (batch, action_horizon, self.config.dof) if actions is None else tuple(actions.shape)
        batch, horizon = self._check_actions(shape)
        index = self._check_start(start, start_index, batch)
        step = self._check_dt(dt, batch, horizon)
        self._check_upstream(upstream, (batch, horizon + kernel.extra_horizon, self.config.dof))
        with self._device_memory():
            buffers = self._buffers
            lengths = buffers.device_input("dt", step, torch.float64)
            places = None if index is None else buffers.device_input("start_index", index, torch.int64)
            given = [
                None if gradient is None else buffers.device_input(f"upstream_{name}", gradient)
                for name, gradient in upstream._asdict().items()
            ]
            rows = start.position.shape[0]
            if all(gradient is None for gradient in given):
                shapes = [shape, *[(rows, self.config.dof)] * 3, *[step.shape] * want_dt]
                gradients = [torch.zeros(size, dtype=self.dtype, device=self.device) for size in shapes]
            elif want_dt:
                leaves = [buffers.device_input("actions", actions), *self._start_to_device(start), lengths]
                gradients = _pull_back_with_dt(kernel, leaves, places, given)
            else:
                gradients = kernel.pull_back(
                    given, dt=lengths, action_horizon=horizon, start_rows=rows, start_idx=places
                )
            names = ("action", "start_position", "start_velocity", "start_acceleration", "dt")
            results = buffers.host_outputs(names[: len(gradients)], gradients)
        dt_gradient = results[4].reshape(np.shape(dt)) if want_dt else None
        return Gradient(*results[:4], dt_gradient)

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
        horizon = action_horizon + kernel.extra_horizon
        step = self._check_dt(dt, batch, action_horizon)
        if kernel.uniform_dt_only and step.shape[1] != 1:
            raise ValueError(f"dt: central differences need one step length, got shape {list(np.shape(dt))}")
        time = np.broadcast_to(step, (step.shape[0], horizon)).copy()
        time[:, 0] = 0.0
        np.cumsum(time, axis=1, out=time)
        time -= kernel.start_row * step[:, :1]
        per_trajectory = np.ndim(dt) == 2 if dt is not None else False
        return time if per_trajectory else time[0]

    def with_changes(self, **changes: object) -> TrajectoryIntegrator:
        """Return an engine with some configuration fields changed; it takes over the buffers where they still fit."""
        changed = TrajectoryIntegrator(dataclasses.replace(self.config, **changes))
        if (changed.device, changed.dtype) == (self.device, self.dtype):
            changed._buffers = self._buffers
        return changed

    def warm_up(self, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)` once, so that the first real one is no slower."""
        for batch, horizon in shapes:
            start = StartState(np.zeros((1, self.config.dof), np.float32))
            actions = np.zeros((batch, horizon, self.config.dof), np.float32)
            trajectory = self.integrate(start, actions)
            self.vjp(start, UpstreamGradient(trajectory.position), actions=actions)

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        self._buffers.clear()

    @contextmanager
    def _device_memory(self) -> Iterator[None]:
        try:
            yield
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._buffers.clear()
            raise OutOfDeviceMemory(f"out of memory on {self.device}: {str(error).splitlines()[0]}") from error

    def _start_to_device(self, start: StartState) -> list[Tensor]:
        rows = start.position.shape[0]
        return [
            self._buffers.device_zeros(name, (rows, self.config.dof))
            if value is None
            else self._buffers.device_input(name, value)
            for name, value in zip(("position", "velocity", "acceleration"), start.rows, strict=True)
        ]

    def _check_actions(self, shape: tuple[int, ...]) -> tuple[int, int]:
        config = self.config
        if len(shape) != 3 or shape[2] != config.dof:
            raise ValueError(f"actions: expected shape [batch, horizon, dof = {config.dof}], got {list(shape)}")
        batch, horizon, _ = shape
        if not 1 <= batch <= config.max_batch:
            raise ValueError(f"actions: expected 1 to {config.max_batch} trajectories, got {batch}")
        if not 1 <= horizon <= config.max_horizon:
            raise ValueError(f"actions: expected 1 to {config.max_horizon} steps, got {horizon}")
        return batch, horizon

    def _check_start(self, start: StartState, start_index: Array | None, batch: int) -> np.ndarray | None:
        """Check the rows of the start state and return the index as an array."""
        rows = start.position.shape[0]
        for name, value in zip(("position", "velocity", "acceleration"), start.rows, strict=True):
            if value is not None and tuple(value.shape) != (rows, self.config.dof):
                raise ValueError(
                    f"start.{name}: expected shape [{rows}, dof = {self.config.dof}], got {list(value.shape)}"
                )
        if start_index is None:
            if rows not in (1, batch):
                raise ValueError(f"start.position: expected 1 or {batch} rows without start_index, got {rows}")
            return None
        index = np.asarray(start_index).astype(np.int64)
        if index.shape != (batch,):
            raise ValueError(f"start_index: expected shape [{batch}], got {list(index.shape)}")
        if index.min() < 0 or index.max() >= rows:
            raise ValueError(f"start_index: expected rows 0 to {rows - 1}, got {index.min()} to {index.max()}")
        return index

    def _check_dt(self, dt: float | Array | None, batch: int, horizon: int) -> np.ndarray:
        """Step lengths as `[1 or B, 1 or Ha]`, float64, finite and positive."""
        step = np.asarray(self.config.dt if dt is None else dt, dtype=np.float64)
        step = step if step.ndim == 2 else np.atleast_2d(step)
        if step.ndim != 2 or step.shape[0] not in (1, batch) or step.shape[1] not in (1, horizon):
            raise ValueError(
                f"dt: expected a number, [horizon = {horizon}], [batch = {batch}, 1] or [{batch}, {horizon}], "
                f"got shape {list(np.shape(dt))}"
            )
        if not (np.isfinite(step).all() and (step > 0).all()):
            bad = step[~(np.isfinite(step) & (step > 0))][0]
            raise ValueError(f"dt: expected finite numbers of seconds > 0, got {bad}")
        return step

    def _check_upstream(self, upstream: UpstreamGradient, shape: tuple[int, int, int]) -> None:
        for name, value in upstream._asdict().items():
            if value is not None and tuple(value.shape) != shape:
                raise ValueError(f"upstream.{name}: expected shape {list(shape)}, got {list(value.shape)}")


def resolve_device(name: str) -> torch.device:
    """Return the device that `name` ("auto", "cpu", "cuda", "cuda:N") means here.

    Raises:
        ValueError: an unknown name, or a device that is not there.

    """
    count = torch.cuda.device_count()
    if name == "auto":
        return torch.device("cuda:0" if count else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        device = None
    if device is None or device.type not in ("cpu", "cuda"):
        raise ValueError(f"device: expected auto, cpu, cuda or cuda:N, got {name!r}")
    if device.type == "cuda" and (device.index or 0) >= count:
        raise ValueError(f"device: got {name!r}, but torch {torch.__version__} sees {count} CUDA devices")
    return torch.device("cuda", device.index or 0) if device.type == "cuda" else torch.device("cpu")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an allocation failed: torch has a type for it on CUDA only, on the CPU it is known by its text."""
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _pull_back_with_dt(
    kernel: ControlMap, leaves: Sequence[Tensor], start_idx: Tensor | None, upstream: Sequence[Tensor | None]
) -> Sequence[Tensor]:
    """Gradients of the leaves: action, start position, velocity, acceleration and dt."""
    with torch.enable_grad():
        leaves = [leaf.detach().requires_grad_() for leaf in leaves]
        outputs = kernel.step(*leaves[:4], dt=leaves[4], start_idx=start_idx)
        pairs = [(output, gradient) for output, gradient in zip(outputs, upstream, strict=True) if gradient is not None]
        outputs, gradients = zip(*pairs, strict=True)
        return torch.autograd.grad(outputs, leaves, gradients, allow_unused=True, materialize_grads=True)
