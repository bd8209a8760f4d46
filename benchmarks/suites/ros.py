"""What needs ROS: the suites `ros_latency`, `ros_large` and `ros_messages`."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from types import ModuleType

from ..registry import CannotRun, Case, suite


@suite("ros_latency")
def ros_latency(quick: bool) -> Iterator[Case]:
    """Through ROS: from a sequence published in one process to the trajectory that arrives back there."""
    yield from _cases("latency").through_ros(quick)


@suite("ros_large")
def ros_large(quick: bool) -> Iterator[Case]:
    """Large messages as they go without settings: 0.9 MB in and 3.6 MB out."""
    yield from _cases("latency").large_messages(quick)


@suite("ros_messages")
def ros_messages(quick: bool) -> Iterator[Case]:
    """Messages within one process, without DDS."""
    yield from _cases("messages").messages(quick)


def _cases(name: str) -> ModuleType:
    for needed in ("rclpy", "traj_integrator_interfaces"):
        if importlib.util.find_spec(needed) is None:
            raise CannotRun(f"{needed} cannot be imported")
    return importlib.import_module(f"..ros.{name}", __package__)
