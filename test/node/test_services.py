"""Services and topics, from arrays to arrays: what the kernels compute, for callers, optimizers and controllers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch
from builtin_interfaces.msg import Duration
from engine_cases import EngineCase
from node_fixtures import JOINTS, changed, plan, table
from ros_client import RosClient

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_interfaces.srv import Retime, Stop
from traj_integrator_ros.client import ORDERS, SECOND_NS, Gradient, Refused, packed, sequence, set_stamp, stamp_of
from traj_integrator_ros.kernels import ControlSpace, CostTerm, QuadraticCost, control_map, quadratic_cost

pytestmark = pytest.mark.ros
DOF = 3
ORDER = ("joint_b", "joint_c", "joint_a")
KINDS = {"numpy": np.asarray, "torch": torch.tensor}
SPLINE_STEPS = 4
"""Parameter bspline.steps."""


def test_the_observation_may_be_any_joint_state_however_fast_they_come(client: RosClient) -> None:
    places, rows = [0.1, 0.103, 0.101, 0.105, 0.102], np.full((1, 3, DOF), 2**-7)
    message = sequence(rows, dt=[0.1], control_space=ActionSequence.POSITION)
    with changed(client, relative_to=["observation", "step", "none"]):
        client.settle_state([0.1] * DOF)
        newest_ns = time.time_ns()
        for count, place in enumerate(places):
            client.publish_state([place] * DOF, stamp_ns=newest_ns + (count - 4) * 1_000_000)
        client.state()  # by its answer, the node has received them
        for count, place in enumerate(places[1:], 1):
            set_stamp(message, newest_ns + (count - 4) * 1_000_000)
            found = table(client.integrate(message).trajectory.position, 1, DOF)[0, 1:]  # after the start
            expected = [[place + 2**-7, place + k * 2**-7, 2**-7] for k in (1, 2)]
            np.testing.assert_array_equal(found, np.float32(expected))
        for off_ns, told in ((SECOND_NS, "got -"), (-11 * SECOND_NS, "got 11.")):
            set_stamp(message, newest_ns + off_ns)
            answer = client.integrate(message)
            assert not answer.success and answer.message.startswith("no_observation: ") and told in answer.message


def test_points_without_times_are_refused_with_both_of_their_meanings(client: RosClient) -> None:
    client.rejections.clear()
    client.plans.publish(plan([0.0, 0.0], np.zeros((2, DOF))))
    client.wait_for(lambda: client.rejections, "the rejection")
    told = client.rejections[-1]
    assert told.reason == "invalid_times", told.text
    assert all(part in told.text for part in ("a path", "a chunk", "position_trajectory.without_times")), told.text


def case_of(space: ControlSpace, dt: str) -> EngineCase:
    """Four trajectories with every optional argument, in numbers that a message has."""
    kernel = control_map(space)
    ends = {"start": "pool", "goal": "pool" if kernel.goal else ""}
    return EngineCase(kernel, batch=4, dof=DOF, dt=dt, **ends, seed=space.value)


def fields_of(case: EngineCase, leaves: dict[str, torch.Tensor]) -> dict[str, object]:
    """The keyword arguments of `sequence`, with joints in another order."""
    named = (pair for pair in leaves.items() if pair[0] != "action")
    found = {name.removeprefix("start_"): values.detach().numpy() for name, values in named}
    if case.dt == "[B, 1]":
        found |= {"dt": found["dt"][:, 0], "dt_per": "trajectory"}
    return {**found, **case.indices, "control_space": case.kernel.control_space, "joint_names": ORDER}


def assert_gradients(found: Gradient, expected: dict[str, torch.Tensor], kind: str) -> None:
    """Check that exactly the expected arrays are present, with these values."""
    assert {name for name, values in vars(found).items() if values is not None} == expected.keys()
    for name, exact in expected.items():
        value, exact = getattr(found, name), exact.numpy()
        assert isinstance(value, torch.Tensor) == (kind == "torch"), name
        assert value.shape == (exact.shape[:1] if exact.shape == (4, 1) else exact.shape), name
        value = np.asarray(value).reshape(-1)
        assert np.linalg.norm(value - exact.reshape(-1)) <= 5e-6 * np.linalg.norm(exact), name


@pytest.mark.parametrize(
    ("space", "dt", "kind"),
    [
        (ControlSpace.POSITION, "[B, 1]", "numpy"),
        (ControlSpace.VELOCITY, "[B, H]", "numpy"),
        (ControlSpace.ACCELERATION, "[B, 1]", "torch"),
        (ControlSpace.JERK, "[B, H]", "torch"),
        (ControlSpace.BSPLINE, "[B, 1]", "numpy"),
    ],
)
def test_batches_and_gradients_are_those_of_the_kernels_in_the_callers_columns(
    client: RosClient, space: ControlSpace, dt: str, kind: str
) -> None:
    case = case_of(space, dt)
    leaves, exact = case.leaves(), case.expected(torch.float64)
    fields, actions = fields_of(case, leaves), KINDS[kind](leaves["action"].detach().numpy())
    expected, given = dict(zip(leaves, exact[4:], strict=True)), dict(zip(ORDERS, case.upstream(), strict=True))
    assert_gradients(client.services.compute_gradient(actions, given, **fields), expected, kind)
    found = client.services.integrate(actions, **fields)
    lengths = leaves["dt"].detach().expand(exact[0].shape[:2])
    assert found.joint_names == ORDER
    np.testing.assert_allclose(found.time_from_start, lengths.cumsum(1) - lengths[:, :1], atol=1e-6)
    for values, output in zip(found.outputs, exact[:4], strict=True):
        assert type(values) is type(actions)
        assert np.linalg.norm(np.asarray(values) - output.numpy()) <= 2e-6 * np.linalg.norm(output)
    message = sequence(actions, **fields)
    message.header.stamp.sec = 1234
    client.batches.clear()
    client.sequences.publish(message)
    client.wait_for(lambda: client.batches, "the batch")
    assert client.integrate(message).trajectory == client.batches[-1], "the service answers what the topic publishes"
    message.data = packed([])  # the map is linear, so the gradient needs no data, except for dt
    without = client.services.compute_gradient(message, given)
    del expected["dt"]
    assert_gradients(without, expected, "numpy")


def test_violated_limits_are_counted_where_they_are_to_warn(client: RosClient, shared_node: NodeProcess) -> None:
    message = sequence(np.full((2, 4, DOF), 2.0), control_space=ActionSequence.VELOCITY, position=np.zeros(DOF))
    before = int(client.counts()["warned.limits_violated"])
    with changed(client, limits__velocity=[1.0, 3.0, 3.0]):
        assert client.integrate(message).success
        assert int(client.counts()["warned.limits_violated"]) == before + 1
    assert "published in spite of limits_violated" in shared_node.output


@pytest.mark.parametrize(
    ("space", "dt", "kind"),
    [
        (ControlSpace.POSITION, "[H]", "torch"),
        (ControlSpace.ACCELERATION, "[H]", "numpy"),
        (ControlSpace.BSPLINE, "[B, 1]", "numpy"),
    ],
)
def test_evaluate_is_the_quadratic_cost_with_its_gradients(
    client: RosClient, space: ControlSpace, dt: str, kind: str
) -> None:
    rng, case = np.random.default_rng(space.value), case_of(space, dt)
    batch, points, bound = case.batch, case.kernel.output_horizon(case.horizon), rng.random(DOF)
    bound[0] = np.inf
    leaves = case.leaves()
    fields, actions = fields_of(case, leaves), KINDS[kind](leaves["action"].detach().numpy())

    def sent(values: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.float64(np.float32(values)))

    def term(**values: np.ndarray) -> CostTerm:
        return CostTerm(**{name: sent(one) for name, one in values.items()})

    cost = QuadraticCost(
        position=term(weight=rng.random((batch, points, DOF)), target=rng.normal(size=DOF)),
        velocity=term(terminal_weight=rng.random((batch, DOF)), target=rng.normal(size=(points, DOF))),
        acceleration=term(limit_weight=rng.random(DOF), lower=-bound, upper=bound),
        jerk=term(weight=1e-3 * rng.random((points, DOF))),
        duration_weight=0.5 if kind == "torch" else sent(rng.random(batch)),
    )
    wanted = quadratic_cost(**leaves, cost=cost, control_map=case.kernel, **case.indices)
    gradients = dict(zip(leaves, torch.autograd.grad(wanted.sum(), list(leaves.values())), strict=True))
    whole = client.services.integrate(actions, outputs=["velocity", "acceleration"], **fields)
    for wants in (("action",), ("start",), ("goal", "dt"), ("action", "start", "goal", "dt")):
        asked = {"gradients": wants, "rows": [3, 1], "outputs": ["velocity"], "violations": ["acceleration"]}
        found = client.services.evaluate(actions, cost, **asked, **fields)
        np.testing.assert_allclose(found.cost, wanted.detach().numpy(), rtol=1e-5)
        assert type(found.cost) is type(actions)
        expected = {name: values for name, values in gradients.items() if name.split("_")[0] in wants}
        assert_gradients(found.gradient, expected, kind)
        some, times = found.trajectories, np.asarray(whole.time_from_start)
        assert some.joint_names == ORDER and some.position is some.acceleration is some.jerk is None
        np.testing.assert_array_equal(some.time_from_start, times if times.ndim == 1 else times[[3, 1]])
        np.testing.assert_array_equal(some.velocity, np.asarray(whole.velocity)[[3, 1]])
        assert list(found.violations) == ["acceleration"]
        beyond = np.abs(np.asarray(whole.acceleration)) - np.float32(bound)
        np.testing.assert_allclose(found.violations["acceleration"], beyond, rtol=1e-4, atol=1e-4)


def test_a_path_may_have_as_many_rows_as_a_plan_has_points(client: RosClient) -> None:
    path = np.outer(np.sin(np.linspace(0.0, 3.0, 2000)), [0.5, -0.3, 0.1])[None]
    found = client.services.retime(path, velocity_limits=[1.0] * DOF, acceleration_limits=[8.0] * DOF, order=2)
    assert found.status.tolist() == [Retime.Request.DONE] and found.row_times.shape == path.shape[:2]


def test_paths_are_timed_by_the_limits_of_the_node_and_of_the_request(client: RosClient) -> None:
    paths = np.array([[[0.0, 0.0, 0.0], [0.4, 0.1, 0.0], [0.5, 0.6, -0.2]], np.ones((3, DOF))])
    with pytest.raises(Refused, match="no_limits: velocity_limits: expected a limit of joint_a, joint_b"):
        client.services.retime(paths)
    limits = {"max_velocity_scaling_factor": 0.5, "acceleration_limits": [8.0] * DOF}
    with changed(client, limits__velocity=[2.0] * DOF, limits__jerk=[80.0] * DOF):
        found = client.services.retime(paths, **limits)
        longer = client.services.retime(paths[:1], min_duration=2 * found.duration[0], **limits)
        cubic = client.services.retime(paths[:1], order=2, joint_names=ORDER, **limits)
    assert found.status.tolist() == [Retime.Request.DONE, Retime.Request.STILL] and found.reason == ("", "")
    motion, still = found.trajectories
    assert motion.joint_names == tuple(client.joint_names) and len(still.position) == 1
    assert found.duration[0] == motion.time_from_start[-1] == found.row_times[0, -1] and found.duration[1] == 0
    at = np.abs(motion.time_from_start[:, None] - found.row_times[0]).argmin(axis=0)
    assert np.abs(motion.position[at] - paths[0]).max() < 0.02
    np.testing.assert_allclose(motion.position[[0, -1]], paths[0, [0, -1]])
    assert not motion.velocity[[0, -1]].any() and np.abs(motion.acceleration).max() <= 8.001
    assert 0.9 < np.abs(motion.velocity).max() <= 1.001 and 0.99 < found.ratio[0].max() <= 1.0001
    assert longer.duration[0] == pytest.approx(2 * found.duration[0]) and longer.ratio.max() < 0.51
    assert cubic.trajectories[0].acceleration is None and cubic.trajectories[0].joint_names == ORDER


def test_a_sequence_starts_from_the_latest_state_in_its_own_columns(client: RosClient) -> None:
    client.settle_state([0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    order = ["joint_c", "joint_a", "joint_b"]
    message = sequence(np.zeros((1, 4, DOF)), control_space=ActionSequence.VELOCITY, joint_names=order)
    batch, trajectory = client.answer(message)
    assert list(batch.joint_names) == order and list(trajectory.joint_names) == client.joint_names
    assert np.allclose(table(batch.position, 1, DOF)[0, 0], [0.3, 0.1, 0.2])
    assert np.allclose(table(batch.velocity, 1, DOF)[0, 0], [3.0, 1.0, 2.0])
    # The controller is unknown, so the robot is brought from its measured motion to rest: [1, 2, 3] for 0.02 s ahead.
    assert np.allclose(trajectory.points[0].positions, [0.12, 0.24, 0.36], atol=5e-3)


@pytest.mark.parametrize(("space", "horizon"), [(ControlSpace.POSITION, 1), (ControlSpace.BSPLINE, 12)])
def test_what_is_published_for_the_controller_is_acceptable_to_it(
    client: RosClient, space: ControlSpace, horizon: int
) -> None:
    rng = np.random.default_rng(horizon)
    actions = rng.normal(scale=0.5, size=(2, horizon, DOF))
    before_ns = time.time_ns()
    _, trajectory = client.answer(sequence(actions, control_space=space, position=np.zeros(DOF)))
    # The client checks that all received trajectories are acceptable.
    bridge_s = 0.02  # parameter publish.bridge_time
    assert bridge_s - 1e-3 < (stamp_of(trajectory) - before_ns) * 1e-9 < bridge_s + 5.0, "the controller comes there"
    assert trajectory.points[0].time_from_start == Duration()
    assert np.allclose([trajectory.points[0].positions, trajectory.points[0].velocities], 0.0)
    last = trajectory.points[-1].time_from_start
    step_s = 0.02 * (SPLINE_STEPS if space is ControlSpace.BSPLINE else 1)
    assert last.sec + 1e-9 * last.nanosec >= step_s * horizon - 1e-9, "every action is executed"


def test_the_first_of_a_batch_is_the_one_for_the_controller(client: RosClient) -> None:
    actions = np.broadcast_to(np.array([0.1, 0.2])[:, None, None], (2, 4, DOF))
    batch, trajectory = client.answer(sequence(actions, control_space=ActionSequence.VELOCITY))
    way = np.array(batch.position).reshape(2, -1, DOF)[:, -1, 0] - batch.position[0]
    went = trajectory.points[-1].positions[0] - trajectory.points[0].positions[0]
    assert abs(went - way[0]) < abs(went - way[1]), "the second one is twice as fast"


# Plans from planners without this package's messages; test/governor tests how plans are executed


@pytest.fixture
def limited(client: RosClient) -> Iterator[RosClient]:
    """A client of a node with limits, whose robot rests."""
    with changed(client, limits__velocity=[2.0] * 3, limits__acceleration=[5.0] * 3, limits__action="retime"):
        client.settle_state([0.1, 0.2, 0.3])
        yield client


def test_a_plan_of_one_joint_that_asks_too_much_reaches_its_goal_later(limited: RosClient) -> None:
    before = int(limited.counts()["slowed"])
    limited.statuses.clear()
    answer = limited.answer_plan(plan([0.0, 0.1], [[0.2], [1.1]], JOINTS[1:2]))
    rows, last = np.array([point.positions for point in answer.points]), answer.points[-1].time_from_start
    np.testing.assert_allclose(rows[:, [0, 2]], [[0.1, 0.3]] * len(rows), atol=1e-12)
    assert rows[-1, 1] == pytest.approx(1.1, abs=1e-6)

    def told() -> list[float]:
        """Seconds by which each message since then was slowed."""
        return [float(pair.value) for one in limited.statuses for pair in one.values if pair.key == "slowed_by_s"]

    limited.wait_for(lambda: any(told()), "a status that tells of it")
    assert max(told()) == pytest.approx(last.sec + last.nanosec * 1e-9 - 0.1, abs=2e-3)
    assert int(limited.counts()["slowed"]) == before + 1


@pytest.mark.parametrize("count", [2_000, pytest.param(20_000, marks=pytest.mark.thorough)])
def test_plans_of_thousands_of_points_pass_as_they_are(limited: RosClient, count: int) -> None:
    share = np.arange(1, count + 1)[:, None] / count
    rows = [0.1, 0.2, 0.3] + share**3 * (10 - 15 * share + 6 * share**2) * [0.4, -0.3, 0.2]
    limited.trajectories.clear()
    limited.plans.publish(plan(1e-3 * np.arange(1, count + 1), rows))
    limited.wait_for(lambda: limited.trajectories, "a trajectory", 30.0)
    answer = limited.trajectories[-1]
    assert len(answer.points) == count + 1
    np.testing.assert_allclose([point.positions for point in answer.points[1:]], rows, atol=1e-6)
    assert limited.call(Stop, "stop", Stop.Request()).success
