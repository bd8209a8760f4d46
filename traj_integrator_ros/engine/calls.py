"""How the engine carries out calls: it checks arguments, a runner computes, results are in memory that is reused."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ..kernels import Backend, ControlMap, ControlSpace, QuadraticCost, SplineForm, control_map, default_backend
from . import split
from .auto import AutoRunner, Crossover, numbers_of
from .buffers import Buffers
from .checks import check_actions, check_dt, check_start, check_start_index, check_upstream
from .direct import DirectRunner
from .dt import DtWork, vjp_dt
from .evaluation import evaluate
from .evaluation_work import USUALLY_WANTED, Evaluation, EvaluationWork, Wanted
from .goal import NO_GOAL, actions_to_goal, check_goal, gradient_to_goal
from .mapped import most_mapped_bytes
from .packing import Pack, packer
from .results import ForwardResults, VjpResults, gradient_size
from .staged import StagedRunner
from .types import (
    DTYPES,
    Array,
    IntegratorConfig,
    OutOfDeviceMemory,
    StartState,
    UpstreamGradient,
    is_out_of_memory,
    resolve_device,
)
from .work import ForwardWork, Runner, VjpWork

# Number of step lengths, given as numbers, that are kept as arrays.
_MOST_STEPS = 64
# Number of control maps that are kept, because planners could request ever new forms of splines.
_MOST_MAPS = 64
_AT_REST = (None, None, None)


class Calls:
    """The implementation of `TrajectoryIntegrator`, whose methods document the arguments of the same names.

    Args:
        config: what to integrate, how and where.
        runner: what computes; None for the fastest runner on the device.

    Raises:
        ValueError: a device that does not exist, named with those that do.

    """

    def __init__(self, config: IntegratorConfig, runner: Runner | None) -> None:
        self.config = config
        self.device = resolve_device(config.device)
        self.dtype = DTYPES[config.dtype]
        self._buffers = Buffers(self.device, self.dtype)
        self._runner = self._make_runner() if runner is None else runner
        self._inputs = Buffers(self.device, self.dtype)  # of what the runner does not do
        self._sizes = split.PartSizes(str(self.device), partial(_free, self._runner, self._inputs))
        self._maps: dict[tuple[ControlSpace | None, SplineForm | None], ControlMap] = {}
        self._steps: dict[float, np.ndarray] = {}

    @contextlib.contextmanager
    def on_what_compiles(self) -> Iterator[bool]:
        """Let the runner that compiles kernels at first use do all calls; yields whether there is such a runner."""
        runner = self._runner
        staged = runner.device if isinstance(runner, AutoRunner) else runner
        compiles = isinstance(staged, StagedRunner)
        self._runner = staged if compiles else runner
        try:
            yield compiles
        finally:
            self._runner = runner

    @property
    def crossover(self) -> Crossover | None:
        """See `TrajectoryIntegrator.crossover`."""
        return self._runner.crossover if isinstance(self._runner, AutoRunner) else None

    def take_over(self, other: Calls) -> None:
        """Take over the memory of `other`, which has the same device and dtype."""
        self._buffers, self._inputs = other._buffers, other._inputs
        self._runner, self._sizes = other._runner, other._sizes

    def release(self) -> None:
        """Free the buffers, also those on the device."""
        self._buffers.clear()
        _free(self._runner, self._inputs)
        self._sizes.forget()

    def control_map(self, control_space: ControlSpace | None, spline: SplineForm | None) -> ControlMap:
        """Return the map of a control space with the configured schemes; it is created once."""
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

    def integrate(
        self,
        start: StartState,
        actions: Array,
        dt: float | Array | None = None,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        spline: SplineForm | None = None,
    ) -> ForwardResults:
        """Integrate into memory that the next call overwrites."""
        config = self.config
        kernel = self._maps.get((control_space, spline)) or self.control_map(control_space, spline)
        batch, horizon = check_actions(actions.shape, config)
        index = check_start_index(start_index, check_start(start, config.dof), batch)
        step = self.step_lengths(dt, batch, horizon, kernel)
        end = check_goal(kernel, goal, goal_index, None, actions.shape)
        if end.count is not None and kernel.goal_place:
            actions, end = actions_to_goal(actions, end, kernel.goal_place, self._buffers), NO_GOAL
        shape = (4, batch, kernel.output_horizon(horizon), config.dof)
        results = self._results("trajectory", shape, ForwardResults.of)
        work = ForwardWork(kernel, actions, start.rows, index, step, results.tensor, end.rows, end.index)
        split.forward(work, self._runner, self._sizes)
        return results

    def vjp(
        self,
        start: StartState | None,
        upstream: UpstreamGradient,
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
    ) -> tuple[VjpResults, Tensor | None]:
        """Compute the vjp into memory that the next call overwrites, and the gradient of dt into memory of its own."""
        config = self.config
        kernel = self._maps.get((control_space, spline)) or self.control_map(control_space, spline)
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
        step = self.step_lengths(dt, batch, horizon, kernel)
        some = check_upstream(upstream, (batch, kernel.output_horizon(horizon), config.dof))
        end = check_goal(kernel, goal, goal_index, goal_rows, shape)
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
        gradient = vjp_dt(work, self._pack(self.device), self._sizes)
        return results, gradient.reshape(np.shape(dt))

    def evaluate(
        self,
        start: StartState,
        actions: Array,
        cost: QuadraticCost,
        dt: float | Array | None = None,
        control_space: ControlSpace | None = None,
        start_index: Array | None = None,
        goal: StartState | None = None,
        goal_index: Array | None = None,
        spline: SplineForm | None = None,
        wanted: Wanted = USUALLY_WANTED,
    ) -> Evaluation:
        """Evaluate into memory that the next call overwrites."""
        config = self.config
        kernel = self.control_map(control_space, spline)
        batch, horizon = check_actions(actions.shape, config)
        index = check_start_index(start_index, check_start(start, config.dof), batch)
        step = self.step_lengths(dt, batch, horizon, kernel)
        end = check_goal(kernel, goal, goal_index, None, actions.shape)
        work = EvaluationWork(kernel, actions, start.rows, index, step, end, cost, wanted)
        runner, device = self._runner, self.device
        if isinstance(runner, AutoRunner) and runner.is_for_cpu(numbers_of(work.kernel, work.actions.shape)):
            runner, device = runner.cpu, torch.device("cpu")
        fused = isinstance(runner, DirectRunner)
        return evaluate(work, self._pack(device), device, self.dtype, self._buffers, self._sizes, fused=fused)

    def step_lengths(self, dt: float | Array | None, batch: int, horizon: int, kernel: ControlMap) -> np.ndarray:
        """Step lengths, s, `[1 or B, 1 or Ha]`, float64; those given as numbers are checked and converted once."""
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

    def _make_runner(self) -> Runner:
        if default_backend(self.device) is Backend.NATIVE:
            return DirectRunner(self.dtype)
        staged = StagedRunner(self.device, self.dtype, self.config.max_graphs, None, self.config.mapped_bytes)
        if self.config.device != "auto" or default_backend(torch.device("cpu")) is not Backend.NATIVE:
            return staged
        return AutoRunner(DirectRunner(self.dtype), staged, partial(_pinned, self.dtype, self.device.type == "cuda"))

    def _pack(self, device: torch.device) -> Pack:
        configured = self.config.mapped_bytes
        most = most_mapped_bytes(device) if configured is None or device.type == "cpu" else configured
        return packer(self._inputs, device, self.dtype, most)

    def _results(self, name: str, shape: tuple[int, ...], make: Callable[..., NamedTuple]) -> NamedTuple:
        """Host memory for the results of a call, in all the forms in which they are needed.

        Raises:
            OutOfDeviceMemory: the host does not have enough memory.

        """
        size = math.prod(shape) if name == "trajectory" else gradient_size(shape)
        try:
            return self._buffers.made("output", name, shape, size, lambda flat: make(flat, shape))
        except (MemoryError, RuntimeError) as error:
            if not is_out_of_memory(error):
                raise
            self._buffers.clear()
            raise OutOfDeviceMemory(f"out of memory on cpu: {str(error).splitlines()[0]}") from error


# Functions, not methods: what holds a method of the engine would keep its memory until the garbage collector runs.


def _free(runner: Runner, inputs: Buffers) -> None:
    runner.release()
    inputs.clear()


def _pinned(dtype: torch.dtype, pin: bool, shape: tuple[int, ...]) -> Tensor:
    return torch.empty(shape, dtype=dtype, pin_memory=pin)
