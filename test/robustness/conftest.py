"""A hostile client and what it needs; the node's fixtures are those of test/node."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")
pytest.importorskip("hypothesis", reason="hypothesis cannot be imported")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "node"))
# Their assertions explain themselves as those of a test module do.
pytest.register_assert_rewrite("hostile_node", "hostile_oracle")

from control_msgs_package import report_type  # noqa: E402
from hostile_node import PARAMETERS, HostileNode  # noqa: E402
from node_fixtures import connect, serve, start_node  # noqa: E402

from traj_integrator_ros.traffic.node_process import NodeProcess  # noqa: E402

__all__ = ["connect", "report_type", "serve", "start_node"]


@pytest.fixture(scope="module")
def hostile_node(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[HostileNode]:
    """One active node for all tests of a module, the robot at rest at 0; it must outlive them all."""
    report_type = None
    with contextlib.suppress(pytest.skip.Exception):  # without control_msgs, the node takes no reports
        report_type = request.getfixturevalue("report_type")
    process = NodeProcess(tmp_path_factory.mktemp("hostile"), PARAMETERS)
    node = None
    try:
        node = HostileNode(process, report_type)
        yield node
    finally:
        if node is not None:
            node.client.close()
        process.close()
