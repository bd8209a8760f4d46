"""The services: forward for one caller, gradients for optimizers."""

from __future__ import annotations

from array import array

import numpy as np
import pytest
import torch
from node_fixtures import changed, table
from ros_client import RosClient

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence, TrajectoryBatch
from traj_integrator_interfaces.srv import ComputeGradient, Evaluate, Retime
from traj_integrator_ros.client import packed, sequence
from traj_integrator_ros.kernels import ControlMap, ControlSpace, CostTerm, QuadraticCost, control_map, quadratic_cost

pytestmark = pytest.mark.ros
DOF = 3
ORDER = ["joint_b", "joint_c", "joint_a"]
START_INDEX, GOAL_INDEX = [0, 1, 1, 0], [1, 0, 1, 1]
UPSTREAM = ("grad_position", "grad_velocity", "grad_acceleration", "grad_jerk")


def test_integrate_answers_what_the_topic_publishes(client: RosClient) -> None:
    message = sequence(np.random.default_rng(0).normal(size=(3, 5, DOF)), dt=[0.1])
    message.header.stamp.sec = 77
    batch, _ = client.answer(message)
    response = client.integrate(message)
    assert response.success and response.message == ""
    assert response.trajectory == batch


def any_sequence(space: ControlSpace, kernel: ControlMap) -> ActionSequence:
    """Of four trajectories `[6, DOF]` with all that there can be, joints in another order."""
    rng = np.random.default_rng(space.value)
    position, velocity, acceleration = rng.normal(size=(3, 2, DOF))
    message = sequence(
        rng.normal(size=(4, 6, DOF)), control_space=space.value,
        dt=rng.uniform(0.05, 0.1, size=4 if kernel.uniform_dt_only else 6),
        dt_per="trajectory" if kernel.uniform_dt_only else "step",
        position=position, velocity=velocity, acceleration=acceleration, joint_names=ORDER,
    )  # fmt: skip
    message.start_index = array("I", START_INDEX)
    if kernel.goal:
        message.goal_index = array("I", GOAL_INDEX)
    for part in kernel.goal:
        setattr(message.goal, part, packed(rng.normal(size=(2, DOF))))
    return message


def indices(kernel: ControlMap) -> dict[str, torch.Tensor]:
    """Those of the rows of such a sequence, as the kernels take them."""
    found = {"start_index": START_INDEX, **({"goal_index": GOAL_INDEX} if kernel.goal else {})}
    return {name: torch.tensor(rows) for name, rows in found.items()}


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
        "dt": leaf(message.dt, *((-1, 1) if message.dt_per else (-1,))),
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
    request = ComputeGradient.Request(actions=any_sequence(space, kernel))
    rng = np.random.default_rng(space.value)
    upstream = rng.normal(size=(4, 4, kernel.output_horizon(6), DOF)).astype(np.float32)
    for name, values in zip(UPSTREAM, upstream, strict=True):
        setattr(request, name, packed(values))
    leaves = leaves_of(request.actions)
    others = dict(leaves)
    outputs = kernel.step(others.pop("action"), **others, **indices(kernel))
    cost = sum((torch.from_numpy(g) * output).sum() for g, output in zip(upstream, outputs, strict=True))
    expected = dict(zip(leaves, torch.autograd.grad(cost, list(leaves.values())), strict=True))
    with changed(client, finite_difference=scheme):
        response = client.compute_gradient(request)
        assert response.success, response.message
        assert_gradients(response, expected)
        trajectory = client.integrate(request.actions).trajectory
        assert np.allclose(table(trajectory.position, 4, DOF), outputs.position.detach(), atol=1e-4)
        # Linear: it needs no data, but for dt.
        request.actions.data = packed([])
        without = client.compute_gradient(request)
    assert_gradients(without, {**expected, "dt": torch.empty(0)})


def test_violated_limits_are_counted_where_they_are_to_warn(client: RosClient, shared_node: NodeProcess) -> None:
    message = sequence(np.full((2, 4, DOF), 2.0), control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
    before = int(client.counts()["warned.limits_violated"])
    with changed(client, limits__velocity=[1.0, 3.0, 3.0]):
        assert client.integrate(message).success
        assert int(client.counts()["warned.limits_violated"]) == before + 1
    assert "published in spite of limits_violated" in shared_node.output


@pytest.mark.parametrize("space", [ControlSpace.POSITION, ControlSpace.ACCELERATION, ControlSpace.BSPLINE])
def test_evaluate_is_the_quadratic_cost_with_its_gradients(client: RosClient, space: ControlSpace) -> None:
    rng, kernel = np.random.default_rng(space.value), control_map(space)
    batch, points, bound = 4, kernel.output_horizon(6), rng.random(DOF)
    request = Evaluate.Request(actions=any_sequence(space, kernel))
    given = {
        "position": {"weight": rng.random((batch, points, DOF)), "target": rng.normal(size=DOF)},
        "velocity": {"terminal_weight": rng.random((batch, DOF)), "target": rng.normal(size=(points, DOF))},
        "acceleration": {"limit_weight": rng.random(DOF), "lower": -bound, "upper": bound},
        "jerk": {"weight": 1e-3 * rng.random((points, DOF))},
    }
    for output, fields in given.items():
        for name, values in fields.items():
            setattr(getattr(request.cost, output), name, packed(values))
    leaves = leaves_of(request.actions)
    cost = QuadraticCost(
        **{
            output: CostTerm(**{name: torch.from_numpy(np.float64(np.float32(x))) for name, x in fields.items()})
            for output, fields in given.items()
        }
    )
    wanted = quadratic_cost(**leaves, cost=cost, control_map=kernel, **indices(kernel))
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
        assert (some.batch, some.horizon, some.joint_names) == (2, points, ORDER)
        assert not some.position and not some.acceleration and not some.jerk
        times, found = (np.reshape(of.time_from_start, (-1, points)) for of in (whole, some))
        np.testing.assert_array_equal(found, times[[3, 1]] if request.actions.dt_per else times)
        np.testing.assert_array_equal(table(some.velocity, 2, DOF), table(whole.velocity, batch, DOF)[[3, 1]])


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
