"""Node processes and clients for the tests of the node."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from control_msgs_package import report_type
from node_fixtures import client, connect, serve, shared_client, shared_node, start_node

__all__ = ["client", "connect", "report_type", "serve", "shared_client", "shared_node", "start_node"]
