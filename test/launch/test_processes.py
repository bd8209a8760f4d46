"""The scenarios with the node as a bare process; test/node tests how it ends, test/robustness its failures."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported: no ROS 2")
pytest.importorskip("traj_integrator_interfaces.msg", reason="traj_integrator_interfaces is not built")

from preloaded_process import PreloadedNode
from scenarios import CHECKS, SCENARIOS, Scenario

pytestmark = [pytest.mark.ros, pytest.mark.slow]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
def test_start_up_and_main_job(scenario: Scenario, tmp_path: Path) -> None:
    process = PreloadedNode(tmp_path, arguments=scenario.process_arguments())
    client = scenario.client()
    try:
        for check in CHECKS:
            check(client, scenario)
    finally:
        client.close()
        process.stop()
