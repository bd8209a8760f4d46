"""Short soaks with real processes: one that passes, and ones that must not."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from preloaded_python import preloaded_python

pytestmark = pytest.mark.ros
# Slow enough for a busy machine, which must not decide about latency either.
CALM = ("--state-rate", "200", "--sequence-rate", "20", "--gradient-rate", "10", "--p99-ratio", "1e6")
CALM += ("--least-rate", "0.1")
SHORT = ("--warmup", "1", "--minutes", "0.05", "--rss-growth", "50")


def start(project_root: Path, out: Path, *arguments: str) -> subprocess.Popen:
    # The memory of a preloaded node is its command's: no test here judges it, and each start takes 2 s less.
    command = [preloaded_python(), "-m", "soak", "--out", str(out), *CALM, *SHORT, *arguments]
    return subprocess.Popen(command, cwd=project_root, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_a_short_soak_closes_its_books_and_draws(project_root: Path, tmp_path: Path) -> None:
    process = start(project_root, tmp_path)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    report = json.loads((tmp_path / "soak.json").read_text())
    assert report["passed"] and report["violations"] == []
    clients, node = report["clients"], report["node"]
    assert clients["planner"]["sent"] >= 10 and clients["optimizer"]["called"] >= 5
    assert clients["planner"]["sent"] == node["sequences"]
    assert clients["planner"]["answered"] == clients["controller"]["received"] == node["published"]
    assert clients["optimizer"]["answered"] == node["service_calls"]
    assert len(report["memory_mib"]) >= 2 and len(report["latency"]["sequence"]["seconds"]) >= 2
    assert (tmp_path / "soak.png").read_bytes().startswith(b"\x89PNG")
    assert "joint trajectories" in output and "0 unfit" in output


@pytest.mark.slow
def test_a_short_soak_of_chunks_commands_nothing_beyond_limits(project_root: Path, tmp_path: Path) -> None:
    # So far ahead that a busy machine is in time, mostly.
    busy = ("--chunks", "--set", "publish.lead_time:=0.15", "--late-share", "0.2", "--minutes", "0.1")
    process = start(project_root, tmp_path, *busy)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 0, output + errors
    report = json.loads((tmp_path / "soak.json").read_text())
    robot, policy = report["clients"]["robot"], report["clients"]["planner"]
    assert report["chunks"] and report["passed"] and policy["sent"] == report["node"]["sequences"] >= 20
    assert robot["executed"] >= 20 and policy["answered"] >= 0.5 * policy["sent"]
    assert 0.1 < report["commanded"]["velocity"] and 1.0 < report["commanded"]["acceleration"], "the robot moves"
    assert 0.0 < report["commanded"]["of_limit"] <= 1.001
    assert "commanded at 1 kHz" in output and "trajectories executed" in output


@pytest.mark.slow
def test_what_no_robot_may_be_sent_or_commanded_makes_the_soak_fail(project_root: Path, tmp_path: Path) -> None:
    """The clients take the limits from the file; the node warns and publishes nevertheless."""
    loose = ("--set", "limits.action:=warn", "--set", "limits.velocity:=[0.05, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]")
    process = start(project_root, tmp_path, "--chunks", "--least-rate", "0.01", "--late-share", "0.5", *loose)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == 1, output + errors
    assert "soak: FAILED: commanded velocity of panda_joint1: expected at most 0.05, got" in errors
    beyond = "joint_trajectory: limits: velocity of panda_joint1: expected at "
    assert re.search(beyond + r"(most |least -)0\.05 rad/s", errors), errors
    report = json.loads((tmp_path / "soak.json").read_text())
    assert not report["passed"] and report["clients"]["controller"]["unfit"] > 0


def test_a_node_that_ends_makes_the_soak_fail_and_leaves_no_process(project_root: Path, tmp_path: Path) -> None:
    process = start(project_root, tmp_path, "--minutes", "5")
    deadline = time.monotonic() + 100
    while "Soaking" not in process.stdout.readline():
        assert time.monotonic() < deadline
    node, children = _node_and_siblings(str(tmp_path / "node_params.yaml"))
    os.kill(node, signal.SIGTERM)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "soak: FAILED: ended before its time: the integrator node ended with exit code 0" in errors
    assert len(children) == 5
    assert not any(Path(f"/proc/{pid}").exists() for pid in children)


def _node_and_siblings(parameters: str) -> tuple[int, list[int]]:
    """The node with this parameter file, and all processes that the soak has started."""
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has just ended
            if parameters in (folder / "cmdline").read_text().split("\0"):
                soak = (folder / "stat").read_text().rpartition(")")[2].split()[1]
                return int(folder.name), list(map(int, Path(f"/proc/{soak}/task/{soak}/children").read_text().split()))
    raise AssertionError(f"no node with {parameters}")
