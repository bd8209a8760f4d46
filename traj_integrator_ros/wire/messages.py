"""The messages of services to arrays and back: views of their buffers, without a Python loop over elements."""

from __future__ import annotations

import array
from operator import attrgetter

import numpy as np
from builtin_interfaces.msg import Time

from traj_integrator_interfaces.msg import ActionSequence, QuadraticCost, TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate, Retime

from ..engine.types import Wanted
from ..handling import committed
from ..handling.evaluation import CostFields, EvaluationFields, UpstreamFields
from ..handling.requests import OUTPUTS, SequenceFields
from ..handling.results import BatchGradient, EvaluatedBatch, IntegratedBatch
from ..handling.retime_requests import RetimedBatch, RetimeFields
from ..kernels import CostTerm
from .readers import nanoseconds

_ROWS_OF_COMMITTED = tuple(
    f"{what}{quantity}" for what in ("", "commanded_", "measured_") for quantity in ("position", "velocity")
)
_terms_of, _fields_of_term = attrgetter(*OUTPUTS), attrgetter(*CostTerm._fields)
_upstream_of = attrgetter(*UpstreamFields._fields)
_retime_fields_of = attrgetter(*RetimeFields._fields)
_RETIMED = {"status": "B", "points": "I"} | dict.fromkeys(
    (
        *("duration", "ratio", "time_from_start", "result_position", "result_velocity", "result_acceleration"),
        "row_times",
    ),
    "d",
)
_DTYPES = {code: np.dtype(code) for code in "fdI"}
_EMPTY = {code: np.empty(0, dtype) for code, dtype in _DTYPES.items()}


def sequence_fields(message: ActionSequence) -> SequenceFields:
    """Return views of an action sequence."""
    start, goal = message.start, message.goal
    return SequenceFields(
        joint_names=message.joint_names,
        control_space=message.control_space,
        batch=message.batch,
        horizon=message.horizon,
        dt=_view(message.dt),
        start_position=_view(start.position),
        start_velocity=_view(start.velocity),
        start_acceleration=_view(start.acceleration),
        start_index=_view(message.start_index),
        data=_view(message.data),
        goal_position=_view(goal.position),
        goal_velocity=_view(goal.velocity),
        goal_acceleration=_view(goal.acceleration),
        goal_index=_view(message.goal_index),
        degree=message.degree,
        steps=message.steps,
    )


def upstream_fields(request: ComputeGradient.Request) -> UpstreamFields:
    """Return views of the upstream gradients of a request."""
    return UpstreamFields(*map(_view, _upstream_of(request)))


def evaluation_fields(request: Evaluate.Request) -> EvaluationFields:
    """Return views of the cost of a request, and its other fields."""
    wanted = Wanted(request.want_grad_action, request.want_grad_start, request.want_grad_goal, request.want_grad_dt)
    return EvaluationFields(
        _cost_fields(request.cost),
        wanted,
        _view(request.trajectory_rows),
        request.trajectory_fields,
        request.want_limit_violations,
        request.violation_fields,
    )


def committed_fields(request: Committed.Request) -> committed.CommittedFields:
    """Return the fields of a request for the motion in execution."""
    stamp_ns = nanoseconds((request.stamp.sec, request.stamp.nanosec))
    return committed.CommittedFields(stamp_ns, request.dt, request.rows, request.rows_before)


def fill_committed(response: Committed.Response, found: committed.Committed, joint_names: tuple[str, ...]) -> None:
    """Fill in the motion in execution."""
    response.now.sec, response.now.nanosec = divmod(found.now_ns, 1_000_000_000)
    response.lead, response.committed, response.executing = found.lead, found.committed, found.executing
    response.joint_names = list(joint_names)
    for name in _ROWS_OF_COMMITTED:
        _put(response, name, getattr(found, name), "d")


def retime_fields(request: Retime.Request) -> RetimeFields:
    """Return views of a request to retime."""
    values = _retime_fields_of(request)
    return RetimeFields(*(_view(value) if isinstance(value, array.array) else value for value in values))


def fill_retime(response: Retime.Response, found: RetimedBatch) -> None:
    """Fill in the trajectories."""
    response.joint_names, response.reason = list(found.joint_names), found.reason
    response.unchanged = found.unchanged.tolist()
    for name, code in _RETIMED.items():
        _put(response, name, getattr(found, name), code)


def _cost_fields(cost: QuadraticCost) -> CostFields:
    terms = [CostTerm(*map(_view, _fields_of_term(term))) for term in _terms_of(cost)]
    return CostFields(*terms, _view(cost.duration_weight))


def _view(values: array.array) -> np.ndarray:
    """View numbers in place: most arrays of a request are empty, and those cost nothing."""
    code = values.typecode
    return np.frombuffer(values, _DTYPES[code]) if values else _EMPTY[code]


def fill_trajectories(message: TrajectoryBatch, batch: IntegratedBatch, stamp: Time) -> None:
    """Fill in all trajectories, with their columns in the order of the sequence."""
    columns = batch.request.columns
    message.header.stamp.sec, message.header.stamp.nanosec = stamp.sec, stamp.nanosec
    message.joint_names = list(columns.names)
    message.batch = batch.request.batch
    message.horizon = batch.request.output_horizon
    _put(message, "time_from_start", batch.times)
    for bit, (name, values) in enumerate(zip(OUTPUTS, batch.trajectories, strict=True)):
        if batch.fields >> bit & 1:
            _put(message, name, columns.out_of_node(values))


def fill_evaluation(response: Evaluate.Response, evaluated: EvaluatedBatch, stamp: Time) -> None:
    """Fill in costs, gradients, violations and the requested trajectories."""
    _put(response, "cost", evaluated.cost)
    fill_gradient(response, evaluated.gradient)
    for name, values in zip(OUTPUTS, evaluated.violations, strict=False):
        if values is not None:
            _put(response, f"violation_{name}", values)
    if evaluated.trajectories is not None:
        fill_trajectories(response.trajectory, evaluated.trajectories, stamp)


def fill_gradient(response: ComputeGradient.Response | Evaluate.Response, gradient: BatchGradient) -> None:
    """Fill in gradients."""
    for name, values in zip(gradient._fields, gradient, strict=True):
        if values.size:
            _put(response, f"grad_{name}", values)


def _put(message: object, field: str, values: np.ndarray, code: str = "f") -> None:
    """Set a field, of numbers with this type code, to a copy of some values."""
    numbers = array.array(code)
    numbers.frombytes(np.ascontiguousarray(values, code).reshape(-1).view(np.uint8))
    setattr(message, field, numbers)
