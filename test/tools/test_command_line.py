"""What all tools have in common: help, exit codes, Ctrl-C, and entry points that exist."""

from __future__ import annotations

import ast
import importlib
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tool_runs import ROOT, Tool, command, environment, wait_for_endpoint

TOOLS = ("check_trajectory", "integrate", "monitor", "plot_trajectory", "replay", "retime")


def test_setup_py_makes_every_tool_an_executable() -> None:
    setup = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert re.search(r'\*\*\{tool: f"\{PACKAGE\}\.tools\.\{tool\}" for tool in TOOLS\}', setup)
    assert ast.literal_eval(re.search(r"^TOOLS = (\(.*\))$", setup, re.M)[1]) == TOOLS
    assert all(callable(importlib.import_module(f"traj_integrator_ros.tools.{tool}").main) for tool in TOOLS)


@pytest.mark.parametrize("name", TOOLS)
def test_help_has_examples_and_exit_codes(tool: Tool, name: str) -> None:
    result = tool(name, "--help")
    assert result.returncode == 0
    assert result.stdout.count(f"ros2 run traj_integrator_ros {name}") >= 3
    assert "exit codes: 0 success" in result.stdout


def test_loading_the_tools_loads_no_heavy_library() -> None:
    heavy = ("torch", "rclpy", "matplotlib", "rich", "rosbags", "yaml")
    code = f"import sys; from traj_integrator_ros.tools import {', '.join(TOOLS)}; "
    code += f"print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


@pytest.mark.ros
@pytest.mark.parametrize(
    ("name", "arguments", "code", "topic"),
    [
        ("check_trajectory", ("--timeout", "60"), 130, "/traj_integrator/joint_trajectory"),
        ("replay", ("motion.csv", "--loop", "--quiet"), 0, "/joint_states"),
    ],
)
def test_ctrl_c_ends_at_once_without_a_traceback(
    tmp_path: Path, table: Path, name: str, arguments: tuple[str, ...], code: int, topic: str
) -> None:
    process = subprocess.Popen(
        command(name, *arguments), env=environment(), cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for_endpoint(topic)
    process.send_signal(signal.SIGINT)
    begin = time.monotonic()
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code and b"Traceback" not in errors, errors
    assert time.monotonic() - begin < 5.0


@pytest.mark.ros
@pytest.mark.parametrize(
    ("name", "arguments", "code", "words"),
    [
        ("check_trajectory", ("--timeout", "0.5", "--topic", "/nobody"), 1, "no trajectory on /nobody within 0.5 s"),
        ("plot_trajectory", ("--timeout", "0.5", "--topic", "/nobody"), 1, "no publisher of /nobody"),
        ("plot_trajectory", ("--topic", "not a name"), 2, "topic: expected a valid name, got 'not a name'"),
        ("monitor", ("--timeout", "0.5"), 1, "nothing on /diagnostics within 0.5 s"),
        ("replay", ("none.csv",), 2, "none.csv: no such file or folder"),
        ("replay", ("motion.csv", "--speed", "0"), 2, "argument --speed: expected a number > 0, got '0'"),
        ("replay", ("motion.csv", "--ros-args", "-r", "x:"), 2, "--ros-args: "),
        ("plot_trajectory", ("motion.csv", "--joints", "hand"), 2, "--joints: expected some of arm_a, arm_b, got hand"),
        ("plot_trajectory", ("motion.csv", "--out", "x.exe"), 2, "--out: expected a file ending in .png"),
    ],
)
def test_what_is_missing_or_wrong_is_one_line(
    tool: Tool, table: Path, name: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = tool(name, *arguments)
    assert result.returncode == code
    assert words in result.stderr and result.stderr.splitlines()[-1].startswith(f"{name}: "), result.stderr
