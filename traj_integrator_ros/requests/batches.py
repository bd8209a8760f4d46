"""Batches of sequences: trajectories, gradients and costs, none of which is commanded. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import TypeVar

import numpy as np

from ..engine.call import Ends, Gradient, step_lengths, time_from_start
from ..engine.integrator import TrajectoryIntegrator
from ..engine.runners import OutOfDeviceMemory
from ..kernels import ControlMap, QuadraticCost, Trajectory, control_map
from ..limits.joint_limits import find_violation
from ..parameters.parameters import NodeParameters
from .evaluation_requests import (
    EvaluatedBatch,
    EvaluationFields,
    check_cost,
    check_rows_wanted,
    check_upstream,
    rows_of_request,
)
from .rejection import Rejected, RejectionReason, require_finite
from .sequences import (
    OUTPUTS,
    ActionRequest,
    IntegratedBatch,
    RequestRules,
    SequenceFields,
    check_fields,
    check_sequence,
)
from .turning import turned_cost, unwrapped_request

Result = TypeVar("Result")
Beside = Callable[[int, Callable[[], Result]], Result]
"""Does work on a number of values, which nobody changes meanwhile, and returns its result."""
_TIMES_KEPT = 16
"""Number of time vectors that are kept, by step length and horizon: a planner uses one or two."""


def at_once(size: int, work: Callable[[], Result]) -> Result:
    """The `Beside` that works at once, in the caller's thread."""
    return work()


class Batches:
    """Answers requests about batches.

    Args:
        engine: for the node's device.
        start: returns the start state for input without one, given the time, ns; raises Rejected.
        beside: runs what takes long with large batches.

    """

    def __init__(
        self, engine: TrajectoryIntegrator, start: Callable[[int], tuple[np.ndarray, ...]], beside: Beside
    ) -> None:
        self.engine, self._start, self._beside = engine, start, beside

    def reconfigure(self, parameters: NodeParameters) -> None:
        """Continue with other parameters, for the same joints and device."""
        self._parameters, self._limits = parameters, parameters.joint_limits
        names, space = parameters.joint_names, parameters.control_space
        self._rules = RequestRules(names, space, parameters.max_batch, parameters.max_horizon)

    def warm_up(self) -> None:
        """Make the first calls of the configured map, with the sizes of the parameter warmup."""
        given = self._parameters
        self.engine.warm_up(control_map(given.control_space), len(given.joint_names), given.warmup)

    def checked(self, fields: SequenceFields) -> ActionRequest:
        """Check an action sequence. Raises Rejected as `check_sequence` does."""
        return check_sequence(fields, self._rules)

    def started(self, request: ActionRequest, now_ns: Callable[[], int]) -> Ends:
        """Return the start of a request: its own, or the robot's state. Raises Rejected as `start` does."""
        return request.start if request.start.rows else request.start._replace(rows=self._start(now_ns()))

    def integrate(self, request: ActionRequest, start: Ends, wanted: int = 0) -> IntegratedBatch:
        """Integrate all trajectories of an action sequence.

        Args:
            request: the checked sequence.
            start: of the request, from `started`.
            wanted: the wanted outputs, in the form of `IntegratedBatch.fields`; 0 for all.

        Raises:
            Rejected: invalid_fields, non_finite_result or out_of_device_memory.

        """
        wanted = check_fields(wanted, "fields")
        request = unwrapped_request(request, start, self._parameters.continuous)
        return self._beside(_size(request), lambda: self._batch(request, self._integrated(request, start), wanted))

    def _integrated(self, request: ActionRequest, start: Ends) -> np.ndarray:
        return _computed(self.engine.integrate, request.call(start, self._parameters.dt))

    def _batch(self, request: ActionRequest, result: np.ndarray, wanted: int) -> IntegratedBatch:
        trajectories = _narrowed(result)
        for name, part in zip(Trajectory._fields, trajectories, strict=True):
            require_finite(name, part, RejectionReason.NON_FINITE_RESULT)
        dt = self._parameters.dt if request.dt is None else request.dt
        times = _uniform_times if isinstance(dt, float) else _times
        return IntegratedBatch(request, trajectories, times(request.control_map, dt, request.horizon), wanted)

    def violation(self, batch: IntegratedBatch) -> str:
        """Describe the row of a trajectory that exceeds limits most; empty if none does."""
        look = partial(find_violation, batch.trajectories, self._limits, batch.request.control_map.start_row)
        return self._beside(_size(batch.request), look)

    def gradient(
        self, fields: SequenceFields, upstream: Sequence[np.ndarray], update: Callable[[], int]
    ) -> dict[str, np.ndarray]:
        """Check a request for a vector-Jacobian product; return the gradients by the names of the response.

        The maps are linear, so only the gradient of dt requires a start state, and nothing does without data.

        Args:
            fields: the integrated trajectories.
            upstream: gradients with respect to position, velocity, acceleration and jerk, flat; empty for 0.
            update: brings the joint states up to date and returns the time, ns; called if a start state is needed.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules, data_optional=True)
        gradients = check_upstream(upstream, request)
        want_dt = request.actions is not None and request.dt is not None
        if want_dt:
            _require_dt_with_gradient(request, "leave data empty")
        start = self.started(request, update) if want_dt else request.start
        if want_dt:
            request = unwrapped_request(request, start, self._parameters.continuous)
        call = request.call(start, self._parameters.dt)._replace(upstream=gradients)
        return self._beside(
            _size(request), lambda: _arranged(request, _computed(self.engine.vjp, call, want_dt=want_dt))
        )

    def evaluate(self, fields: SequenceFields, asked: EvaluationFields, update: Callable[[], int]) -> EvaluatedBatch:
        """Check a request for the cost of a sequence and compute the answer.

        Args:
            fields: the sequence.
            asked: the cost, and the wanted results.
            update: brings the joint states up to date and returns the time, ns; called if a start state is needed.

        Raises:
            Rejected: with the reason.

        """
        request = check_sequence(fields, self._rules)
        cost, limits = check_cost(asked, request, self._limits)
        rows = check_rows_wanted(asked.rows, request, limits)
        outputs = check_fields(asked.fields, "trajectory_fields")
        wanted = asked.wanted
        if wanted.dt and request.dt is None:
            wanted = wanted._replace(dt=False)
        if wanted.dt:
            _require_dt_with_gradient(request, "ask for none")
        start = self.started(request, update)
        turning = self._parameters.continuous

        def answer() -> EvaluatedBatch:
            whole = unwrapped_request(request, start, turning)
            integrated = lru_cache(1)(lambda: self._integrated(whole, start))  # At most once, whatever is asked for.
            near, call = turned_cost(cost, lambda: integrated()[0], turning), whole.call(start, self._parameters.dt)
            costs, gradient = _computed(self.engine.evaluate, call, near, wanted)
            found = {"cost": _narrowed(costs)}
            require_finite("cost", found["cost"], RejectionReason.NON_FINITE_RESULT)
            found |= _arranged(whole, gradient)
            if limits is not None:
                found |= _excess(whole, integrated(), limits)
            trajectories = None
            if rows.size:
                some = rows_of_request(whole._replace(start=start), rows)
                result = self._integrated(some, some.start) if limits is None else integrated()[:, rows]
                trajectories = self._batch(some, result, outputs)
            return EvaluatedBatch(found, trajectories)

        return self._beside(_size(request), answer)


def _size(request: ActionRequest) -> int:
    return request.batch * request.output_horizon * len(request.columns.names)


def _times(control_map: ControlMap, dt: float | np.ndarray, horizon: int) -> np.ndarray:
    return _narrowed(time_from_start(control_map, step_lengths(dt), horizon))


_uniform_times = lru_cache(_TIMES_KEPT)(_times)


def _arranged(request: ActionRequest, gradient: Gradient) -> dict[str, np.ndarray]:
    """Return gradients as float32, with the request's columns, by name. Raises Rejected: non_finite_result."""
    parts = {"action": gradient.action, "dt": gradient.dt}
    for end, rows in (("start", gradient.start), ("goal", gradient.goal)):
        parts |= {f"{end}_{part}": values for part, values in zip(OUTPUTS, rows or (), strict=False)}
    found = {f"grad_{name}": _narrowed(part) for name, part in parts.items() if part is not None}
    for name, part in found.items():
        require_finite(name, part, RejectionReason.NON_FINITE_RESULT)
        if name != "grad_dt":
            found[name] = request.columns.out_of_node(part)
    return found


