"""Converts messages of services to arrays and back: views of buffers, without a Python loop over elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter

import numpy as np
from builtin_interfaces.msg import Time

from traj_integrator_interfaces.msg import TrajectoryBatch
from traj_integrator_interfaces.srv import Committed, ComputeGradient, Evaluate

from ..engine.call import Wanted
from ..execution.committed import Committed as CommittedRows
from ..execution.tolerances import SECOND_NS
from ..governor.committed import CommittedFields
from ..kernels import CostTerm, QuadraticCost
from ..requests.evaluation_requests import EvaluatedBatch, EvaluationFields
from ..requests.goals import Feedback, GoalFields
from ..requests.retime_requests import RetimeFields
from ..requests.sequences import OUTPUTS, IntegratedBatch
from .arrays import packed, viewed, views
from .readers import nanoseconds

_LONGEST_NS = 2**31 * SECOND_NS - 1
"""The longest Duration, ns, which stands for an infinite one."""


retime_fields: Callable[[object], RetimeFields] = views(RetimeFields)
_cost_term, _terms_of = views(CostTerm), attrgetter(*OUTPUTS)
_gradients_of = attrgetter(*(f"grad_{name}" for name in OUTPUTS))


def upstream_gradients(request: ComputeGradient.Request) -> list[np.ndarray]:
    """Return views of the upstream gradients of position to jerk."""
    return [viewed(values) for values in _gradients_of(request)]


def evaluation_fields(request: Evaluate.Request) -> EvaluationFields:
    """Return views of the arrays of a request's cost, and its other fields."""
    wanted = Wanted(request.want_grad_action, request.want_grad_start, request.want_grad_goal, request.want_grad_dt)
    return EvaluationFields(
        QuadraticCost(*map(_cost_term, _terms_of(request.cost)), viewed(request.cost.duration_weight)),
        wanted,
        viewed(request.trajectory_rows),
        request.trajectory_fields,
        request.want_limit_violations,
        request.violation_fields,
    )


def committed_fields(request: Committed.Request) -> CommittedFields:
    """Return the fields of a request for the motion in execution."""
    stamp_ns = nanoseconds((request.stamp.sec, request.stamp.nanosec))
    return CommittedFields(stamp_ns, request.dt, request.rows, request.rows_before)


def fill_committed(response: Committed.Response, found: CommittedRows) -> None:
    """Fill in the motion in execution."""
    response.now.sec, response.now.nanosec = divmod(found.now_ns, SECOND_NS)
    fill(response, {name: value for name, value in found._asdict().items() if name != "now_ns"})


def goal_fields(goal: object) -> GoalFields:
    """Return the fields of a goal of FollowJointTrajectory, without its trajectory."""
    path, end = (
        [(one.name, one.position, one.velocity) for one in tolerances]
        for tolerances in (goal.path_tolerance, goal.goal_tolerance)
    )
    others = goal.multi_dof_trajectory.points, goal.component_path_tolerance, goal.component_goal_tolerance
    goal_time = nanoseconds((goal.goal_time_tolerance.sec, goal.goal_time_tolerance.nanosec)) * 1e-9
    return GoalFields(path, end, goal_time, any(map(len, others)))


def fill_feedback(message: object, feedback: Feedback, joint_names: tuple[str, ...]) -> None:
    """Fill in the feedback of a goal of FollowJointTrajectory."""
    message.header.stamp.sec, message.header.stamp.nanosec = divmod(feedback.stamp_ns, SECOND_NS)
    message.joint_names = list(joint_names)
    for point, time_s in ((message.desired, feedback.into_s), (message.error, feedback.left_s)):
        time, time_ns = point.time_from_start, _LONGEST_NS if time_s == np.inf else round(time_s * 1e9)
        time.sec, time.nanosec = divmod(time_ns, SECOND_NS)
    for name in ("desired", "actual", "error"):
        state, point = getattr(feedback, name), getattr(message, name)
        for field, values in zip(("positions", "velocities", "accelerations"), state, strict=True):
            if values is not None:
                setattr(point, field, packed(values, "d"))


def fill_trajectories(message: TrajectoryBatch, batch: IntegratedBatch, stamp: Time) -> None:
    """Fill in all trajectories, with their columns in the order of the sequence."""
    columns = batch.request.columns
    message.header.stamp.sec, message.header.stamp.nanosec = stamp.sec, stamp.nanosec
    message.joint_names = list(columns.names)
    message.batch = batch.request.batch
    message.horizon = batch.request.output_horizon
    wanted = [bit for bit in range(len(OUTPUTS)) if batch.fields >> bit & 1]
    arrays = {OUTPUTS[bit]: columns.out_of_node(batch.trajectories[bit]) for bit in wanted}
    fill(message, {"time_from_start": batch.times, **arrays})


def fill_evaluation(response: Evaluate.Response, evaluated: EvaluatedBatch, stamp: Time) -> None:
    """Fill in costs, gradients, violations and the requested trajectories."""
    fill(response, evaluated.fields)
    if evaluated.trajectories is not None:
        fill_trajectories(response.trajectory, evaluated.trajectories, stamp)


def fill(message: object, fields: Mapping[str, object]) -> None:
    """Set fields; arrays of numbers, which have the type of the field, are copied."""
    for name, value in fields.items():
        setattr(message, name, packed(value, value.dtype.char) if isinstance(value, np.ndarray) else value)
