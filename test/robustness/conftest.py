"""A hostile client and what it needs; the node's fixtures are those of test/node. The run ends with a summary."""

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
from hostile_ledger import Ledger  # noqa: E402
from hostile_node import PARAMETERS as HOSTILE_PARAMETERS  # noqa: E402
from hostile_node import HostileNode  # noqa: E402
from node_fixtures import JOINTS, PARAMETERS, ClientFactory, NodeFactory, connect, start_node  # noqa: E402

from traj_integrator_ros.traffic.node_process import NodeProcess  # noqa: E402

__all__ = ["JOINTS", "PARAMETERS", "ClientFactory", "NodeFactory", "connect", "report_type", "start_node"]

FOLDER = Path(__file__).parent
_ledger = Ledger()


@pytest.fixture(scope="session")
def ledger() -> Ledger:
    """Where the whole run is entered."""
    return _ledger


@pytest.fixture(scope="module")
def hostile_node(
    tmp_path_factory: pytest.TempPathFactory, ledger: Ledger, request: pytest.FixtureRequest
) -> Iterator[HostileNode]:
    """One active node for all tests of a module, the robot at rest at 0; it must outlive them all."""
    report_type = None
    with contextlib.suppress(pytest.skip.Exception):  # without control_msgs, the node takes no reports
        report_type = request.getfixturevalue("report_type")
    process = NodeProcess(tmp_path_factory.mktemp("hostile"), HOSTILE_PARAMETERS)
    node = None
    try:
        node = HostileNode(process, ledger, report_type)
        yield node
    finally:
        if node is not None:
            node.close()
        process.close()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note which faults were survived: each test of a module test_faults* is one, here and in test/node."""
    path, _, test = report.nodeid.partition("::")
    if Path(path).name.startswith("test_faults") and (report.when == "call" or report.failed) and not report.skipped:
        name = test.removeprefix("test_").replace("_", " ")
        _ledger.faults[name] = report.passed and _ledger.faults.get(name, True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell what became of all bad messages and faults, here and in build/robustness/summary.txt."""
    lines = _ledger.summary()
    if not lines:
        return
    file = FOLDER.parent.parent / "build" / "robustness" / "summary.txt"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    terminalreporter.section("robustness")
    for line in lines:
        terminalreporter.write_line(line)
