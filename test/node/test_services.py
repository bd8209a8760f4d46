"""The services: forward for one caller, gradients for optimizers."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest
import torch
from rclpy.parameter import Parameter
from ros_client import RosClient, floats, sequence, table

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.kernels import ControlSpace, control_map

pytestmark = pytest.mark.ros
DOF = 3
UPSTREAM = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")


def test_integrate_answers_what_the_topic_publishes(client: RosClient) -> None:
    message = sequence(np.random.default_rng(0).normal(size=(3, 5, DOF)), dt=[0.1])
    message.header.stamp.sec = 77
    batch, _ = client.answer(message)
    response = client.integrate(message)
    assert response.success and response.message == ""
    assert response.trajectory == batch


@pytest.mark.parametrize("space", list(ControlSpace))
@pytest.mark.parametrize("scheme", ["backward", "central"])
def test_the_gradient_is_that_of_autograd(client: RosClient, space: ControlSpace, scheme: str) -> None:
    one_step = control_map(space, scheme).uniform_dt_only
    client.set_parameters(finite_difference=scheme)
    try:
        rng = np.random.default_rng(space.value)
        batch, horizon, rows = 4, 6, 2
        kernel = control_map(space, scheme)
        dt = [0.1] if one_step else rng.uniform(0.05, 0.1, size=horizon)
        start = rng.normal(size=(3, rows, DOF))
        index = [0, 1, 1, 0]
        request = ComputeGradient.Request()
        request.actions = sequence(
            rng.normal(size=(batch, horizon, DOF)), dt=dt, control_space=space.value, start_index=index,
            position=start[0], velocity=start[1], acceleration=start[2],
        )  # fmt: skip
        shape = (batch, kernel.output_horizon(horizon), DOF)
        upstream = [rng.normal(size=shape) for _ in UPSTREAM]
        for name, values in zip(UPSTREAM, upstream, strict=True):
            setattr(request, name, floats(values))
        response = client.compute_gradient(request)
        assert response.success, response.message

        def leaf(values: object, *size: int) -> torch.Tensor:
            return torch.from_numpy(np.asarray(values, np.float32).astype(np.float64).reshape(size)).requires_grad_()

        action = leaf(request.actions.data, batch, horizon, DOF)
        leaves = [leaf(row, rows, DOF) for row in start]
        step = leaf(dt, len(dt))
        outputs = kernel.step(action, *leaves, dt=step, start_index=torch.tensor(index))
        cost = sum((torch.from_numpy(g.astype(np.float32)) * o).sum() for g, o in zip(upstream, outputs, strict=True))
        expected = torch.autograd.grad(cost, [action, *leaves, step])
    finally:
        client.set_parameters(finite_difference="backward")
    names = ("grad_action", "grad_start_position", "grad_start_velocity", "grad_start_acceleration", "grad_dt")
    for name, reference in zip(names, expected, strict=True):
        value = np.asarray(getattr(response, name))
        reference = reference.numpy().reshape(-1)
        assert np.linalg.norm(value - reference) <= 5e-6 * np.linalg.norm(reference), name


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.BSPLINE])
def test_a_goal_is_reached_and_has_its_gradient(client: RosClient, space: ControlSpace) -> None:
    rng = np.random.default_rng(3)
    batch, horizon, index = 3, 5, [1, 0, 1]
    parts = ("position", "velocity", "acceleration")[: 3 if space is ControlSpace.BSPLINE else 1]
    actions = sequence(
        rng.normal(size=(batch, horizon, DOF)), dt=[0.1], control_space=space.value, position=[0.1] * DOF
    )
    goals = {part: rng.normal(size=(2, DOF)).astype(np.float32) for part in parts}
    for part, values in goals.items():
        setattr(actions.goal, part, floats(values))
    actions.goal_index = array("I", index)
    form = {}
    if space is ControlSpace.BSPLINE:
        actions.degree, actions.steps = 5, 3
        form = {"bspline_degree": 5, "bspline_steps": 3}
    kernel = control_map(space, **form)
    response = client.integrate(actions)
    assert response.success, response.message
    rows = kernel.output_horizon(horizon)
    for part, values in goals.items():
        last = table(getattr(response.trajectory, part), batch, DOF)[:, rows - 1]
        np.testing.assert_allclose(last, values[index], atol=1e-4)

    upstream = rng.normal(size=(batch, rows, DOF)).astype(np.float32)
    request = ComputeGradient.Request(actions=actions, grad_velocity=floats(upstream))
    answer = client.compute_gradient(request)
    assert answer.success, answer.message
    leaves = [torch.from_numpy(values.astype(np.float64)).requires_grad_() for values in goals.values()]
    action = torch.from_numpy(np.asarray(actions.data, np.float64).reshape(batch, horizon, DOF)).requires_grad_()
    start = torch.full((1, DOF), float(np.float32(0.1)), dtype=torch.float64)
    named = {f"goal_{part}": leaf for part, leaf in zip(parts, leaves, strict=True)}
    outputs = kernel.step(action, start, dt=float(np.float32(0.1)), **named, goal_index=torch.tensor(index))
    expected = torch.autograd.grad(outputs.velocity, [action, *leaves], torch.from_numpy(upstream).double())
    fields = ("grad_action", *(f"grad_goal_{part}" for part in parts))
    for name, reference in zip(fields, expected, strict=True):
        value, reference = np.asarray(getattr(answer, name)), reference.numpy().reshape(-1)
        assert np.linalg.norm(value - reference) <= 5e-6 * np.linalg.norm(reference), name


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"control_space": 2, "goal": [0.0] * DOF}, "goal_not_supported: goal.position"),
        ({"control_space": 1, "goal_velocity": [0.0] * DOF}, "goal_not_supported: goal.velocity"),
        ({"control_space": 5, "goal": [0.0] * (DOF + 1)}, "size_mismatch: goal.position"),
        ({"control_space": 5, "goal": [math.nan] * DOF}, "not_finite: goal.position"),
        ({"control_space": 5, "goal": [0.0] * DOF, "goal_index": [0, 1]}, "goal_index_out_of_range: goal_index"),
        ({"control_space": 5, "degree": 2}, "invalid_spline: degree"),
        ({"control_space": 3, "steps": 4}, "invalid_spline: steps"),
        ({"control_space": 5, "dt": [0.1, 0.2, 0.1, 0.1]}, "invalid_dt: dt: bspline"),
    ],
)
def test_a_goal_or_spline_that_cannot_be_is_refused_by_name(client: RosClient, changes: dict, reason: str) -> None:
    message = sequence(
        np.zeros((2, 4, DOF)), dt=changes.get("dt", [0.1]), control_space=changes["control_space"], position=[0.0] * DOF
    )
    message.goal.position = floats(changes.get("goal", [0.0] * DOF if "goal_velocity" in changes else []))
    message.goal.velocity = floats(changes.get("goal_velocity", []))
    message.goal_index = array("I", changes.get("goal_index", []))
    message.degree, message.steps = changes.get("degree", 0), changes.get("steps", 0)
    answer = client.integrate(message)
    assert not answer.success and answer.message.startswith(reason), answer.message


def test_a_gradient_without_data_equals_the_one_with_data_but_for_dt(client: RosClient) -> None:
    message = sequence(np.ones((2, 3, DOF)), dt=[0.1], position=np.zeros(DOF), control_space=ActionSequence.VELOCITY)
    request = ComputeGradient.Request(actions=message, grad_position=floats(np.ones(18)))
    full = client.compute_gradient(request)
    request.actions.data = floats([])
    without = client.compute_gradient(request)
    assert full.success and without.success
    assert len(full.grad_dt) == 1 and len(without.grad_dt) == 0
    assert full.grad_action == without.grad_action
    assert full.grad_start_position == without.grad_start_position
    assert np.asarray(full.grad_start_position).tolist() == [6.0] * DOF


def test_no_upstream_gradient_gives_zeros(client: RosClient) -> None:
    response = client.compute_gradient(ComputeGradient.Request(actions=sequence(np.ones((2, 3, DOF)), dt=[0.1])))
    assert response.success
    assert np.asarray(response.grad_action).tolist() == [0.0] * 18
    assert np.asarray(response.grad_start_position).tolist() == [0.0] * DOF


def test_gradients_are_in_the_order_of_the_callers_columns(client: RosClient) -> None:
    order = ["joint_b", "joint_c", "joint_a"]
    upstream = np.broadcast_to([1.0, 2.0, 3.0], (1, 3, DOF))
    message = sequence(np.ones((1, 3, DOF)), joint_names=order, position=np.zeros(DOF))
    response = client.compute_gradient(ComputeGradient.Request(actions=message, grad_position=floats(upstream)))
    assert table(response.grad_action, 1, DOF)[0, 0].tolist() == [1.0, 2.0, 3.0]
    assert np.asarray(response.grad_start_position).tolist() == [1.0, 2.0, 3.0]


def test_violated_limits_refuse_integrate_with_the_numbers_where_they_are_to_reject(client: RosClient) -> None:
    message = sequence(np.full((2, 4, DOF), 2.0), control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
    client.set_parameters(limits__velocity=[1.0, 3.0, 3.0])
    try:
        assert client.integrate(message).success
        assert client.counts()["warned.limits_violated"] != "0"
        client.set_parameters(limits__action="reject")
        response = client.integrate(message)
        assert not response.success
        assert response.message == "limits_violated: velocity of joint_a: limit 1, got 2 at step 1 of trajectory 0"
        before = int(client.counts()["rejected.limits_violated"])
        client.trajectories.clear()
        client.sequences.publish(message)
        client.wait_for(lambda: int(client.counts()["rejected.limits_violated"]) == before + 1, "counted")
        assert not client.trajectories
    finally:
        off = Parameter("limits.velocity", Parameter.Type.DOUBLE_ARRAY, [])
        assert client.set_parameters(limits__velocity=off, limits__action="warn") == [(True, "")] * 2


def test_a_start_away_from_the_robot_is_refused_where_limits_are_to_reject(client: RosClient) -> None:
    message = sequence(np.zeros((1, 4, DOF)), control_space=ActionSequence.VELOCITY, position=[0.0, 0.5, 0.0])
    client.set_parameters(limits__action="reject")
    try:
        assert client.integrate(message).success, "a service may ask about anywhere"
        client.trajectories.clear()
        client.sequences.publish(message)
        client.wait_for(lambda: int(client.counts()["rejected.start_mismatch"]) == 1, "counted")
        assert not client.trajectories
    finally:
        client.set_parameters(limits__action="warn")
    client.answer(message)
