"""The services: forward for one caller, gradients for optimizers."""

from __future__ import annotations

import math
from array import array

import numpy as np
import pytest
import torch
from rclpy.parameter import Parameter
from ros_client import RosClient, floats, sequence, table

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Retime
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, control_map, quadratic_cost

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
        assert response.message == (
            "limits_violated: velocity of joint_a exceeds its limit by 100 % at step 1 of trajectory 0 (2 of 1)"
        )
        before = int(client.counts()["rejected.limits_violated"])
        client.trajectories.clear()
        client.sequences.publish(message)
        client.wait_for(lambda: int(client.counts()["rejected.limits_violated"]) == before + 1, "counted")
        assert not client.trajectories
    finally:
        off = Parameter("limits.velocity", Parameter.Type.DOUBLE_ARRAY, [])
        assert client.set_parameters(limits__velocity=off, limits__action="warn") == [(True, "")] * 2


@pytest.mark.parametrize("space", list(ControlSpace))
def test_evaluate_is_the_quadratic_cost_with_its_gradients(client: RosClient, space: ControlSpace) -> None:
    rng = np.random.default_rng(space.value)
    batch, horizon, rows = 4, 6, 2
    kernel = control_map(space)
    points = kernel.output_horizon(horizon)
    order = ["joint_b", "joint_c", "joint_a"]
    start, index = rng.normal(size=(3, rows, DOF)), [0, 1, 1, 0]
    bound = rng.random(DOF)
    request = Evaluate.Request()
    request.actions = sequence(
        rng.normal(size=(batch, horizon, DOF)), dt=[0.1], control_space=space.value, joint_names=order,
        position=start[0], velocity=start[1], acceleration=start[2], start_index=index,
    )  # fmt: skip
    given = {
        "position": {"weight": rng.random((batch, points, DOF)), "target": rng.normal(size=DOF)},
        "velocity": {"terminal_weight": rng.random((batch, DOF)), "target": rng.normal(size=(points, DOF))},
        "acceleration": {"limit_weight": rng.random(DOF), "lower": -bound, "upper": bound},
        "jerk": {"weight": 1e-3 * rng.random((points, DOF))},
    }
    for output, fields in given.items():
        for name, values in fields.items():
            setattr(getattr(request.cost, output), name, floats(values))
    goals = {}
    for part in kernel.goal:
        goals[part] = rng.normal(size=(1, DOF))
        setattr(request.actions.goal, part, floats(goals[part]))

    def leaf(values: object) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.float32).astype(np.float64)).requires_grad_()

    leaves = {
        "action": leaf(np.asarray(request.actions.data).reshape(batch, horizon, DOF)),
        **{
            f"start_{part}": leaf(row)
            for part, row in zip(("position", "velocity", "acceleration"), start, strict=True)
        },
        **{f"goal_{part}": leaf(values) for part, values in goals.items()},
        "dt": leaf([0.1]),
    }
    cost = QuadraticCost(
        **{
            output: CostTerm(**{name: leaf(x).detach() for name, x in fields.items()})
            for output, fields in given.items()
        }
    )
    wanted = quadratic_cost(**leaves, cost=cost, control_map=kernel, start_index=torch.tensor(index))
    gradients = dict(zip(leaves, torch.autograd.grad(wanted.sum(), list(leaves.values())), strict=True))

    request.trajectory_rows, request.trajectory_fields = array("I", [3, 1]), TrajectoryBatch.VELOCITY
    for wants in (("action",), ("start", "goal"), ("action", "start", "goal", "dt")):
        for kind in ("action", "start", "goal", "dt"):
            setattr(request, f"want_grad_{kind}", kind in wants)
        response = client.evaluate(request)
        assert response.success, response.message
        np.testing.assert_allclose(response.cost, wanted.detach().numpy(), rtol=1e-5)
        for name, reference in gradients.items():
            value = np.asarray(getattr(response, f"grad_{name}"))
            if name.split("_")[0] not in wants:
                assert value.size == 0, name
                continue
            reference = reference.numpy().reshape(-1)
            assert np.linalg.norm(value - reference) <= 5e-6 * np.linalg.norm(reference), name
        whole = client.integrate(request.actions, fields=TrajectoryBatch.VELOCITY).trajectory
        some = response.trajectory
        assert (some.batch, some.horizon, some.joint_names) == (2, points, order)
        assert not some.position and not some.acceleration and not some.jerk
        assert some.time_from_start == whole.time_from_start
        np.testing.assert_array_equal(table(some.velocity, 2, DOF), table(whole.velocity, batch, DOF)[[3, 1]])


