"""The fixtures are those of test/node."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

# Their assertions explain themselves as those of a test module do.
pytest.register_assert_rewrite("hostile_messages")

from control_msgs_package import report_type  # noqa: E402
from node_fixtures import connect, serve, start_node  # noqa: E402

__all__ = ["connect", "report_type", "serve", "start_node"]
