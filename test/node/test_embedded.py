"""The node as one of several nodes of a program."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import rclpy
from node_fixtures import JOINTS, PARAMETERS, SEQUENCE, ClientFactory
from rclpy.context import Context
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.parameter import Parameter

from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.client import sequence
from traj_integrator_ros.governor.planned_motion import Found, Task
from traj_integrator_ros.node import intake, rclpy_features
from traj_integrator_ros.node.entities import QUIET_PERIOD_S
from traj_integrator_ros.node.node import IntegratorNode
from traj_integrator_ros.node.topic_handlers import TopicHandlers

pytestmark = pytest.mark.ros
NAMES = ("left", "right")
UNTIL_QUIET_S = 1.2
"""Time, s, after which a robot at rest is supervised twice a second."""
CALLS = 40


@contextmanager
def spinning(executor: Executor) -> Iterator[None]:
    """Spin an executor in a thread."""
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            executor.spin_once(timeout_sec=0.1)

    thread = threading.Thread(target=spin)
    thread.start()
    yield
    over.set()
    thread.join()


@pytest.fixture
def context() -> Iterator[Context]:
    context = Context()
    rclpy.init(context=context)
    yield context
    context.try_shutdown()


@pytest.fixture(params=[SingleThreadedExecutor, MultiThreadedExecutor], ids=["one thread", "several threads"])
def nodes(request: pytest.FixtureRequest, context: Context) -> Iterator[list[IntegratorNode]]:
    """Two nodes beside another one, on one executor that spins in a thread."""
    executor: Executor = request.param(context=context)
    nodes = [
        IntegratorNode(
            name,
            context=context,
            parameter_overrides=[Parameter(one, value=value) for one, value in {**PARAMETERS, "dt": dt}.items()],
        )
        for name, dt in zip(NAMES, (0.02, 0.04), strict=True)
    ]
    for node in (*nodes, rclpy.create_node("other", context=context)):
        executor.add_node(node)
    for node in nodes:
        node.autostart()
    with spinning(executor):
        yield nodes
    executor.shutdown()
    for node in nodes:
        node.destroy_node()


def test_nodes_in_one_program_have_their_own_names_and_parameters(
    nodes: list[IntegratorNode], connect: ClientFactory
) -> None:
    clients = [connect(f"/{name}") for name in NAMES]
    for client, dt in zip(clients, (0.02, 0.04), strict=True):
        client.wait_until_active()
        batch, _ = client.answer(SEQUENCE)
        np.testing.assert_allclose(batch.time_from_start, dt * np.arange(4), rtol=1e-6)
        assert client.integrate(SEQUENCE).success
    assert clients[0].change_state("deactivate") and clients[0].change_state("cleanup")
    assert clients[1].state() == "active"
    assert all(node.accounts.rejected.total() == 0 for node in nodes)


def test_calls_do_not_bring_the_supervision_of_a_resting_robot_forward(
    nodes: list[IntegratorNode], connect: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, looked = connect(f"/{NAMES[0]}"), []
    client.wait_until_active()
    client.integrate(SEQUENCE)
    client.spin(UNTIL_QUIET_S)
    supervise = TopicHandlers._supervise

    def counted(handlers: TopicHandlers) -> None:
        looked.append(handlers)
        supervise(handlers)

    monkeypatch.setattr(TopicHandlers, "_supervise", counted)
    begin_s = time.monotonic()
    for _ in range(CALLS):
        assert client.integrate(SEQUENCE).success
    took_s = time.monotonic() - begin_s
    assert len(looked) <= len(nodes) * (took_s / QUIET_PERIOD_S + 2), f"{CALLS} calls took {took_s:.2f} s"


def test_calls_that_come_just_before_a_cleanup_are_answered(
    context: Context, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(intake, "READ_EVERY_S", 1e9)
    overrides = [Parameter(one, value=value) for one, value in PARAMETERS.items()]
    node = IntegratorNode("ended", context=context, parameter_overrides=overrides)
    node.autostart()
    client = connect("/ended")
    caller = client.node.create_client(Integrate, "/ended/integrate")
    client.wait_for(caller.service_is_ready, "the service")
    client.spin(0.5)
    answers = [caller.call_async(Integrate.Request()) for _ in range(4)]
    client.spin(0.2)
    node.trigger_deactivate()
    node.trigger_cleanup()
    client.wait_for(lambda: all(answer.done() for answer in answers), "an answer to each call")
    assert {answer.result().message.partition(":")[0] for answer in answers} == {"not_active"}
    node.destroy_node()


def test_a_release_of_rclpy_with_other_private_names_serves_the_lifecycle_itself(
    context: Context, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rclpy_features, "_LIFECYCLE_ANSWERS", "_Renamed__on_{}")
    overrides = [Parameter(one, value=value) for one, value in PARAMETERS.items()]
    node = IntegratorNode("renamed", context=context, parameter_overrides=overrides)
    executor = SingleThreadedExecutor(context=context)
    executor.add_node(node)
    with spinning(executor):
        client = connect("/renamed")
        assert client.state() == "unconfigured"
        assert client.change_state("configure") and client.change_state("activate")
        assert client.integrate(SEQUENCE).success
    node.destroy_node()
    assert capfd.readouterr().err.count("unknown release of rclpy") == 1


@pytest.mark.parametrize("wait_s", [0.1, 0.0], ids=["at once", "after the motion before has begun"])
def test_a_motion_that_is_due_before_it_has_been_made_is_made_again(
    nodes: list[IntegratorNode], connect: ClientFactory, monkeypatch: pytest.MonkeyPatch, wait_s: float
) -> None:
    """The controller would begin it from its middle."""
    node, client, delays_s = nodes[0], connect(f"/{NAMES[0]}"), [0.1]
    client.wait_until_active()
    client.settle_state([0.0] * len(JOINTS))
    onward = sequence(np.full((1, 60, len(JOINTS)), 0.1), control_space="velocity")
    client.sequences.publish(onward)
    client.wait_for(lambda: client.trajectories, "the first motion")
    time.sleep(wait_s)
    motion = Task.motion

    def slow_once(task: Task, *, slows: bool) -> Found:
        time.sleep(delays_s.pop() if delays_s else 0.0)
        return motion(task, slows=slows)

    monkeypatch.setattr(Task, "motion", slow_once)
    client.sequences.publish(onward)
    client.wait_for(lambda: len(client.trajectories) > 1, "the next motion")
    assert not delays_s and node._published.executed.counts["late"] == 0
