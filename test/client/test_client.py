"""The client with a real node: services, topics, threads, restarts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import rclpy
import torch
from node_fixtures import JOINTS, NodeFactory
from rclpy.context import Context
from rclpy.executors import SingleThreadedExecutor
from rclpy.node import Node
from ros_client import RosClient

from kit.node_process import NodeProcess
from traj_integrator_interfaces.msg import Rejection
from traj_integrator_interfaces.srv import Retime
from traj_integrator_ros.client import IntegratorClient, JointMotion, Refused, Trajectories
from traj_integrator_ros.kernels import CostTerm, QuadraticCost, acceleration_step, quadratic_cost, velocity_step

pytestmark = pytest.mark.ros
DT_S = 0.1
RNG = np.random.default_rng(0)
ACTIONS, START = RNG.normal(size=(4, 6, 3)), RNG.normal(size=(2, 3))
FIELDS = {"dt": DT_S, "control_space": "velocity", "position": START, "start_index": [0, 1, 1, 0]}
COST = QuadraticCost(
    position=CostTerm(weight=1.0, target=torch.tensor([0.1, 0.2, 0.3])),
    velocity=CostTerm(terminal_weight=torch.ones(3)),
)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
"""Between the node's float32 and float64."""


@pytest.fixture(scope="module")
def own(shared_node: NodeProcess) -> Iterator[IntegratorClient]:
    """A client with a node of its own."""
    with IntegratorClient() as one:
        one.wait_until_active()
        yield one


