"""A machine without resources: no log directory, no file that can grow, no shared memory, no reader of the output."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import node_variants
import numpy as np
import pytest
from node_fixtures import SEQUENCE, ClientFactory, NodeFactory

from kit.node_process import NodeProcess
from traj_integrator_interfaces.srv import ComputeGradient
from traj_integrator_ros.client import sequence

pytestmark = [pytest.mark.ros, pytest.mark.slow]
DOF = 3


@pytest.fixture
def serve_where(
    start_node: NodeFactory, connect: ClientFactory, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., NodeProcess]:
    """Starts a node with logs in a folder, and checks that all channels work and bad input is still reported."""

    def start(logs: object, *arguments: object, **options: object) -> NodeProcess:
        monkeypatch.setenv("ROS_LOG_DIR", str(logs))
        process = start_node(*arguments, **options)
        monkeypatch.delenv("ROS_LOG_DIR")
        client = connect()
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
        assert process.stop()[0] == 0, process.output
        return process

    return start


@pytest.mark.thorough
def test_a_log_directory_that_cannot_be_written(serve_where: Callable[..., NodeProcess]) -> None:
    process = serve_where("/proc/log")  # read-only for root, too
    assert "there will be no log file" in process.output and "/proc/log" in process.output


def test_a_disk_and_a_shared_memory_that_are_full(serve_where: Callable[..., NodeProcess], tmp_path: Path) -> None:
    """No file can grow: neither the log file, nor the output, nor shared memory, which consists of files."""
    logs = tmp_path / "log"
    process = serve_where(logs, variant=node_variants.where_no_file_grows, arguments=["--log-level", "debug"])
    assert [file.stat().st_size for file in logs.iterdir()] == [node_variants.LARGEST_FILE], "the log file is full"
    assert "SHM Transport is not supported" in process.output, "the middleware tells that it has no shared memory"


@pytest.mark.thorough
def test_output_that_nobody_reads(serve_where: Callable[..., NodeProcess], tmp_path: Path) -> None:
    assert serve_where(tmp_path / "log", variant=node_variants.with_output_that_nobody_reads).output == ""
