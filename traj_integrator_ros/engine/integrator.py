"""The engine: action sequences to trajectories, and upstream gradients back, on one device with buffers of its own.

Knows nothing of ROS. Inputs are numpy arrays or torch tensors, results are numpy arrays.
After the first calls of a kind nothing is allocated any more, except for the gradient of dt. On the CPU the C++ kernels
read their inputs in place; on CUDA each kind of call is one graph (`engine.staged`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from functools import wraps
from typing import TypeVar

import numpy as np

from ..kernels import Backend, ControlMap, QuadraticCost, backend_info, default_backend
from .call import NO_ENDS, STARTS, Call, Ends, Gradient, Runner, Wanted, ends_of, step_lengths
from .evaluation import composed_evaluation, fused_evaluation, vjp_dt
from .runners import (
    DTYPES,
    Buffers,
    DirectRunner,
    OutOfDeviceMemory,
    goal_gradient,
    is_out_of_memory,
    replaces_action,
    resolve_device,
    without_goal,
)
from .staged import StagedRunner

_USUALLY_WANTED = Wanted()
Function = TypeVar("Function", bound=Callable)


def _names_full_memory(method: Function) -> Function:
    """Raise OutOfDeviceMemory if there is no memory left, even without that which is kept for other calls."""

    @wraps(method)
    def named(engine: TrajectoryIntegrator, *arguments: object, **options: object) -> object:
        for is_last in (False, True):
            try:
                return method(engine, *arguments, **options)
            except (MemoryError, RuntimeError) as error:
                if not is_out_of_memory(error):
                    raise
                engine.close()
                if is_last:
                    line = str(error).splitlines()[0]
                    raise OutOfDeviceMemory(f"out of memory on {engine.device}: {line}") from error
        return None

    return named


class TrajectoryIntegrator:
    """Integrates action sequences, and computes vector-Jacobian products of the integration.

    Results are views of buffers that the next call of the same kind overwrites. Inputs are
    read during the call only, and may be read-only.

    Args:
        device: "auto" (the CPU: from host arrays to host arrays it is the fastest), "cpu", "cuda" or "cuda:N".
        dtype: of the results, "float32" or "float64".
        max_graphs: number of CUDA graphs that are kept: one for each kind and shape of call, with its own buffers; 0
            for none.
        runner: what computes; None for the fastest runner on the device.

    Raises:
        ValueError: a device that does not exist, named with those that do.

    """

    def __init__(
        self, device: str = "auto", dtype: str = "float32", max_graphs: int = 16, runner: Runner | None = None
    ) -> None:
        self.device = resolve_device(device)
        self.dtype = DTYPES[dtype]
        self._buffers = Buffers(self.device, self.dtype)
        self._inputs = Buffers(self.device, self.dtype)  # for calls that the runner cannot compute
        self._runner = self._make_runner(max_graphs) if runner is None else runner

    @property
    def backend(self) -> str:
        """The backend on this device: "reference", "native" or "triton" (see `kernels.backend_info`)."""
        return default_backend(self.device).value

    @property
    def backend_obstacle(self) -> str:
        """The reason why a backend slower than the device's best one is used; empty if the best one is used."""
        kind = self.device.type
        best = Backend.TRITON if kind == "cuda" else Backend.NATIVE
        unavailable = next((info.unavailable for info in backend_info() if info.device == kind), {})
        return unavailable.get(best, "")

    @_names_full_memory
    def integrate(self, call: Call) -> np.ndarray:
        """Integrate a batch of action sequences.

        Returns:
            One contiguous array `[4, B, H, dof]`, position to jerk, valid until the next call that integrates.

        Raises:
            ValueError: arrays that do not fit together.
            OutOfDeviceMemory: the batch does not fit on the device, or the results do not fit on the host.

        """
        results = self._buffers.pieces("trajectory", ((4, *call.output_shape),))
        self._runner.run(without_goal(call, self._buffers).into(results.tensors))
        return results.arrays[0]

    @_names_full_memory
    def vjp(self, call: Call, *, want_dt: bool = False) -> Gradient:
        """Compute the vector-Jacobian product of `integrate`: upstream gradients to gradients of its arguments.

        Args:
            call: with upstream gradients; its actions and rows are needed for the gradient of dt only.
            want_dt: also return the gradient of dt, for which each call allocates memory.

        Returns:
            Gradients as arrays, valid until the next call that computes gradients.

        Raises:
            ValueError: arrays that do not fit together.
            OutOfDeviceMemory: the batch does not fit on the device, or the results do not fit on the host.

        """
        kernel, shape, dt_s, start, goal = call[:5]
        dof, goals = shape[2], 0 if goal.count is None else len(kernel.goal)
        shapes = shape, *((start.count, dof),) * STARTS, *((goal.count, dof),) * goals
        results = self._buffers.pieces("gradient", shapes)
        ends, upstream = Ends((), start.index, start.count), call.upstream
        is_zero, replaces = all(gradient is None for gradient in upstream), replaces_action(call)
        if is_zero:
            results.whole.fill(0)
        else:
            of_goal, into = Ends((), goal.index, goal.count), results.tensors
            if replaces:
                of_goal, into = NO_ENDS, into[:-1]
            self._runner.run(Call(kernel, shape, dt_s, ends, of_goal, None, upstream, into))
            if replaces:
                results.arrays[-1][:] = goal_gradient(results.arrays[0], goal, kernel.goal_place)
        dt = None
        if want_dt and is_zero:
            dt = np.zeros(call.dt.shape)
        elif want_dt:
            dt = vjp_dt(without_goal(call, self._buffers), self._inputs)
        action, *rows = results.arrays
        return Gradient(action, tuple(rows[:STARTS]), tuple(rows[STARTS:]) or None, dt)

    @_names_full_memory
    def evaluate(
        self, call: Call, cost: QuadraticCost, wanted: Wanted = _USUALLY_WANTED
    ) -> tuple[np.ndarray, Gradient]:
        """Return the costs of trajectories `[B]`, and gradients of their sum; no trajectory is kept.

        Args:
            call: as for `integrate`.
            cost: as for `kernels.quadratic_cost`, with arrays; limit_weight, lower and upper are given together, and
                duration_weight is a number or an array `[B]`.
            wanted: which gradients.

        Returns:
            Arrays, valid until the next call of `evaluate`.

        Raises:
            ValueError: arrays that do not fit together.
            OutOfDeviceMemory: the batch does not fit on the device.

        """
        if isinstance(self._runner, DirectRunner) and not wanted.dt:
            return fused_evaluation(call, cost, wanted, self._buffers)
        return composed_evaluation(call, cost, wanted, self._inputs)

    def warm_up(self, kernel: ControlMap, dof: int, shapes: Iterable[tuple[int, int]]) -> None:
        """Integrate and differentiate each `(batch, action horizon)`, so that the first real call is no slower.

        Where kernels are compiled at first use, this compiles all kernels of the map that calls with one step length,
        or with one for each step, need: for every choice of upstream gradients and start rows, for a start pool, and
        for the gradient of dt. Compiled kernels are cached on disk.
        """
        for batch, horizon in shapes:
            row, one = np.zeros((1, dof), np.float32), step_lengths(1.0)
            call = Call(kernel, (batch, horizon, dof), one, ends_of((row, None, None)))
            call = call._replace(actions=np.zeros(call.shape, np.float32))
            if isinstance(self._runner, StagedRunner):
                _call_every_kind(self, call, row)
            for _ in range(2):  # a kind of call is recorded when it occurs for the second time
                trajectory = self.integrate(call)
                self.vjp(call._replace(upstream=(trajectory[0], None, None, None)))

    def close(self) -> None:
        """Free the buffers, also those on the device."""
        for holder in (self._buffers, self._inputs, self._runner):
            holder.release()

    def _make_runner(self, max_graphs: int) -> Runner:
        if default_backend(self.device) is Backend.NATIVE:
            return DirectRunner(self.dtype)
        return StagedRunner(self.device, self.dtype, max_graphs)


def _call_every_kind(engine: TrajectoryIntegrator, call: Call, row: np.ndarray) -> None:
    """Make one call of each kind, since each kind runs other machine code; `row` is a row of a start."""
    gradient, index = np.zeros(call.output_shape, np.float32), np.zeros(call.shape[0], np.int64)
    *given, all_given = list(itertools.product((None, gradient), repeat=4))[1:]
    rows = [(row, *others) for others in itertools.product((None, row), repeat=2)]
    steps = [call.dt] if call.kernel.uniform_dt_only else [call.dt, step_lengths(np.ones(call.shape[1]))]
    for dt in steps:
        some = call._replace(dt=dt, start=ends_of(rows[-1]))
        for subset in given:
            engine.vjp(some._replace(upstream=subset))
        # The kernel for the gradient of dt is the same for all choices.
        engine.vjp(some._replace(upstream=all_given), want_dt=True)
        for start, start_index in itertools.product(rows, (None, index)):
            engine.integrate(some._replace(start=ends_of(start, start_index)))
    engine.vjp(call._replace(upstream=all_given, start=Ends((), index, 2)))
