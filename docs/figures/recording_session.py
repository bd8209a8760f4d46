"""What the figures of real runs share: a ROS domain on this machine, and a node for as long as it is needed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from traj_integrator_ros.tools.ros_domain import claim_domain

ROOT = Path(__file__).resolve().parents[2]


def isolated_environment() -> None:
    """Keep DDS on this machine, in a domain of its own; to be called before rclpy is used."""
    os.environ["ROS_DOMAIN_ID"] = str(claim_domain())
    os.environ["ROS_AUTOMATIC_DISCOVERY_RANGE"] = "LOCALHOST"
    os.environ["FASTDDS_DEFAULT_PROFILES_FILE"] = str(ROOT / "config" / "fastdds_localhost.xml")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])


@contextmanager
def running(parameters: Mapping[str, object] = {}) -> Iterator[None]:
    """The node for a Panda, active, with parameters that differ from those of config/franka.yaml."""
    changes = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    node = [sys.executable, "-m", "traj_integrator_ros"]
    command = [*node, "--ros-args", "--params-file", "config/franka.yaml", *changes]
    with tempfile.TemporaryFile("w+") as log:
        process = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)
        try:
            while "]: active" not in (log.seek(0), log.read())[1]:
                assert process.poll() is None, "the node ended"
                time.sleep(0.1)
            yield
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(10)


@contextmanager
def example(name: str, *arguments: str) -> Iterator[None]:
    """One of the examples as a process."""
    process = subprocess.Popen([sys.executable, str(ROOT / "examples" / name), *arguments], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(10)
