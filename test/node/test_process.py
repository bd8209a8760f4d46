"""The node as a process: how it starts, ends, and starts again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from node_fixtures import JOINTS, PARAMETERS, ClientFactory, NodeFactory
from ros_client import sequence

from traj_integrator_interfaces.srv import Integrate
from traj_integrator_ros.traffic.node_process import NodeProcess, source_environment

pytestmark = pytest.mark.ros
SEQUENCE = sequence(np.zeros((1, 4, 3)), position=np.zeros(3))
SIGNALS = [signal.SIGINT, signal.SIGTERM]
LONGEST_END_S = 2.0


def assert_ended_well(process: NodeProcess, number: signal.Signals) -> None:
    code, seconds = process.stop(number)
    assert code == 0, process.output
    assert seconds < LONGEST_END_S
    assert "Traceback" not in process.output


@pytest.mark.alone
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_an_active_node_under_traffic(
    start_node: NodeFactory, connect: ClientFactory, number: signal.Signals
) -> None:
    process = start_node()
    client = connect()
    client.wait_until_active()
    client.node.create_timer(0.002, lambda: client.sequences.publish(SEQUENCE))
    client.spin(0.5)
    assert_ended_well(process, number)
    # It takes leave, too; others would wait 20 s for one that does not.
    client.wait_for(lambda: not client.sequences.get_subscription_count(), "gone", 3.0)


@pytest.mark.alone
@pytest.mark.parametrize(("number", "delay_s"), list(zip(2 * SIGNALS, [0.3, 1.0, 1.6, 2.2], strict=True)))
def test_a_signal_ends_a_node_that_is_still_starting(
    start_node: NodeFactory, number: signal.Signals, delay_s: float
) -> None:
    process = start_node()
    time.sleep(delay_s)
    assert_ended_well(process, number)


@pytest.mark.alone
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_an_unconfigured_node(
    start_node: NodeFactory, connect: ClientFactory, number: signal.Signals
) -> None:
    process = start_node({"autostart": False})
    assert connect().state() == "unconfigured"
    assert_ended_well(process, number)


def run(arguments: list[str], folder: Path) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-m", "traj_integrator_ros", *arguments],
        capture_output=True, text=True, timeout=60, cwd=folder, env={**os.environ, **source_environment()},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("/**:\n  ros__parameters:\n    dt: 1\n", "expecting type 'DOUBLE'"),
        ("/**:\n  ros__parameters:\n    dt: -0.02\n", "Parameter dt out of range"),
        ("/**:\n  ros__parameters:\n    device: toaster\n", "device"),
        ("/**:\n  ros__parameters:\n    max_batch: 0\n", "max_batch"),
    ],
)
def test_a_wrong_value_in_a_parameter_file_ends_it_with_one_clear_line(tmp_path: Path, content: str, said: str) -> None:
    file = tmp_path / "wrong.yaml"
    file.write_text(content)
    ended = run(["--ros-args", "--params-file", str(file)], tmp_path)
    assert ended.returncode == 2, ended.stderr
    assert "Traceback" not in ended.stderr
    assert said in ended.stderr.splitlines()[-1]


def test_wrong_arguments_end_it_with_one_clear_line(tmp_path: Path) -> None:
    ended = run(["franka.yaml"], tmp_path)
    last_line = ended.stderr.splitlines()[-1]
    assert (ended.returncode, last_line) == (2, "integrator_node: unexpected argument 'franka.yaml'")
    unknown = run(["--ros-args", "--nonsense"], tmp_path)
    assert unknown.returncode == 2
    assert unknown.stderr.splitlines()[-1] == "integrator_node: unknown arguments after --ros-args: ['--nonsense']"
    assert run(["--help"], tmp_path).returncode == 0


def test_a_parameter_that_does_not_exist_is_told(start_node: NodeFactory) -> None:
    process = start_node({"state_time_out": 1.0, "qos_overrides./joint_state.subscription.depth": 1})
    process.wait_for_output("active")
    assert "parameter 'state_time_out' was given but does not exist" in process.output
    assert "parameter 'qos_overrides./joint_state.subscription.depth' was given but does not exist" in process.output
    assert process.output.count("does not exist") == 2


def test_publishers_and_clients_recover_when_it_is_killed_and_started_again(
    start_node: NodeFactory, connect: ClientFactory
) -> None:
    process = start_node()
    client = connect()
    client.wait_until_active()
    client.node.create_timer(0.01, lambda: client.publish_state([0.0, 0.0, 0.0]))
    client.node.create_timer(0.02, lambda: client.sequences.publish(SEQUENCE))
    client.wait_for(lambda: len(client.batches) > 10, "trajectories before")
    process.kill()
    client.spin(0.5)
    client.batches.clear()
    client.trajectories.clear()
    client.spin(0.5)
    assert not client.batches
    process.start()
    # The same publishers, subscriptions and service clients go on without being made anew.
    client.wait_for(lambda: len(client.batches) > 10 and len(client.trajectories) > 10, "trajectories after", 40.0)
    assert client.call(Integrate, "integrate", Integrate.Request(actions=SEQUENCE)).success


def test_names_can_be_remapped(start_node: NodeFactory, connect: ClientFactory) -> None:
    start_node(arguments=[
        "-r", "__node:=smoother", "-r", "joint_states:=/robot/joint_states", "-r", "~/joint_trajectory:=/arm/follow",
    ])  # fmt: skip
    client = connect("/smoother")
    client.wait_for(lambda: client.node.count_subscribers("/robot/joint_states"), "remapped subscription", 40.0)
    client.wait_for(lambda: client.node.count_publishers("/arm/follow"), "remapped publisher")
    assert not client.node.count_publishers("/smoother/joint_trajectory")


def test_the_wildcard_section_reaches_a_node_in_any_namespace(start_node: NodeFactory, connect: ClientFactory) -> None:
    start_node(arguments=["-r", "__ns:=/deep/down", "-r", "__node:=other"])
    client = connect("/deep/down/other")
    client.wait_until_active()
    assert client.parameter("joint_names") == list(JOINTS)
    assert client.parameter("max_batch") == PARAMETERS["max_batch"]


def test_interfaces_of_an_older_build_end_the_start_with_one_line(tmp_path: Path) -> None:
    for package in ("", "msg", "srv"):
        (tmp_path / "traj_integrator_interfaces" / package).mkdir()
        (tmp_path / "traj_integrator_interfaces" / package / "__init__.py").touch()
    path = os.pathsep.join([str(tmp_path), str(Path(__file__).resolve().parents[2])])
    command = [sys.executable, "-m", "traj_integrator_ros"]
    ended = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 2
    assert "traj_integrator_interfaces is missing or old" in ended.stderr and ended.stderr.count("\n") == 1
