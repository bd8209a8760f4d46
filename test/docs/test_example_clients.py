"""The example clients do what they say, against a real node and a simulated robot; the pages run the others."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pytest
from documentation_pages import ROOT
from preloaded_process import PreloadedProcess

pytestmark = [pytest.mark.ros, pytest.mark.usefixtures("fresh_panda_node")]


def output_of(example: str, *arguments: str, until: str, log: Path) -> str:
    """Run an example until it has printed a pattern, end it by Ctrl-C, and return what it printed."""
    process = PreloadedProcess([f"examples/{example}", *arguments], log, cwd=ROOT)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not re.search(until, process.output):
            time.sleep(0.05)
    finally:
        ended = process.stop()
    text = process.output
    assert re.search(until, text), text
    assert ended.code == 0 and "Traceback" not in text, text
    return text


@pytest.fixture
def start_from_previous(fresh_panda_node, folder):
    """The node with start_from = previous."""
    param_set = [folder / "bin" / "ros2", "param", "set", "/traj_integrator", "start_from"]
    subprocess.run([*param_set, "previous"], check=True, timeout=60)
    yield
    subprocess.run([*param_set, "measured"], check=True, timeout=60)


def test_the_robot_follows_overlapping_chunks_of_increments(robot_with_a_hand, start_from_previous, tmp_path):
    # When the policy sees the robot, it moves: chunks start in motion, and arrive before they take over, 20 ms later.
    pattern = r"chunk \d+ of \d+: \d\d points, starts at 0\.(0[1-9]|[12])\d* rad/s, \d+\.\d ms ago"
    said = output_of("action_chunks.py", "--kind", "increment", until=pattern, log=tmp_path / "log")
    assert "start_from" not in said


def test_the_policy_says_when_the_node_starts_trajectories_on_arrival(robot, tmp_path):
    both = r"(?s)\A(?=.*start_from)(?=.*chunk 3 of \d+)"  # the node's answer may come first, or some chunks later
    said = output_of("action_chunks.py", until=both, log=tmp_path / "log")
    assert said.count("set the node's parameter start_from to previous") == 1


@pytest.mark.thorough
def test_the_sampling_controller_reaches_its_goal(robot, start_from_previous, tmp_path):
    # Its first goal is home or 0.3 rad away from there, and either comes after 4 s.
    pattern = r"(?s)rollouts.*[^0]\.\d+, 0\.[1-3]\d+ rad from the goal.*rollouts.* 0\.0[0-3]\d+ rad from the goal"
    output_of("mppi.py", "--rollouts", "1000", until=pattern, log=tmp_path / "log")