def expected(actions: torch.Tensor, start: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return velocity_step(actions, start, dt=DT_S, start_index=torch.tensor(FIELDS["start_index"]))


@pytest.mark.parametrize("kind", [np.asarray, torch.tensor])
def test_services_answer_what_the_kernels_compute_in_the_kind_of_the_actions(
    own: IntegratorClient, kind: object
) -> None:
    actions, start = torch.tensor(ACTIONS, requires_grad=True), torch.tensor(START, requires_grad=True)
    right, asked = expected(actions, start), kind(ACTIONS)
    found = own.integrate(asked, **FIELDS)
    assert all(type(values) is type(asked) for values in found.outputs) and found.joint_names == JOINTS
    for values, exact in zip(found.outputs, right, strict=True):
        np.testing.assert_allclose(values, exact.detach(), **CLOSE)
    np.testing.assert_allclose(found.time_from_start, DT_S * np.arange(6), **CLOSE)

    upstream = RNG.normal(size=(4, 6, 3))
    exact = torch.autograd.grad(
        right[1], (actions, start), torch.tensor(upstream), allow_unused=True, retain_graph=True
    )
    gradient = own.compute_gradient(asked, {"velocity": upstream}, **FIELDS)
    np.testing.assert_allclose(gradient.action, exact[0], **CLOSE)
    assert gradient.start_position.shape == (2, 3) and gradient.dt.shape == (1,) and gradient.goal_position is None

    options = {"cost": COST, "control_map": "velocity", "dt": DT_S}
    costs = quadratic_cost(actions, start, start_index=torch.tensor(FIELDS["start_index"]), **options)
    exact = torch.autograd.grad(costs.sum(), (actions, start))
    answer = own.evaluate(asked, COST, gradients=("action", "start"), rows=[2, 0], outputs=["velocity"], **FIELDS)
    assert type(answer.cost) is type(asked)
    np.testing.assert_allclose(answer.cost, costs.detach(), rtol=1e-5)
    np.testing.assert_allclose(answer.gradient.action, exact[0], rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(answer.gradient.start_position, exact[1], rtol=1e-4, atol=1e-4)
    assert answer.gradient.dt is None and answer.trajectories.position is None and answer.violations == {}
    np.testing.assert_allclose(answer.trajectories.velocity, right[1].detach()[[2, 0]], **CLOSE)


@pytest.mark.parametrize("dt_per", ["step", "trajectory"])
def test_time_steps_of_a_batch_have_gradients_of_their_shape(own: IntegratorClient, dt_per: str) -> None:
    dt = torch.tensor(RNG.uniform(0.05, 0.15, 6 if dt_per == "step" else 4), requires_grad=True)
    options = {"cost": COST, "control_map": "velocity", "dt": dt, "dt_per": dt_per}
    costs = quadratic_cost(torch.tensor(ACTIONS), torch.tensor(START[:1]), **options)
    [exact] = torch.autograd.grad(costs.sum(), dt)
    fields = {"control_space": "velocity", "position": START[:1], "dt_per": dt_per, "gradients": ["dt"], "rows": [1, 3]}
    found = own.evaluate(ACTIONS, COST, dt=dt.detach(), **fields)
    assert found.gradient.dt.shape == dt.shape and found.gradient.action is None
    np.testing.assert_allclose(found.gradient.dt, exact, rtol=1e-4, atol=1e-4)
    assert found.trajectories.time_from_start.shape == ((6,) if dt_per == "step" else (2, 6))
    if dt_per == "step":
        each = own.evaluate(ACTIONS, COST, dt=dt.detach().expand(4, 6), **fields).gradient.dt
        assert each.shape == (4, 6)
        np.testing.assert_allclose(each.sum(axis=0), exact, rtol=1e-4, atol=1e-4)


def test_violations_come_by_output_with_the_horizon_of_the_trajectory(own: IntegratorClient) -> None:
    cost = {"velocity": {"upper": 0.5, "lower": -0.5}}
    fields = {"control_space": "position", "position": START[:1], "dt": DT_S}  # central differences: more points
    found = own.evaluate(ACTIONS, cost, violations=["velocity"], **fields).violations
    velocity = own.integrate(ACTIONS, outputs=["velocity"], **fields).velocity
    assert list(found) == ["velocity"]
    np.testing.assert_allclose(found["velocity"], np.abs(velocity) - 0.5, **CLOSE)


def test_retimed_paths_pass_their_rows_at_the_times_that_come_with_them(own: IntegratorClient) -> None:
    paths = np.cumsum(RNG.uniform(0.1, 0.3, (2, 5, 3)), axis=1)
    paths[1] = paths[1, :1]  # it stands still
    limits = {"velocity_limits": np.ones(3), "acceleration_limits": [2.0] * 3, "jerk_limits": [20.0] * 3}
    found = own.retime(paths, **limits)
    assert found.status.tolist() == [Retime.Request.DONE, Retime.Request.STILL]
    assert found.ratio.shape == (2, 3) and found.row_times.shape == (2, 5) and found.ratio[0].max() < 1.001
    motion, still = found.trajectories
    at = np.abs(motion.time_from_start[:, None] - found.row_times[0]).argmin(axis=0)
    assert np.abs(motion.position[at] - paths[0]).max() < 0.02 and motion.joint_names == JOINTS
    assert len(still.position) == 1 and motion.velocity.shape == motion.position.shape
    assert own.retime(paths[:1], order=2, **limits).trajectories[0].acceleration is None
    wanted = found.duration[0] + 1.5
    longer = own.retime(paths[:1], duration=wanted, **limits)
    np.testing.assert_allclose(longer.duration, wanted, rtol=1e-6)


def test_refusals_are_exceptions_with_the_reason_of_the_node(own: IntegratorClient) -> None:
    with pytest.raises(Refused, match=r"~/integrate: .*data: expected finite numbers, got nan"):
        own.integrate(np.full((1, 2, 3), np.nan), position=START[0])
    with pytest.raises(Refused, match=r"~/evaluate: .*max_batch"):
        own.evaluate(np.zeros((65, 2, 3)), COST, position=START[0])
    with pytest.raises(Refused, match=r"parameters: .*dt"):
        own.set_parameters({"dt": -1.0})


def test_parameters_come_and_go_as_python_objects(own: IntegratorClient) -> None:
    assert own.parameters("joint_names", "dt") == {"joint_names": list(JOINTS), "dt": 0.02}
    with pytest.raises(Refused, match="expected those that the node has, got dt, nothing"):
        own.parameters("dt", "nothing")
    own.set_parameters({"dt": 0.05})
    assert own.parameters("dt") == {"dt": 0.05}
    own.set_parameters({"dt": 0.02})


def test_columns_are_in_the_order_of_the_client(client: RosClient, own: IntegratorClient) -> None:
    names = ("joint_c", "joint_a", "joint_b")
    client.settle_state([0.1, 0.2, 0.3])
    with IntegratorClient(joint_names=names) as other:
        found = other.integrate(ACTIONS, **FIELDS)
        assert found.joint_names == names
        np.testing.assert_array_equal(found.position, own.integrate(ACTIONS, **FIELDS).position)
        rows = other.committed(3, rows_before=2)
        assert rows.joint_names == names and rows.position.shape == (3, 3) and rows.measured_position.shape == (2, 3)
        np.testing.assert_allclose(rows.position[0], [0.3, 0.1, 0.2])
        assert other.stop().joint_names == names
    assert own.committed(2).joint_names == JOINTS


def test_what_is_published_comes_back_as_arrays_with_its_stamp(client: RosClient, own: IntegratorClient) -> None:
    batches: list[Trajectories] = []
    motions: list[JointMotion] = []
    rejections: list[Rejection] = []
    with IntegratorClient() as one:
        one.on_batch(batches.append)
        one.on_trajectory(motions.append)
        one.on_rejection(rejections.append)
        one.wait_until_active()
        fields = {"dt": DT_S, "control_space": "acceleration"}
        stamps = [one.publish(np.full((2, 4, 3), scale), **fields) for scale in (0.1, np.nan)]
        one.publish_positions([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0]], [0.5, 1.0], joint_names=JOINTS)
        wait_until(lambda: len(motions) == 2 and rejections)
    assert stamps[0] < stamps[1] and abs(stamps[0] - time.time_ns()) < 60e9 and one.unheard == 0
    [batch], [rejection] = batches, rejections
    assert batch.stamp_ns == stamps[0] and batch.position.shape == (2, 4, 3)
    exact = acceleration_step(torch.full((2, 4, 3), 0.1), torch.zeros(1, 3), dt=DT_S)
    np.testing.assert_allclose(batch.position, exact.position, atol=1e-6)
    assert rejection.reason == "not_finite"
    assert (rejection.header.stamp.sec * 10**9 + rejection.header.stamp.nanosec) == stamps[1]
    assert motions[0].position.shape == motions[0].velocity.shape
    assert np.abs(motions[1].position - [0.2, 0.0, 0.0]).max(axis=1).min() < 1e-6, "it passes the last row"


def test_a_hold_ends_with_its_release(client: RosClient, own: IntegratorClient) -> None:
    assert own.stop(hold=True).duration == 0.0
    with pytest.raises(Refused, match="stopped"):
        own.integrate(np.zeros((1, 2, 3)), as_published=True)
    own.release()
    own.integrate(np.zeros((1, 2, 3)), as_published=True)


def test_calls_of_many_threads_and_futures_get_their_own_answers(own: IntegratorClient) -> None:
    def call(value: float) -> bool:
        return bool((own.integrate(np.full((1, 2, 3), value), **plain).velocity[:, 1:] == value).all())

    plain = {"dt": 0.5, "control_space": "velocity", "position": np.zeros(3)}
    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, np.arange(100, dtype=np.float32)))
    futures = [own.futures.integrate(np.full((1, 2, 3), value), **plain) for value in range(60)]
    assert [float(one.result().velocity[0, 1, 0]) for one in futures] == list(range(60))


