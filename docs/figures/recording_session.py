"""The common part of figures of real runs: a private ROS domain, and a node for as long as it is needed."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from kit.local_dds import config_file, isolate  # noqa: E402
from kit.node_process import NodeProcess, PythonProcess, source_environment  # noqa: E402


def isolated_environment() -> None:
    """Keep DDS on this machine, in a domain of its own; to be called before rclpy is used."""
    isolate()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    os.environ.update(source_environment())


@contextmanager
def running(parameters: Mapping[str, object] = {}) -> Iterator[None]:
    """The node for a Panda, active, with parameters that differ from those of config/franka.yaml."""
    changes = [part for name, value in parameters.items() for part in ("-p", f"{name}:={value}")]
    with tempfile.TemporaryDirectory() as folder:
        # A parameter that is given later replaces the one in the file.
        node = NodeProcess(Path(folder), arguments=["--params-file", str(config_file("franka.yaml")), *changes])
        try:
            node.wait_for_output("]: active")
            yield
        finally:
            node.stop()


@contextmanager
def example(name: str, *arguments: str) -> Iterator[None]:
    """One of the examples as a process."""
    with tempfile.TemporaryDirectory() as folder:
        process = PythonProcess([ROOT / "examples" / name, *arguments], Path(folder) / "log")
        try:
            yield
        finally:
            process.stop()