def _excess(request: ActionRequest, trajectories: np.ndarray, limits: QuadraticCost) -> dict[str, np.ndarray]:
    """Return `max(x - upper, lower - x)` with the request's columns, by name; -inf where a joint has no limit.

    Raises Rejected: non_finite_result.
    """
    found = {}
    for name, x, term in zip(OUTPUTS, trajectories, limits.outputs, strict=True):
        if term.lower is not None:
            with np.errstate(all="ignore"):
                values = np.maximum(x - term.upper.astype(x.dtype), term.lower.astype(x.dtype) - x)
            checked = np.where(np.isneginf(values), 0, values)
            require_finite(f"violation_{name}", checked, RejectionReason.NON_FINITE_RESULT)
            found[f"violation_{name}"] = request.columns.out_of_node(values)
    return found


def _require_dt_with_gradient(request: ActionRequest, instead: str) -> None:
    if request.control_map.uniform_dt_only and request.dt_length != np.size(request.dt):
        raise Rejected(
            RejectionReason.SIZE_MISMATCH,
            f"dt: {request.control_map.name} has a gradient for one step length of each trajectory, got "
            f"{request.dt_length} values; give one, or {request.batch} with dt_per: DT_PER_TRAJECTORY, or {instead}",
        )


def _computed(compute: Callable[..., Result], *arguments: object, **options: object) -> Result:
    """Return the engine's result. Raises Rejected: out_of_device_memory."""
    try:
        return compute(*arguments, **options)
    except OutOfDeviceMemory as error:
        raise Rejected(RejectionReason.OUT_OF_DEVICE_MEMORY, f"batch: {error}") from error


def _narrowed(values: np.ndarray) -> np.ndarray:
    """Return a result as float32, as messages have it; values that are too large become infinite."""
    if values.dtype == np.float32:
        return values
    with np.errstate(over="ignore"):
        return values.astype(np.float32)