def test_calls_in_a_row_are_each_answered_for_their_own_numbers(client: RosClient) -> None:
    for seed, shape in ((0, (2, 4)), (1, (2, 4)), (2, (3, 6)), (1, (2, 4))):
        actions = np.random.default_rng(seed).normal(size=(*shape, DOF)).astype(np.float32)
        request = Evaluate.Request(
            actions=sequence(actions, control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
        )
        request.cost.velocity.weight = floats(np.ones(DOF))
        response = client.evaluate(request)
        actions[:, -1] = 0.0  # reaches no row
        np.testing.assert_allclose(response.cost, np.square(actions).sum((1, 2)), rtol=1e-5)
        np.testing.assert_allclose(table(response.grad_action, shape[0], DOF), 2 * actions, rtol=1e-5)


def test_evaluate_takes_the_limits_that_the_node_knows(client: RosClient) -> None:
    request = Evaluate.Request(
        actions=sequence(np.full((1, 4, DOF), 2.0), control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
    )
    request.cost.velocity.limit_weight = floats(np.ones(DOF))
    refused = client.evaluate(request)
    assert refused.message.startswith("invalid_cost: cost.velocity.lower: expected limits with limit_weight")
    client.set_parameters(limits__velocity=[1.0, 3.0, 3.0])
    try:
        known = client.evaluate(request)
        request.cost.velocity.lower = floats([-math.inf] * DOF)
        request.cost.velocity.upper = floats([math.inf, 1.5, math.inf])
        own = client.evaluate(request)
    finally:
        client.set_parameters(limits__velocity=Parameter("limits.velocity", Parameter.Type.DOUBLE_ARRAY, []))
    assert np.asarray(known.cost).tolist() == [3.0], "three points at 2 rad/s exceed 1 rad/s"
    assert np.asarray(own.cost).tolist() == [0.75]


def test_evaluate_says_by_how_much_limits_are_exceeded(client: RosClient) -> None:
    rng = np.random.default_rng(5)
    batch, horizon, order = 3, 5, ["joint_b", "joint_c", "joint_a"]
    space = ControlSpace.ACCELERATION
    request = Evaluate.Request(want_limit_violations=True)
    request.actions = sequence(
        rng.normal(size=(batch, horizon, DOF)), dt=[0.1], control_space=space.value, joint_names=order,
        position=rng.normal(size=DOF), velocity=rng.normal(size=DOF),
    )  # fmt: skip
    lower, upper = np.array([-math.inf, -0.1, -0.2]), np.array([math.inf, 0.1, math.inf])
    request.cost.velocity.lower, request.cost.velocity.upper = floats(lower), floats(upper)
    request.cost.duration_weight = floats([2.0])
    client.set_parameters(limits__acceleration=[0.5, 0.6, 0.7])  # of joint_a, joint_b and joint_c
    try:
        everything = client.evaluate(request)
        request.violation_fields = TrajectoryBatch.VELOCITY
        of_velocity = client.evaluate(request)
        request.violation_fields = TrajectoryBatch.VELOCITY | TrajectoryBatch.JERK
        refused = client.evaluate(request)
        request.want_limit_violations = False
        request.cost.velocity.lower = request.cost.velocity.upper = floats([])
        none = client.evaluate(request)
        trajectory = client.integrate(request.actions).trajectory
    finally:
        client.set_parameters(limits__acceleration=Parameter("limits.acceleration", Parameter.Type.DOUBLE_ARRAY, []))
    velocity, acceleration = (table(x, batch, DOF) for x in (trajectory.velocity, trajectory.acceleration))
    of_acceleration = np.abs(acceleration) - np.array([0.6, 0.7, 0.5])
    expected = np.maximum(velocity - upper, lower - velocity)
    assert (expected[..., 1:] > 0).any() and (expected[..., 1:] < 0).any()
    assert everything.success, everything.message
    np.testing.assert_allclose(table(everything.violation_velocity, batch, DOF), expected, atol=1e-6)
    np.testing.assert_allclose(table(everything.violation_acceleration, batch, DOF), of_acceleration, atol=1e-6)
    assert not everything.violation_position and not everything.violation_jerk, "nobody gave limits of them"
    np.testing.assert_allclose(everything.cost, 2.0 * 0.1 * (horizon - 1), rtol=1e-6)
    assert everything.trajectory.batch == 0
    assert of_velocity.violation_velocity == everything.violation_velocity and not of_velocity.violation_acceleration
    assert refused.message.startswith("invalid_cost: cost.jerk.lower: expected limits, because violations"), refused
    assert none.success and not none.violation_velocity and not none.violation_acceleration


def test_evaluate_without_a_start_begins_at_the_joint_states(client: RosClient) -> None:
    client.settle_state([0.5, 0.0, 0.0])
    request = Evaluate.Request(actions=sequence(np.zeros((2, 3, DOF)), control_space=ActionSequence.VELOCITY))
    request.cost.position.weight = floats(np.ones(DOF))
    request.trajectory_rows = array("I", [1])
    request.want_grad_start = True
    response = client.evaluate(request)
    assert response.success, response.message
    np.testing.assert_allclose(response.cost, [0.75, 0.75])
    np.testing.assert_allclose(response.grad_start_position, [6.0, 0.0, 0.0])
    np.testing.assert_allclose(table(response.trajectory.position, 1, DOF)[0, :, 0], 0.5)
    assert not response.grad_dt and not response.grad_goal_position


def test_integrate_answers_the_fields_that_are_asked_for(client: RosClient) -> None:
    message = sequence(np.random.default_rng(0).normal(size=(2, 5, DOF)), dt=[0.1], position=np.zeros(DOF))
    whole = client.integrate(message).trajectory
    some = client.integrate(message, TrajectoryBatch.POSITION | TrajectoryBatch.JERK).trajectory
    assert (some.position, some.jerk, len(some.velocity), len(some.acceleration)) == (whole.position, whole.jerk, 0, 0)
    refused = client.integrate(message, 16)
    assert not refused.success and refused.message.startswith("invalid_fields: fields: expected 0 (all) or a sum of 1")


def test_a_path_is_timed_by_the_limits_of_the_node_and_of_the_request(client: RosClient) -> None:
    path = np.array([[0.0, 0.0, 0.0], [0.4, 0.1, 0.0], [0.5, 0.6, -0.2]])
    request = Retime.Request(rows=3, position=array("d", path.ravel()), max_velocity_scaling_factor=0.5)
    lacking = client.call(Retime, "retime", request)
    assert lacking.message.startswith("no_limits: velocity_limits: expected a limit of joint_a, joint_b"), lacking
    assert not lacking.success and not lacking.status
    client.set_parameters(limits__velocity=[2.0] * DOF, limits__jerk=[80.0] * DOF)
    try:
        request.acceleration_limits = array("d", [8.0] * DOF)
        answer = client.call(Retime, "retime", request)
        request.min_duration = 2 * answer.duration[0]
        longer = client.call(Retime, "retime", request)
    finally:
        client.set_parameters(limits__velocity=[], limits__jerk=[])
    assert answer.success and list(answer.status) == [Retime.Request.DONE], answer
    assert list(answer.joint_names) == client.joint_names and list(answer.reason) == [""]
    position, velocity, acceleration = (
        np.asarray(getattr(answer, f"result_{name}")).reshape(-1, DOF)
        for name in ("position", "velocity", "acceleration")
    )
    assert len(position) == answer.points[0] == len(answer.time_from_start)
    assert answer.duration[0] == answer.time_from_start[-1] == answer.row_times[-1]
    np.testing.assert_allclose(position[[0, -1]], path[[0, -1]])
    assert not velocity[[0, -1]].any() and np.abs(acceleration).max() <= 8.001
    assert 0.9 < np.abs(velocity).max() <= 1.001 and 0.99 < max(answer.ratio) <= 1.0001
    assert longer.duration[0] == pytest.approx(request.min_duration) and max(longer.ratio) < 0.51
