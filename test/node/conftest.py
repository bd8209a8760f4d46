"""Node processes and clients for the tests of the node."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

# Its assertions explain themselves as those of a test module do.
pytest.register_assert_rewrite("ros_client")

from control_msgs_package import report_type  # noqa: E402
from node_fixtures import client, connect, shared_client, shared_node, start_node  # noqa: E402

__all__ = ["client", "connect", "report_type", "shared_client", "shared_node", "start_node"]
