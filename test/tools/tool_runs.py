"""Tools as users start them."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
JOINTS = ("arm_a", "arm_b")


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str

    @property
    def told(self) -> str:
        """Standard output of a run that succeeded."""
        assert self.returncode == 0, self.stdout + self.stderr
        return self.stdout


Tool = Callable[..., Result]


def command(name: str, *arguments: object, python: str | None = None) -> list[str]:
    return [python or sys.executable, "-m", f"traj_integrator_ros.tools.{name}", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def wait_for_endpoint(topic: str) -> None:
    """Wait until some process publishes or receives on a topic."""
    from traj_integrator_ros.tools.ros_session import RosSession

    with RosSession("waiting") as session:
        counts = session.node.count_subscribers, session.node.count_publishers
        assert session.spin_until(lambda: any(count(topic) for count in counts), 60.0), f"nobody on {topic}"
