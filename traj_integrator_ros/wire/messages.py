"""The messages of services to arrays and back: views of their buffers, without a Python loop over elements."""

from __future__ import annotations

import array

import numpy as np
from builtin_interfaces.msg import Time

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient

from ..handling.pipeline import BatchGradient, IntegratedBatch
from ..handling.requests import SequenceFields, UpstreamFields


def sequence_fields(message: ActionSequence) -> SequenceFields:
    """Return views of an action sequence."""
    start, goal = message.start, message.goal
    return SequenceFields(
        joint_names=message.joint_names,
        control_space=message.control_space,
        batch=message.batch,
        horizon=message.horizon,
        dt=np.asarray(message.dt),
        start_position=np.asarray(start.position),
        start_velocity=np.asarray(start.velocity),
        start_acceleration=np.asarray(start.acceleration),
        start_index=np.asarray(message.start_index),
        data=np.asarray(message.data),
        goal_position=np.asarray(goal.position),
        goal_velocity=np.asarray(goal.velocity),
        goal_acceleration=np.asarray(goal.acceleration),
        goal_index=np.asarray(message.goal_index),
        degree=message.degree,
        steps=message.steps,
    )


def upstream_fields(request: ComputeGradient.Request) -> UpstreamFields:
    """Return views of the upstream gradients of a request."""
    return UpstreamFields(*(np.asarray(getattr(request, name)) for name in UpstreamFields._fields))


def trajectory_batch(batch: IntegratedBatch, stamp: Time) -> TrajectoryBatch:
    """Build the message of all trajectories, its columns in the order of the sequence."""
    columns = batch.request.columns
    message = TrajectoryBatch()
    message.header.stamp = stamp
    message.joint_names = list(columns.names)
    message.batch = batch.request.batch
    message.horizon = batch.request.output_horizon
    message.time_from_start = float32_array(batch.times.float32)
    message.position, message.velocity, message.acceleration, message.jerk = (
        float32_array(columns.out_of_node(values)) for values in batch.trajectories
    )
    return message


def fill_gradient(response: ComputeGradient.Response, gradient: BatchGradient) -> ComputeGradient.Response:
    """Fill in gradients; returns `response`."""
    response.grad_action = float32_array(gradient.action)
    response.grad_start_position = float32_array(gradient.start_position)
    response.grad_start_velocity = float32_array(gradient.start_velocity)
    response.grad_start_acceleration = float32_array(gradient.start_acceleration)
    response.grad_dt = float32_array(gradient.dt)
    response.grad_goal_position = float32_array(gradient.goal_position)
    response.grad_goal_velocity = float32_array(gradient.goal_velocity)
    response.grad_goal_acceleration = float32_array(gradient.goal_acceleration)
    return response


def float32_array(values: np.ndarray) -> array.array:
    """Copy an array of any shape into the flat array that a float32 message field takes as it is."""
    return array.array("f", np.ascontiguousarray(values, np.float32).tobytes())
