"""Node processes and clients, those of test/node, for the bytes that real messages are made of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "node"))

from control_msgs_package import report_type
from node_fixtures import connect, start_node

__all__ = ["connect", "report_type", "start_node"]
