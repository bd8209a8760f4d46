"""The fixtures are those of test/node."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")
pytest.importorskip("hypothesis", reason="hypothesis cannot be imported")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "node"))
# Their assertions explain themselves as those of a test module do.
pytest.register_assert_rewrite("hostile_node", "hostile_oracle")

from control_msgs_package import report_type  # noqa: E402
from node_fixtures import connect, serve, start_node  # noqa: E402

__all__ = ["connect", "report_type", "serve", "start_node"]
