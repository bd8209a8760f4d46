"""The messages of a controller's reports are those of test/node."""

from __future__ import annotations

import pytest

pytest.importorskip("rclpy", reason="rclpy cannot be imported")
pytest.importorskip("traj_integrator_interfaces", reason="traj_integrator_interfaces cannot be imported")

from control_msgs_package import report_type

__all__ = ["report_type"]