def test_waiting_in_the_callback_of_a_future_is_refused_rather_than_forever(own: IntegratorClient) -> None:
    errors: list[BaseException] = []
    over = threading.Event()

    def then(_: object) -> None:
        try:
            own.integrate(ACTIONS, **FIELDS)
        except RuntimeError as error:
            errors.append(error)
        own.futures.integrate(ACTIONS, **FIELDS).add_done_callback(lambda _: over.set())  # this is allowed

    own.futures.integrate(ACTIONS, **FIELDS).add_done_callback(then)
    assert over.wait(10) and "callback of a future" in str(errors[0])


@pytest.fixture
def their_node(shared_node: NodeProcess) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    """A node of a program, with an executor of one thread that nobody spins yet."""
    context = Context()
    rclpy.init(context=context)
    node = rclpy.create_node("theirs", context=context)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    yield node, executor
    executor.shutdown()
    node.destroy_node()
    context.try_shutdown()


def test_calls_wait_in_callbacks_of_the_programs_own_executor(
    client: RosClient, their_node: tuple[Node, SingleThreadedExecutor]
) -> None:
    node, executor = their_node
    shapes, motions = [], []
    with IntegratorClient(node=node) as theirs:
        theirs.on_trajectory(motions.append)
        theirs.wait_until_active()  # nobody spins

        def work() -> None:
            shapes.append(theirs.integrate(ACTIONS, **FIELDS).position.shape)
            theirs.publish(np.zeros((1, 4, 3)), control_space="velocity")

        timer = node.create_timer(0.05, work)
        wait_until(lambda: len(shapes) >= 3 and motions, partial(executor.spin_once, 0.05))
        node.destroy_timer(timer)
    assert set(shapes) == {(4, 6, 3)}
    assert all("traj_integrator" not in one.topic_name for one in node.publishers)


