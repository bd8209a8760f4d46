"""The scenarios with the node as a bare process: start-up, main job, shutdown, recovery."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported: no ROS 2")
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")

from integrator_client import IntegratorClient
from launched_process import NodeProcess
from scenarios import (
    MAIN_JOB,
    SCENARIOS,
    SHUTDOWN_LIMIT_S,
    START_UP,
    Scenario,
    goes_to_active_by_itself,
    traffic_recovers,
)

pytestmark = pytest.mark.ros


@pytest.fixture(scope="module", params=SCENARIOS, ids=lambda scenario: scenario.robot)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """Client and scenario of a node that runs for all checks of the scenario."""
    scenario: Scenario = request.param
    process = NodeProcess(scenario, tmp_path_factory.mktemp("node") / "output.txt")
    client = scenario.client()
    yield client, scenario
    client.close()
    process.close()


@pytest.fixture
def active(tmp_path: Path) -> Iterator[tuple[NodeProcess, IntegratorClient, Scenario]]:
    """A node of the test's own, which is active."""
    scenario = SCENARIOS[0]
    process = NodeProcess(scenario, tmp_path / "output.txt")
    client = scenario.client()
    goes_to_active_by_itself(client, scenario)
    yield process, client, scenario
    client.close()
    process.close()


@pytest.mark.parametrize("check", [*START_UP, *MAIN_JOB], ids=lambda check: check.__name__)
def test_started_node(started, check):
    client, scenario = started
    check(client, scenario)


# A second signal is usual: Ctrl-C in a terminal reaches the node directly, and once more through ros2 launch.
@pytest.mark.parametrize("again_s", [20.0, 0.02], ids=["once", "repeated"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_signal_ends_the_node_in_time_with_exit_code_0_and_no_traceback(active, number, again_s):
    process, _, _ = active
    ended = process.end(number, again_s)
    assert ended.code == 0, ended
    assert ended.seconds <= SHUTDOWN_LIMIT_S, ended
    assert "Traceback" not in ended.output, ended.output


def test_publishers_and_clients_recover_when_the_node_is_killed_and_started_again(active, tmp_path):
    process, client, scenario = active
    again: list[NodeProcess] = []

    def kill() -> None:
        process.end(signal.SIGKILL)
        again.append(NodeProcess(scenario, tmp_path / "second_output.txt"))

    try:
        traffic_recovers(client, scenario, kill)
    finally:
        for second in again:
            second.close()
