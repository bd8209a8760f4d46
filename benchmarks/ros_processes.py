"""The processes of the ROS benchmark: the node, the echo, and the client that times them."""

from __future__ import annotations

import multiprocessing
import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.managers import BaseManager
from pathlib import Path
from typing import NamedTuple

import yaml

from traj_integrator_ros.traffic.local_dds import config_file, isolate
from traj_integrator_ros.traffic.node_process import NodeProcess, PythonProcess
from traj_integrator_ros.wire.transport import LIMIT_VARIABLE, prepare_transport

START_TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Processes:
    """All running and connected."""

    client: object
    """A proxy of `ros_client.TimingClient`."""
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


@contextmanager
def running(
    joint_names: Sequence[str],
    overrides: dict[str, object],
    transports: Transports,
) -> Iterator[Processes]:
    """Node, echo and client in a ROS domain of their own, on this machine only.

    Args:
        joint_names: of the node.
        overrides: parameters that differ from config/franka.yaml.
        transports: of all of them.

    Raises:
        TimeoutError: they do not find each other.

    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_environment(transports))
        parameters = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))
        parameters = {**parameters["/**"]["ros__parameters"], "joint_names": list(joint_names), **overrides}
        node = NodeProcess(folder, parameters)
        stack.callback(node.stop)
        if transports.prepared_for is not None:
            unprepared = dict(os.environ)
            prepare_transport(*transports.prepared_for)  # as echo and client would themselves: they inherit it
        echo = PythonProcess(["-m", "benchmarks.ros_echo"], folder / "echo.log", name="echo")
        stack.callback(echo.stop)
        if transports.prepared_for is not None and not transports.client_prepares:
            _restore(unprepared)
        manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        manager.start()
        stack.callback(manager.shutdown)
        client = manager.TimingClient(list(joint_names))
        stack.callback(client.close)
        try:
            client.wait_until_connected(START_TIMEOUT_S)
        except TimeoutError as error:
            node.check()
            echo.check()
            raise TimeoutError(f"{error}; the node said:\n{node.output}") from None
        yield Processes(client, node.pid, echo.pid)


def _new_client(joint_names: Sequence[str]) -> object:
    from .ros_client import TimingClient  # in the client's process: it alone takes part in DDS

    return TimingClient(joint_names)


class _Manager(BaseManager):
    """Runs the client in a process that reads its profile when it starts."""


_Manager.register("TimingClient", _new_client)


@contextmanager
def _environment(transports: Transports) -> Iterator[None]:
    before = dict(os.environ)
    isolate(transports.profile)
    if transports.prepared_for is None:
        os.environ[LIMIT_VARIABLE] = "0"
    try:
        yield
    finally:
        _restore(before)


def _restore(environment: dict[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)
