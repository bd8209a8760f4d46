"""The node as one of several nodes of a program."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest
import rclpy
from node_fixtures import JOINTS, PARAMETERS, ClientFactory
from rclpy.context import Context
from rclpy.executors import Executor, MultiThreadedExecutor, SingleThreadedExecutor
from rclpy.parameter import Parameter

from traj_integrator_ros.client import sequence
from traj_integrator_ros.node.node import IntegratorNode

pytestmark = pytest.mark.ros
NAMES = ("left", "right")


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
    over = threading.Event()

    def spin() -> None:
        while not over.is_set():
            executor.spin_once(timeout_sec=0.1)

    thread = threading.Thread(target=spin)
    thread.start()
    yield nodes
    over.set()
    thread.join()
    executor.shutdown()
    for node in nodes:
        node.destroy_node()


def test_nodes_in_one_program_have_their_own_names_and_parameters(
    nodes: list[IntegratorNode], connect: ClientFactory
) -> None:
    clients = [connect(f"/{name}") for name in NAMES]
    for client, dt in zip(clients, (0.02, 0.04), strict=True):
        client.wait_until_active()
        actions = sequence(np.zeros((2, 4, len(JOINTS))), position=np.zeros(len(JOINTS)))
        batch, _ = client.answer(actions)
        np.testing.assert_allclose(batch.time_from_start, dt * np.arange(4), rtol=1e-6)
        assert client.integrate(actions).success
    assert clients[0].change_state("deactivate") and clients[0].change_state("cleanup")
    assert clients[1].state() == "active"
    assert all(node.accounts.rejected.total() == 0 for node in nodes)
