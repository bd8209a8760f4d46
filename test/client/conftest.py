"""The fixtures are those of test/node."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from node_fixtures import client, shared_client, shared_node, start_node

__all__ = ["client", "shared_client", "shared_node", "start_node"]
