"""The node on the ROS 2 Jazzy wheels, in an environment of its own beside this one: set-up, and all tests of the node.

`make test ROS_DISTRO=jazzy` runs all other tests there, too; `make matrix` further releases and Pythons.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.ros, pytest.mark.slow, pytest.mark.timeout(900)]
DISTRO = "jazzy"
FEWEST = 200
"""Tests that the node has at the least; fewer mean that they were not found or were skipped."""
INHERITED = ("PYTHONPATH", "AMENT_PREFIX_PATH", "LD_LIBRARY_PATH", "_ROS_WHEELS_BOOTSTRAP_COMPLETE", "VIRTUAL_ENV")
"""What this Python was told about its own environment, which does not hold for another one."""


@pytest.fixture(scope="module")
def jazzy(project_root: Path) -> Path:
    """The environment with the Jazzy wheels, set up; skips where they cannot be had."""
    venv = project_root / f".venv-{DISTRO}"
    prefixes = {*filter(None, os.environ.get("AMENT_PREFIX_PATH", "").split(os.pathsep)), sys.prefix}
    if prefixes != {str(project_root / ".venv")}:
        pytest.skip(f"runs beside the default wheels only: ROS 2 is in {', '.join(sorted(prefixes))}")
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        pytest.skip(f"no ROS 2 wheels for {platform.system()} {platform.machine()}")
    if not (venv / ".set-up" / "packages").is_file() and "CI" not in os.environ:
        skip_without_wheels(project_root)
    command = [sys._base_executable, "scripts/set_up.py", "--wheels", DISTRO, "--python-is-given"]
    returncode, output = run(command, project_root, timeout_s=480)
    assert returncode == 0, output
    return venv


def skip_without_wheels(project_root: Path) -> None:
    """Skip where no wheel of the release can be found, such as on a machine without a network; CI must have them."""
    pins = (project_root / "requirements" / f"ros-{DISTRO}.txt").read_text(encoding="utf-8")
    pin = re.search(r"^ros-rclpy==\S+", pins, re.MULTILINE)[0]
    options = ("--dry-run", "--no-deps", "--quiet", "--disable-pip-version-check", "--retries", "0")
    returncode, output = run([sys.executable, "-m", "pip", "install", *options, pin], project_root, timeout_s=60)
    if returncode != 0:
        pytest.skip(f"no wheels of ROS 2 {DISTRO} to be had here: {output.strip().splitlines()[-1]}")


def run(command: list[str], folder: Path, timeout_s: float) -> tuple[int, str]:
    """Run a command outside of this environment; its exit status and all that it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in INHERITED}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=timeout_s,
        check=False,
    )
    return done.returncode, done.stdout


def test_all_tests_of_the_node_pass_on_jazzy(jazzy: Path, project_root: Path) -> None:
    options = ("-q", "-p", "no:cacheprovider", "-n", "0")
    returncode, output = run([str(jazzy / "bin" / "python"), "-m", "pytest", *options, "test/node"], project_root, 600)
    assert returncode == 0, output[-20_000:]
    passed = re.search(r"(\d+) passed", output)
    assert passed and int(passed[1]) >= FEWEST, output[-2_000:]
