"""The client with a real node: topics, threads, restarts; test/node/test_services.py has its services."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
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
from traj_integrator_interfaces.srv import Stop
from traj_integrator_ros.client import IntegratorClient, JointMotion, Refused, Trajectories
from traj_integrator_ros.kernels import acceleration_step

pytestmark = pytest.mark.ros
DT_S = 0.1
RNG = np.random.default_rng(0)
ACTIONS, START = RNG.normal(size=(4, 6, 3)), RNG.normal(size=(2, 3))
FIELDS = {"dt": DT_S, "control_space": "velocity", "position": START, "start_index": [0, 1, 1, 0]}


@pytest.fixture(scope="module")
def own(shared_node: NodeProcess) -> Iterator[IntegratorClient]:
    """A client with a node of its own."""
    with IntegratorClient() as one:
        one.wait_until_active()
        yield one


def test_refusals_are_exceptions_with_the_reason_of_the_node(own: IntegratorClient) -> None:
    with pytest.raises(Refused, match=r"~/integrate: .*data: expected finite numbers, got nan"):
        own.integrate(np.full((1, 2, 3), np.nan), position=START[0])
    with pytest.raises(Refused, match=r"~/evaluate: .*max_batch"):
        own.evaluate(np.zeros((65, 2, 3)), {"position": {"weight": 1.0}}, position=START[0])
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


def test_what_is_published_comes_back_as_arrays_with_its_stamp(
    client: RosClient, own: IntegratorClient, capfd: pytest.CaptureFixture[str]
) -> None:
    batches: list[Trajectories] = []
    motions: list[JointMotion] = []
    rejections: list[Rejection] = []

    def on_batch(batch: Trajectories) -> None:
        batches.append(batch)
        raise ArithmeticError("of the callback")

    with IntegratorClient() as one:
        one.on_batch(on_batch)
        one.on_trajectory(motions.append)
        one.on_rejection(rejections.append)
        one.wait_until_active()
        fields = {"dt": DT_S, "control_space": "acceleration"}
        stamps = [one.publish(np.full((2, 4, 3), 0.1), **fields)]
        wait_until(lambda: motions)  # A node that is late leaves out what a newer message replaces.
        stamps.append(one.publish(np.full((2, 4, 3), np.nan), **fields))
        wait_until(lambda: rejections)
        one.publish_positions([[0.1, 0.0, 0.0], [0.2, 0.0, 0.0]], [0.5, 1.0], joint_names=JOINTS)
        wait_until(lambda: len(motions) == 2)
        one.publish(np.zeros((2, 4, 3)), **fields)
        wait_until(lambda: len(batches) == 2)
    assert "ArithmeticError: of the callback" in capfd.readouterr().err
    assert stamps[0] < stamps[1] and abs(stamps[0] - time.time_ns()) < 60e9 and one.unheard == 0
    [batch, _], [rejection] = batches, rejections
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


def test_waiting_in_the_callback_of_a_future_is_refused(own: IntegratorClient) -> None:
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


FORKED = {
    "futures": lambda one: one.futures.integrate(ACTIONS, **FIELDS).result(),
    "parameters": lambda one: one.parameters("dt"),
    "wait_until_active": lambda one: one.wait_until_active(),
    "publish": lambda one: one.publish(ACTIONS, **FIELDS),
    "on_batch": lambda one: one.on_batch(print),
    "another client": lambda one: IntegratorClient(),
}


def in_a_fork(work: Callable[[], object], within_s: float = 20.0) -> str:
    """Output of some work in a forked process, such as a worker of a pool or of a data loader."""
    said = multiprocessing.get_context("fork").SimpleQueue()

    def tell() -> None:
        try:
            said.put(str(work()))
        except Exception as error:
            said.put(f"{type(error).__name__}: {error}")

    worker = multiprocessing.get_context("fork").Process(target=tell)
    worker.start()
    try:
        worker.join(within_s)
        assert not worker.is_alive(), "it hangs"
        return said.get()
    finally:
        worker.kill()


@pytest.mark.parametrize("call", FORKED.values(), ids=FORKED)
def test_a_client_in_a_forked_process_is_refused_at_once(own: IntegratorClient, call: Callable) -> None:
    assert "RuntimeError: expected clients in one process" in in_a_fork(partial(call, own))


def test_a_fork_closes_nothing_that_is_not_its_own(own: IntegratorClient) -> None:
    assert in_a_fork(own.close) == "None"
    assert own.parameters("dt") == {"dt": 0.02}, "the fork has closed what is not its own"


@pytest.fixture
def their_node(shared_node: NodeProcess) -> Iterator[tuple[Node, SingleThreadedExecutor]]:
    """A program's node, with an executor of one thread that nobody spins yet."""
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


def test_a_call_is_not_over_when_one_copy_of_its_request_comes_too_late(
    their_node: tuple[Node, SingleThreadedExecutor],
) -> None:
    service = their_node[0].create_service(Stop, "/late/traj_integrator/stop", lambda _, response: response)
    headers: list[object] = []

    def take() -> None:
        headers.extend(filter(None, service.handle.service_take_request(Stop.Request)[1:]))

    with IntegratorClient("/late/traj_integrator", retry_after_s=0.2) as one:
        began = one.futures.stop()
        wait_until(lambda: len(headers) == 2, take)
        service.send_response(Stop.Response(message="busy: stop: expected a turn within 0.5 s"), headers[1])
        time.sleep(0.1)
        assert not began.done()
        service.send_response(Stop.Response(success=True, message="braking"), headers[0])
        assert began.result(timeout=20.0).message == "braking"


def wait_until(condition: object, step: object = partial(time.sleep, 0.02), within_s: float = 20.0) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, "not in time"
        step()
