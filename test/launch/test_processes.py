"""The scenarios with the node as a bare process: start-up, main job, recovery; test/node has its end by signals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported: no ROS 2")
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")

from preloaded_node import PreloadedNode
from scenarios import (
    MAIN_JOB,
    OTHER_ROBOTS,
    SCENARIOS,
    SIDE_BY_SIDE,
    START_UP,
    UNKNOWN_PARAMETER,
    WRONG_FILES,
    Scenario,
    WrongFile,
    goes_to_active_by_itself,
    has_the_parameters_of_its_files,
    neighbours_do_not_hear_each_other,
    traffic_recovers,
)

from traj_integrator_ros.traffic.node_process import NodeProcess
from traj_integrator_ros.traffic.participant import START_TIMEOUT_S
from traj_integrator_ros.traffic.ros_client import RosClient

pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.fixture(scope="module", params=SCENARIOS, ids=str)
def started(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple]:
    """Client and scenario of a node that runs for all checks of the scenario."""
    scenario: Scenario = request.param
    process = PreloadedNode(tmp_path_factory.mktemp("node"), arguments=scenario.process_arguments())
    client = scenario.client()
    yield client, scenario
    client.close()
    process.close()


@pytest.mark.parametrize("check", [*START_UP, *MAIN_JOB], ids=lambda check: check.__name__)
def test_started_node(started, check):
    client, scenario = started
    check(client, scenario)


@contextmanager
def running(scenarios: Sequence[Scenario], folder: Path) -> Iterator[list[RosClient]]:
    """A client of each of several nodes, which run side by side."""
    folders = [folder / str(one) for one in scenarios]
    for each in folders:
        each.mkdir()
    nodes = [PreloadedNode(f, arguments=one.process_arguments()) for f, one in zip(folders, scenarios, strict=True)]
    clients = [one.client() for one in scenarios]
    try:
        yield clients
    finally:
        for one in [*clients, *nodes]:
            one.close()


def test_two_nodes_side_by_side_do_not_hear_each_other(tmp_path):
    with running(SIDE_BY_SIDE, tmp_path) as clients:
        neighbours_do_not_hear_each_other(clients, SIDE_BY_SIDE)


def test_the_other_robots_start_with_the_parameters_of_their_files(tmp_path):
    with running(OTHER_ROBOTS, tmp_path) as clients:
        for client, scenario in zip(clients, OTHER_ROBOTS, strict=True):
            goes_to_active_by_itself(client, scenario)
            has_the_parameters_of_its_files(client, scenario)


@pytest.mark.parametrize("wrong", WRONG_FILES.values(), ids=WRONG_FILES)
def test_a_wrong_parameter_file_is_reported_in_one_line(started_with, wrong: WrongFile):
    process = started_with(wrong.text)
    if wrong.ends:
        assert process.wait(START_TIMEOUT_S) == 2, process.output
    else:
        process.wait_for_output(wrong.said)
        assert process.is_running()
        assert process.stop().code == 0
    assert len([line for line in process.output.splitlines() if wrong.said in line]) == 1, process.output
    assert "Traceback" not in process.output, process.output


def test_a_parameter_that_does_not_exist_is_told_and_has_no_effect(started_with):
    text, said = UNKNOWN_PARAMETER
    process = started_with(text)
    process.wait_for_output("active")
    assert said in process.output


@pytest.fixture
def started_with(tmp_path: Path) -> Iterator[Callable[[str | None], NodeProcess]]:
    """A function that starts a node with a parameter file of this text, or with one that is missing."""
    started: list[NodeProcess] = []

    def start(text: str | None) -> NodeProcess:
        file = Path("/nowhere/missing.yaml") if text is None else tmp_path / "parameters.yaml"
        if text is not None:
            file.write_text(text, encoding="utf-8")
        started.append(PreloadedNode(tmp_path, file))
        return started[-1]

    yield start
    for process in started:
        process.close()


def test_publishers_and_clients_recover_when_the_node_is_killed_and_started_again(started_alone):
    process, client, scenario = started_alone

    def kill() -> None:
        process.kill()
        process.start()

    traffic_recovers(client, scenario, kill)


@pytest.fixture
def started_alone(tmp_path: Path) -> Iterator[tuple[NodeProcess, RosClient, Scenario]]:
    """A node of the test's own, which is active."""
    scenario = SCENARIOS[0]
    process = PreloadedNode(tmp_path, arguments=scenario.process_arguments())
    client = scenario.client()
    goes_to_active_by_itself(client, scenario)
    yield process, client, scenario
    client.close()
    process.close()
