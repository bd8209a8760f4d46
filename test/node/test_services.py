"""The services: forward for one caller, gradients for optimizers."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
import torch
from node_fixtures import changed, table

from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Retime
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, control_map, quadratic_cost
from traj_integrator_ros.traffic.messages import floats, sequence
from traj_integrator_ros.traffic.ros_client import RosClient

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


def leaves_of(message: ActionSequence) -> dict[str, torch.Tensor]:
    """The message's own float32 numbers in float64, by the names of the kernels' arguments."""

    def leaf(values: object, *shape: int) -> torch.Tensor:
        return torch.from_numpy(np.asarray(values, np.float64).reshape(shape)).requires_grad_()

    ends = {
        f"{end}_{part}": getattr(getattr(message, end), part)
        for end in ("start", "goal")
        for part in ("position", "velocity", "acceleration")
    }
    return {
        "action": leaf(message.data, message.batch, message.horizon, DOF),
        **{name: leaf(values, -1, DOF) for name, values in ends.items() if values},
        "dt": leaf(message.dt, -1),
    }


def assert_gradients(response: object, expected: dict[str, torch.Tensor]) -> None:
    for name, reference in expected.items():
        value, reference = np.asarray(getattr(response, f"grad_{name}")), reference.numpy().reshape(-1)
        assert value.size == reference.size, name
        assert np.linalg.norm(value - reference) <= 5e-6 * np.linalg.norm(reference), name


@pytest.mark.parametrize(
    ("space", "scheme"),
    [(ControlSpace.POSITION, "central"), (ControlSpace.JERK, "backward"), (ControlSpace.BSPLINE, "backward")],
)
def test_the_gradient_is_that_of_autograd_in_the_callers_columns(
    client: RosClient, space: ControlSpace, scheme: str
) -> None:
    kernel = control_map(space, scheme)
    rng = np.random.default_rng(space.value)
    batch, horizon, rows, index = 4, 6, 2, [0, 1, 1, 0]
    start = rng.normal(size=(3, rows, DOF))
    request = ComputeGradient.Request()
    request.actions = sequence(
        rng.normal(size=(batch, horizon, DOF)), control_space=space.value,
        dt=[0.1] if kernel.uniform_dt_only else rng.uniform(0.05, 0.1, size=horizon),
        position=start[0], velocity=start[1], acceleration=start[2], joint_names=["joint_b", "joint_c", "joint_a"],
    )  # fmt: skip
    request.actions.start_index = array("I", index)
    upstream = rng.normal(size=(4, batch, kernel.output_horizon(horizon), DOF)).astype(np.float32)
    for name, values in zip(UPSTREAM, upstream, strict=True):
        setattr(request, name, floats(values))
    with changed(client, finite_difference=scheme):
        response = client.compute_gradient(request)
    assert response.success, response.message
    leaves = leaves_of(request.actions)
    action, *starts, dt = leaves.values()
    outputs = kernel.step(action, *starts, dt=dt, start_index=torch.tensor(index))
    cost = sum((torch.from_numpy(g) * output).sum() for g, output in zip(upstream, outputs, strict=True))
    assert_gradients(response, dict(zip(leaves, torch.autograd.grad(cost, list(leaves.values())), strict=True)))


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.BSPLINE])
def test_a_goal_is_reached_and_has_its_gradient(client: RosClient, space: ControlSpace) -> None:
    rng = np.random.default_rng(3)
    batch, horizon, index = 3, 5, [1, 0, 1]
    actions = sequence(
        rng.normal(size=(batch, horizon, DOF)), dt=[0.1], control_space=space.value, position=[0.1] * DOF
    )
    actions.goal.position, actions.goal_index = floats(rng.normal(size=(2, DOF))), array("I", index)
    form = {}
    if space is ControlSpace.BSPLINE:
        actions.goal.velocity = floats(rng.normal(size=(2, DOF)))
        actions.degree, actions.steps = 5, 3
        form = {"bspline_degree": 5, "bspline_steps": 3}
    kernel = control_map(space, **form)
    response = client.integrate(actions)
    assert response.success, response.message
    last = table(response.trajectory.position, batch, DOF)[:, kernel.output_horizon(horizon) - 1]
    np.testing.assert_allclose(last, np.reshape(actions.goal.position, (2, DOF))[index], atol=1e-4)
    upstream = rng.normal(size=(batch, kernel.output_horizon(horizon), DOF)).astype(np.float32)
    answer = client.compute_gradient(ComputeGradient.Request(actions=actions, grad_velocity=floats(upstream)))
    assert answer.success, answer.message
    leaves = leaves_of(actions)
    goals = {name: leaf for name, leaf in leaves.items() if name.startswith("goal")}
    outputs = kernel.step(
        leaves["action"], leaves["start_position"], dt=leaves["dt"], **goals, goal_index=torch.tensor(index)
    )
    expected = torch.autograd.grad(outputs.velocity, list(leaves.values()), torch.from_numpy(upstream).double())
    assert_gradients(answer, dict(zip(leaves, expected, strict=True)))


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


def test_violated_limits_are_counted_where_they_are_to_warn(client: RosClient) -> None:
    message = sequence(np.full((2, 4, DOF), 2.0), control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
    before = int(client.counts()["warned.limits_violated"])
    with changed(client, limits__velocity=[1.0, 3.0, 3.0]):
        assert client.integrate(message).success
        assert int(client.counts()["warned.limits_violated"]) == before + 1


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.ACCELERATION, ControlSpace.BSPLINE])
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
        position=start[0], velocity=start[1], acceleration=start[2],
    )  # fmt: skip
    request.actions.start_index = array("I", index)
    given = {
        "position": {"weight": rng.random((batch, points, DOF)), "target": rng.normal(size=DOF)},
        "velocity": {"terminal_weight": rng.random((batch, DOF)), "target": rng.normal(size=(points, DOF))},
        "acceleration": {"limit_weight": rng.random(DOF), "lower": -bound, "upper": bound},
        "jerk": {"weight": 1e-3 * rng.random((points, DOF))},
    }
    for output, fields in given.items():
        for name, values in fields.items():
            setattr(getattr(request.cost, output), name, floats(values))
    for part in kernel.goal:
        setattr(request.actions.goal, part, floats(rng.normal(size=(1, DOF))))
    leaves = leaves_of(request.actions)
    cost = QuadraticCost(
        **{
            output: CostTerm(**{name: torch.from_numpy(np.float64(np.float32(x))) for name, x in fields.items()})
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
        none = torch.empty(0)
        assert_gradients(response, {n: g if n.split("_")[0] in wants else none for n, g in gradients.items()})
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
    with changed(client, limits__velocity=[2.0] * DOF, limits__jerk=[80.0] * DOF):
        request.acceleration_limits = array("d", [8.0] * DOF)
        answer = client.call(Retime, "retime", request)
        request.min_duration = 2 * answer.duration[0]
        longer = client.call(Retime, "retime", request)
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
