"""Tools as users start them, and tables for them to read."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from preloaded_python import preloaded_python

from traj_integrator_ros.motions.samples import Samples

ROOT = Path(__file__).resolve().parents[2]
JOINTS = ("arm_a", "arm_b")


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


Tool = Callable[..., Result]


def command(name: str, *arguments: object, python: str | None = None) -> list[str]:
    return [python or preloaded_python(), "-m", f"traj_integrator_ros.tools.{name}", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}


def wait_for_endpoint(topic: str) -> None:
    """Wait until some process publishes or receives on a topic."""
    from traj_integrator_ros.tools.ros_session import ros_session

    with ros_session("waiting", []) as session:
        counts = session.node.count_subscribers, session.node.count_publishers
        assert session.spin_until(lambda: any(count(topic) for count in counts), 60.0), f"nobody on {topic}"


def write_table(path: Path, samples: Samples, quantities: tuple[str, ...]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"{name}_{joint}" for name in quantities for joint in samples.joint_names)])
        columns = [samples.time[:, None], *(getattr(samples, name) for name in quantities)]
        writer.writerows(np.concatenate(columns, axis=1).tolist())
    return path
