"""A folder as the pages describe it, and a node and a robot as processes, for as long as the tests of the pages run."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from documentation_pages import ROOT
from preloaded_process import PreloadedNode, PreloadedProcess

from kit.node_process import PythonProcess
from traj_integrator_ros.client import IntegratorClient, Refused

PANDA = ROOT / "config" / "franka.yaml"
HEARD_WITHIN_S = 30.0  # a loaded machine takes seconds to discover


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with benchmarks, config and examples, and `ros2`."""
    for name in ("benchmarks", "config", "examples"):
        (tmp_path / name).symlink_to(ROOT / name)
    command = tmp_path / "bin" / "ros2"
    command.parent.mkdir()
    # The package runs from the source tree; everything else goes to the real command where there is one.
    ours = f'exec env PYTHONPATH="{ROOT}:$PYTHONPATH" "{sys.executable}" -m kit.ros2 "$@"'
    other = f'exec "{real}" "$@"' if (real := shutil.which("ros2")) else ours
    script = f'#!/bin/sh\ncase "$1 $2" in "run traj_integrator_ros") {ours} ;; esac\n{other}\n'
    command.write_text(script, encoding="utf-8")
    command.chmod(0o755)
    return tmp_path


@contextmanager
def running(process: PythonProcess, until: str = "") -> Iterator[None]:
    """A program that runs until SIGINT, after which its exit code must be 0; ready once it has printed `until`."""
    try:
        process.wait_for_output(until)
        yield
    finally:
        ended = process.stop()
    assert ended.code == 0, process.output


@pytest.fixture(scope="module")
def panda_node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The integrator for the Panda; a test that changes it must undo the change."""
    with running(PreloadedNode(tmp_path_factory.mktemp("panda_node"), PANDA), until="]: active"):
        yield


@pytest.fixture
def fresh_panda_node(tmp_path: Path) -> Iterator[None]:
    """The integrator for the Panda before its first joint state."""
    with running(PreloadedNode(tmp_path, PANDA), until="]: active"):
        yield


@contextmanager
def simulated_robot(folder: Path, *options: str) -> Iterator[None]:
    """The example, run from the source folder, once the integrator knows the robot's position."""
    with running(PreloadedProcess(["examples/simulated_robot.py", *options], folder / "robot.log", cwd=ROOT)):
        deadline = time.monotonic() + HEARD_WITHIN_S
        with IntegratorClient() as client:
            while True:
                try:
                    client.committed(1)
                    break
                except Refused:
                    assert time.monotonic() < deadline, "the integrator does not hear the robot"
                    time.sleep(0.05)
        yield


@pytest.fixture
def robot_with_a_hand(tmp_path: Path) -> Iterator[None]:
    """A simulated Panda whose joint_states have fingers too, 40 ms behind its commands."""
    with simulated_robot(tmp_path, "--hand", "--lag", "0.04", "--interpolate-from-desired-state"):
        yield


@pytest.fixture
def robot(tmp_path: Path) -> Iterator[None]:
    """The simulated Panda."""
    with simulated_robot(tmp_path):
        yield
