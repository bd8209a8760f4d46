"""The commands of docs/tools.md work as printed: bash runs its marked blocks, in order, in one folder."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^<!-- (executed.*?) -->\n```bash\n(.*?)^```", re.M | re.S)
OFFLINE = [block for mark, block in BLOCK.findall(PAGE) if mark == "executed"]
WITH_NODE = [block for mark, block in BLOCK.findall(PAGE) if mark == "executed with a node"]
# What `ros2 run` finds in an installed package, from the source tree.
ROS2 = """#!/bin/sh
[ "$1 $2" = "run traj_integrator_ros" ] || { echo "ros2: not for this test: $*" >&2; exit 2; }
tool=$3; shift 3
exec "{python}" -m "traj_integrator_ros.tools.$tool" "$@"
"""
READY = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the page says: motion.csv of a Panda, config/, examples/."""
    folder = tmp_path_factory.mktemp("tools_page")
    (folder / "config").symlink_to(ROOT / "config")
    (folder / "examples").symlink_to(ROOT / "examples")
    commands = folder / "bin"
    commands.mkdir()
    for name, text in (("ros2", ROS2), ("python", '#!/bin/sh\nexec "{python}" "$@"\n')):
        (commands / name).write_text(text.replace("{python}", sys.executable))
        (commands / name).chmod(0o755)
    names = [f"panda_joint{i}" for i in range(1, 8)]
    time_s = np.arange(101) * 0.02
    angle = np.pi * time_s[:, None] + np.arange(7)  # ends where it began, so that it can be played over and over
    columns = [time_s[:, None], READY + 0.05 * np.sin(angle), 0.05 * np.pi * np.cos(angle)]
    with (folder / "motion.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["time", *(f"{q}_{name}" for q in ("position", "velocity") for name in names)])
        writer.writerows(np.concatenate(columns, axis=1).tolist())
    return folder


def run(block: str, folder: Path) -> str:
    """Run a block as bash does when a command that fails ends it; returns its output."""
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(folder / "bin"), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]),
    }
    script = f"set -e\ntrap 'kill -INT $(jobs -p) 2> /dev/null || true; wait' EXIT\n{block}"
    result = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=150
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "Traceback" not in result.stderr, result.stderr
    return result.stdout


def test_every_command_of_the_page_is_in_a_marked_block() -> None:
    unmarked = BLOCK.sub("", PAGE)
    assert "```" not in unmarked and not re.search(r"^ros2 run", unmarked, re.M)
    assert len(OFFLINE) == 5 and len(WITH_NODE) == 1


def test_the_commands_without_a_node_do_what_the_page_says(folder: Path) -> None:
    pytest.importorskip("rosbags", reason="the rosbags library is not installed")
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    output = "".join(run(block, folder) for block in OFFLINE)
    written = ("trajectory.csv", "trajectory.png", "trajectory.npz", "recording", "again.csv", "actions_out.csv")
    assert [name for name in (*written, "two_joints.png") if not (folder / name).exists()] == []
    assert "RMS difference from the recording: position 0 rad" in output
    assert "trajectory 0: ok (7 joints, 104 points" in output and "refused, as it should be" in output


@pytest.fixture
def node() -> Iterator[None]:
    """The integrator for the Panda, as its own process."""
    command = [sys.executable, "-m", "traj_integrator_ros", "--ros-args", "--params-file", "config/franka.yaml"]
    with subprocess.Popen(command, cwd=ROOT) as process:
        yield
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0


@pytest.mark.ros
def test_the_commands_with_a_node_do_what_the_page_says(folder: Path, node: None) -> None:
    # Tools wait ten seconds, in which a busy machine may not even have loaded torch for the node.
    output = run(WITH_NODE[0].replace("--count 3", "--count 3 --timeout 60"), folder)
    assert "3 of 3 trajectories acceptable" in output, output
    assert (folder / "published.png").exists() and (folder / "candidate.png").exists()
    assert re.search(r"^/traj_integrator \w+ active device=", output, re.M), output
