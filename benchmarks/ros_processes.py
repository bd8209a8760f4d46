"""The processes of the ROS benchmark: the node, the echo, and the client that times them."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from multiprocessing.managers import BaseManager
from pathlib import Path

import yaml

from traj_integrator_ros.demo.process import IntegratorProcess, config_file
from traj_integrator_ros.tools.ros_domain import claim_domain

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 5.0
PROFILE_VARIABLES = ("FASTDDS_DEFAULT_PROFILES_FILE", "FASTRTPS_DEFAULT_PROFILES_FILE")
ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Processes:
    """All running and connected."""

    client: object
    """A proxy of `ros_client.RosClient`."""
    node_pid: int
    echo_pid: int


@contextmanager
def running(
    joint_names: Sequence[str],
    overrides: dict[str, object],
    profile: str | None,
    node_module: str = "traj_integrator_ros",
) -> Iterator[Processes]:
    """Node, echo and client in a ROS domain of their own, on this machine only, all with one transport profile.

    Args:
        joint_names: of the node.
        overrides: parameters that differ from config/franka.yaml.
        profile: file name in config/; None for the middleware's own transports.
        node_module: what is run as the node.

    Raises:
        TimeoutError: they do not find each other.

    """
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(_environment(profile))
        parameters = yaml.safe_load(config_file("franka.yaml").read_text(encoding="utf-8"))
        parameters["/**"]["ros__parameters"] |= {"joint_names": list(joint_names), **overrides}
        file = folder / "parameters.yaml"
        file.write_text(yaml.safe_dump(parameters), encoding="utf-8")
        node = IntegratorProcess(file, folder / "node.log", node_module)
        stack.callback(node.stop)
        echo = subprocess.Popen([sys.executable, "-m", "benchmarks.ros_echo"], cwd=ROOT)
        stack.callback(_stop, echo)
        manager = _Manager(ctx=multiprocessing.get_context("spawn"))
        manager.start()
        stack.callback(manager.shutdown)
        client = manager.RosClient(list(joint_names))
        stack.callback(client.close)
        try:
            client.wait_until_connected(START_TIMEOUT_S)
        except TimeoutError as error:
            node.check()
            said = (folder / "node.log").read_text(encoding="utf-8", errors="replace")
            raise TimeoutError(f"{error}; the node said:\n{said}") from None
        yield Processes(client, node.pid, echo.pid)


def _new_client(joint_names: Sequence[str]) -> object:
    from .ros_client import RosClient  # in the client's process: it alone takes part in DDS

    return RosClient(joint_names)


class _Manager(BaseManager):
    """Runs the client in a process that reads its profile when it starts."""


_Manager.register("RosClient", _new_client)


@contextmanager
def _environment(profile: str | None) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(ROS_AUTOMATIC_DISCOVERY_RANGE="LOCALHOST", ROS_DOMAIN_ID=str(claim_domain()))
    for name in PROFILE_VARIABLES:
        os.environ.pop(name, None)
    if profile is not None:
        # Fast DDS 3 renamed the variable, and warns of the old name.
        has_fast_dds_2 = os.environ.get("ROS_DISTRO") in ("humble", "iron", "jazzy")
        os.environ[PROFILE_VARIABLES[has_fast_dds_2]] = str(config_file(profile))
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _stop(process: subprocess.Popen) -> None:
    process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
