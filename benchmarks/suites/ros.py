"""What needs ROS: the suites `ros_latency`, `ros_large` and `ros_messages`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from functools import partial

from ..registry import CannotRun, Case, suite


def _cases(module: str, suite: str, quick: bool) -> Iterator[Case]:
    """Those of a suite in benchmarks/ros, whose modules import rclpy freely."""
    for needed in ("rclpy", "traj_integrator_interfaces"):
        if importlib.util.find_spec(needed) is None:
            raise CannotRun(f"{needed} cannot be imported")
    yield from getattr(importlib.import_module(f"..ros.{module}", __package__), suite)(quick)


for _module, _suite in (("latency", "ros_latency"), ("latency", "ros_large"), ("messages", "ros_messages")):
    suite(_suite)(partial(_cases, _module, _suite))
