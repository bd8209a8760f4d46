"""The processes of the ROS benchmark: the node, the echo, and the client that times them."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import NamedTuple

import yaml

from traj_integrator_ros.traffic.local_dds import config_file, isolate
from traj_integrator_ros.traffic.node_process import NodeProcess, PythonProcess
from traj_integrator_ros.wire.transport import LIMIT_VARIABLE

from .client import TimingClient

START_TIMEOUT_S = 60.0


class Processes(NamedTuple):
    """All running and connected."""

    client: TimingClient
    """A proxy of it."""
    node_pid: int
    echo_pid: int


class Transports(NamedTuple):
    """What the processes send by."""

    profile: str | None = None
    """File name in config/ for all of them; None for the middleware's own."""
    prepared_for: tuple[int, int, int] | None = None
    """Batch, horizon and joints that the processes prepare for by themselves; None if they do not."""
    client_prepares: bool = True
    """Whether the client does, too."""


class _Manager(BaseManager):
    """Runs the client in a process that reads its profile when it starts."""


_Manager.register("TimingClient", TimingClient)


@contextmanager
def running(joint_names: Sequence[str], overrides: dict[str, object], transports: Transports) -> Iterator[Processes]:
    """Node, echo and client in a ROS domain of their own, on this machine only.

    Args:
        joint_names: of the node.
        overrides: parameters that differ from config/franka.yaml.
        transports: of all of them.

    Raises:
        TimeoutError: they do not find each other.

    """
    parameters = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))
    parameters = {**parameters["/**"]["ros__parameters"], "joint_names": list(joint_names), **overrides}
    size = transports.prepared_for or ()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        before = dict(os.environ)
        stack.callback(_restore, before)
        isolate(transports.profile)
        if not size:
            os.environ[LIMIT_VARIABLE] = "0"  # the node's
        node = NodeProcess(folder, parameters)
        stack.callback(node.stop)
        echo = PythonProcess(["-m", "benchmarks.ros.echo", *size], folder / "echo.log", name="echo")
        stack.callback(echo.stop)
        manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        manager.start()
        stack.callback(manager.shutdown)
        client = manager.TimingClient(list(joint_names), size if transports.client_prepares else ())
        stack.callback(client.close)
        try:
            client.wait_until_connected(START_TIMEOUT_S)
        except TimeoutError as error:
            node.check()
            echo.check()
            raise TimeoutError(f"{error}; the node said:\n{node.output}") from None
        yield Processes(client, node.pid, echo.pid)


def _restore(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