def test_an_error_in_a_callback_is_logged_and_the_next_is_called(
    client: RosClient, capfd: pytest.CaptureFixture[str]
) -> None:
    seen: list[float] = []

    def on_batch(batch: Trajectories) -> None:
        seen.append(float(batch.position[0, 0, 0]))
        raise ArithmeticError("of the callback")

    with IntegratorClient() as one:
        one.on_batch(on_batch)
        one.wait_until_active()
        for _ in range(2):
            one.publish(np.zeros((1, 2, 3)), control_space="velocity", position=np.zeros(3))
        wait_until(lambda: len(seen) == 2)
    assert "ArithmeticError: of the callback" in capfd.readouterr().err


def test_calls_survive_a_restart_of_the_node_and_time_out_without_one(start_node: NodeFactory) -> None:
    arguments = ["-r", "__ns:=/restarted"]
    with IntegratorClient("/restarted/traj_integrator", timeout_s=30.0, retry_after_s=0.5) as one:
        began = one.futures.integrate(ACTIONS, **FIELDS)  # before there is a node
        first = start_node(arguments=arguments)
        before = began.result().position
        first.stop()
        began = one.futures.integrate(ACTIONS, **FIELDS)
        second = start_node(arguments=arguments)
        np.testing.assert_array_equal(began.result().position, before)
        second.stop()
    with IntegratorClient("/restarted/traj_integrator", timeout_s=0.5) as one:
        with pytest.raises(TimeoutError, match="/restarted/traj_integrator/integrate: expected such a service"):
            one.integrate(ACTIONS, **FIELDS)
        with pytest.raises(TimeoutError, match="expected it active"):
            one.wait_until_active(0.5)
        one.publish(ACTIONS)
        assert one.unheard == 1
        left = one.futures.integrate(ACTIONS, **FIELDS)
    with pytest.raises(RuntimeError, match="closed"):
        left.result()
    with pytest.raises(RuntimeError, match="closed"):
        one.integrate(ACTIONS, **FIELDS)


def wait_until(condition: object, step: object = partial(time.sleep, 0.02), within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        step()
