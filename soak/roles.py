"""One client process: `python -m soak.roles ROLE RATE_HZ ROBOT [--ros-args ...]`; the soak starts them."""

from __future__ import annotations

import sys

from rclpy.node import Node

from .client import Role, run_client
from .controller import Controller
from .motion import Swing
from .optimizer import Optimizer
from .planner import Planner
from .robot import Robot


def role_of(name: str, rate_hz: float, swing: Swing, node: Node) -> Role:
    """The role with this name on a ROS node."""
    if name == Controller.name:
        return Controller(node, swing)
    roles = {role.name: role for role in (Robot, Planner, Optimizer)}
    return roles[name](node, swing, rate_hz)


def main() -> int:
    """Run a client process; returns the exit code."""
    name, rate, robot, *ros_arguments = sys.argv[1:]
    swing = Swing.of_json(robot)
    return run_client(lambda node: role_of(name, float(rate), swing, node), ros_arguments)


if __name__ == "__main__":
    sys.exit(main())
