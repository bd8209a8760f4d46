"""A machine without resources: no log directory, no file that can grow, no shared memory, no reader of the output."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from node_fixtures import ClientFactory, NodeFactory
from ros_client import RosClient

from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.traffic.messages import sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF = 3
SEQUENCE = sequence(np.zeros((2, 4, DOF)), position=np.zeros(DOF))
LARGEST_FILE = 4096
LIMITED = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), int(sys.argv[1])))
os.execv(sys.executable, [sys.executable, "-m", "traj_integrator_ros", *sys.argv[2:]])
"""


UNREAD = """
import os, sys
read, write = os.pipe()
for descriptor in (1, 2):
    os.dup2(write, descriptor)
os.close(write)
os.close(read)
os.execv(sys.executable, [sys.executable, "-m", "traj_integrator_ros", *sys.argv[1:]])
"""


def assert_serves(client: RosClient) -> None:
    """All channels work, and bad input is still reported."""
    client.wait_until_active()
    client.settle_state([0.0] * DOF)
    client.answer(SEQUENCE)
    client.answer(sequence(np.zeros((1, 4, DOF))))
    assert client.integrate(SEQUENCE).success
    assert client.compute_gradient(ComputeGradient.Request(actions=SEQUENCE, grad_jerk=SEQUENCE.data)).success
    bad = sequence(np.full((2, 4, DOF), np.nan), position=np.zeros(DOF))
    for _ in range(50):
        client.sequences.publish(bad)
        assert client.integrate(bad).message.startswith("not_finite: data")
    assert client.counts()["rejected.internal_error"] == "0"


def test_a_log_directory_that_cannot_be_written(
    start_node: NodeFactory, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ROS_LOG_DIR", "/proc/log")  # read-only for root, too
    process = start_node()
    monkeypatch.delenv("ROS_LOG_DIR")
    assert_serves(connect())
    assert "there will be no log file" in process.output and "/proc/log" in process.output
    assert process.stop()[0] == 0, process.output


def test_a_disk_and_a_shared_memory_that_are_full(
    start_node: NodeFactory, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """No file can grow: not the log file, not the output, and not shared memory, which is files to the system."""
    logs = tmp_path / "log"
    monkeypatch.setenv("ROS_LOG_DIR", str(logs))
    process = start_node(program=["-c", LIMITED, str(LARGEST_FILE)], arguments=["--log-level", "debug"])
    monkeypatch.delenv("ROS_LOG_DIR")
    assert_serves(connect())
    assert [file.stat().st_size for file in logs.iterdir()] == [LARGEST_FILE], "the log file is as large as it can be"
    assert "SHM Transport is not supported" in process.output, "the middleware tells that it has no shared memory"
    assert process.stop()[0] == 0, process.output


def test_output_that_nobody_reads(start_node: NodeFactory, connect: ClientFactory) -> None:
    """The reader of a pipe is gone, as of `ros2 run ... | head`."""
    process = start_node(program=["-c", UNREAD])
    assert_serves(connect())
    assert process.output == ""
    assert process.stop()[0] == 0
