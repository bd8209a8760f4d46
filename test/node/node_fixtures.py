"""Fixtures: node processes and clients, for the tests of the node and of its robustness."""

from __future__ import annotations

import os
import sys
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import node_variants
import numpy as np
import pytest
from preloaded_process import PreloadedNode
from ros_client import RosClient
from trajectory_msgs.msg import JointTrajectory, JointTrajectoryPoint

from kit.node_process import NodeProcess
from rig.control_msgs_package import ControlMsgsAbsent, use_control_msgs
from traj_integrator_ros.client import sequence

JOINTS = ("joint_a", "joint_b", "joint_c")
PARAMETERS = {
    "joint_names": list(JOINTS),
    "dt": 0.02,
    "device": "cpu",
    "state_timeout": 0.0,
    "diagnostics.period": 0.05,  # counts cover two messages
    "warmup": ["1x4"],
    "max_batch": 64,
    "max_horizon": 64,
    "limits.assumed_velocity": 10.0,  # without any limit, no trajectory for a controller is published
    "supervision.deviation": 0.0,  # the robot of most tests stands still, whatever is published for it
    "publish.start_moving": True,  # and may suddenly be elsewhere
    "publish.bridge_time": 0.02,
    "limits.action": "warn",  # the robot of most tests rests at 0, wherever their sequences start
}
SEQUENCE = sequence(np.zeros((2, 4, len(JOINTS))), position=np.zeros(len(JOINTS)))
TRANSITIONS = ("configure", "activate", "deactivate", "cleanup")
NEXT_STATE = {
    ("unconfigured", "configure"): "inactive",
    ("inactive", "activate"): "active",
    ("inactive", "cleanup"): "unconfigured",
    ("active", "deactivate"): "inactive",
}
NodeFactory = Callable[..., NodeProcess]
ClientFactory = Callable[..., RosClient]
NodeServer = Callable[..., tuple[NodeProcess, RosClient]]


@pytest.fixture
def start_node(tmp_path: Path) -> Iterator[NodeFactory]:
    """Starts node processes; takes parameters other than the usual ones, ROS arguments, a function of node_variants."""
    processes: list[NodeProcess] = []

    def start(
        changes: Mapping[str, object] | None = None,
        arguments: Sequence[str] = (),
        kind: type[NodeProcess] = PreloadedNode,
        variant: Callable[[], None] | None = None,
    ) -> NodeProcess:
        folder = tmp_path / f"node{len(processes)}"
        folder.mkdir()
        options = {"program": [node_variants.__file__, variant.__name__]} if variant else {}
        processes.append(kind(folder, {**PARAMETERS, **(changes or {})}, arguments, **options))
        return processes[-1]

    yield start
    for process in processes:
        process.stop()


@pytest.fixture
def connect() -> Iterator[ClientFactory]:
    """Makes clients of a node."""
    with ExitStack() as clients:

        def make(node_name: str = "/traj_integrator", joint_names: Sequence[str] = JOINTS) -> RosClient:
            client = RosClient(joint_names, node_name)
            clients.callback(client.close)
            return client

        yield make


@pytest.fixture
def serve(start_node: NodeFactory, connect: ClientFactory) -> NodeServer:
    """Starts a node like `start_node`, and connects a client to it once it is active."""

    def start(
        *arguments: object, connect_to: str = "/traj_integrator", **options: object
    ) -> tuple[NodeProcess, RosClient]:
        process, client = start_node(*arguments, **options), connect(connect_to)
        client.wait_until_active()
        return process, client

    return start


@pytest.fixture(scope="module")
def shared_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """One node with the usual parameters for all tests of a module; they leave it unchanged."""
    process = PreloadedNode(tmp_path_factory.mktemp("shared_node"), PARAMETERS)
    yield process
    process.stop()


@pytest.fixture(scope="module")
def shared_client(shared_node: NodeProcess) -> Iterator[RosClient]:
    client = RosClient(JOINTS)
    client.wait_until_active()
    yield client
    client.close()


@pytest.fixture
def client(shared_node: NodeProcess, shared_client: RosClient) -> Iterator[RosClient]:
    """A client of the module's node: active, with the robot at rest at 0, and still alive after the test."""
    for transition in ("deactivate", "activate"):  # no motion is in execution
        assert shared_client.change_state(transition)
    shared_client.settle_state([0.0, 0.0, 0.0])
    yield shared_client
    assert shared_node.is_running(), shared_node.output
    assert "internal_error" not in shared_node.output, shared_node.output


@pytest.fixture(scope="module")
def report_type() -> Iterator[type]:
    """The message of the controller's reports, for this process and those that it starts; skips if there is none."""
    with mock.patch.dict(os.environ), mock.patch.object(sys, "path", [*sys.path]):
        try:
            is_ours = use_control_msgs()
        except ControlMsgsAbsent as absent:
            pytest.skip(str(absent))
        from control_msgs.msg import JointTrajectoryControllerState

        yield JointTrajectoryControllerState
    if is_ours:  # later imports in this process find only what its child processes would find
        for name in [name for name in sys.modules if name.partition(".")[0] == "control_msgs"]:
            del sys.modules[name]


@contextmanager
def changed(client: RosClient, **parameters: object) -> Iterator[None]:
    """Change parameters of the node for the duration of the block."""
    before = {name: client.parameter(name.replace("__", ".")) for name in parameters}
    assert client.set_atomically(**parameters) == (True, "")
    try:
        yield
    finally:
        assert client.set_atomically(**before) == (True, "")


def plan(times_s: Sequence[float], positions: object, names: Sequence[str] = JOINTS) -> JointTrajectory:
    """Positions at times."""
    message = JointTrajectory(joint_names=list(names))
    for time_s, row in zip(times_s, positions, strict=True):
        point = JointTrajectoryPoint(positions=array("d", row))
        point.time_from_start.sec, point.time_from_start.nanosec = divmod(round(time_s * 1e9), 10**9)
        message.points.append(point)
    return message


def table(values: Sequence[float], batch: int, dof: int) -> np.ndarray:
    """The flat numbers of a field as `[batch, horizon, dof]`."""
    return np.asarray(values, np.float32).reshape(batch, -1, dof)
