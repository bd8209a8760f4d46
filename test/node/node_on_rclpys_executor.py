"""The node with an rclpy that lacks what the lean executor needs, as a program of its own."""

from __future__ import annotations

import sys

from traj_integrator_ros.node import executor
from traj_integrator_ros.node.main import main

if __name__ == "__main__":
    executor.NEEDED["WaitSet"] += ("no_such_function",)
    sys.exit(main())
