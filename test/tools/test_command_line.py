"""Common to all tools: help, exit codes, Ctrl-C, and libraries that are not installed."""

from __future__ import annotations

import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from recordings import read_plain
from tool_runs import Tool, command, environment, wait_for_endpoint

TOOLS = ("check_trajectory", "integrate", "monitor", "plot_trajectory", "replay", "retime")


@pytest.mark.parametrize("name", TOOLS)
def test_help_has_examples_and_exit_codes(tool: Tool, name: str) -> None:
    result = tool(name, "--help")
    assert result.returncode == 0
    assert result.stdout.count(f"ros2 run traj_integrator_ros {name}") >= 3
    assert "exit codes: 0 success" in result.stdout


def test_loading_the_tools_loads_no_heavy_library() -> None:
    heavy = ("torch", "rclpy", "matplotlib", "rosbags", "yaml")
    code = f"import sys; from traj_integrator_ros.tools import {', '.join(TOOLS)}; "
    code += f"print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], env=environment(), capture_output=True, text=True)
    assert result.stdout.strip() == "[]", result.stdout + result.stderr


@pytest.mark.ros
@pytest.mark.parametrize(
    ("line", "topic", "code", "told"),
    [
        ("check_trajectory --timeout 60", "/traj_integrator/joint_trajectory", 130, "\ncheck_trajectory: interrupted"),
        ("check_trajectory --topic /a --count 0", "/a", 1, "no trajectory on /a before it was interrupted"),
        ("replay motion.csv --loop --quiet", "/joint_states", 0, ""),
    ],
)
def test_ctrl_c_ends_at_once_without_a_traceback(
    tmp_path: Path, table: Path, line: str, topic: str, code: int, told: str
) -> None:
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command(*line.split()), env=environment(), cwd=tmp_path, **pipes)
    wait_for_endpoint(topic)
    begin = time.monotonic()
    for _ in range(3):  # ros2 launch passes on what the terminal sent to the process, too
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == code and told in errors and "Traceback" not in errors, errors
    assert time.monotonic() - begin < 5.0


INTERRUPTED_IN_AN_IMPORT = """
import os, runpy, signal, sys
class Interruption:
    def find_spec(self, name, *where):
        if name == "numpy.linalg":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interruption())
runpy.run_module(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("module", ["tools.integrate", "demo.main"])
def test_ctrl_c_while_a_tool_is_imported_ends_it_quietly(module: str) -> None:
    line = [sys.executable, "-c", INTERRUPTED_IN_AN_IMPORT, f"traj_integrator_ros.{module}", "--help"]
    result = subprocess.run(line, env=environment(), capture_output=True, text=True)
    assert (result.returncode, result.stdout, result.stderr) == (130, "", "")


PARAMETERS = "/**: {ros__parameters: {joint_names: [arm_a, arm_b], limits: {velocity: [%s]}}}"


@pytest.fixture
def wrong_files(tmp_path: Path, table: Path) -> None:
    """Files with a mistake in each, beside the motion and the parameters of its robot."""
    texts = {
        "robot.yaml": PARAMETERS % "0.3, 1.0",
        "wrong.yaml": PARAMETERS % "0.3",
        "one.yaml": PARAMETERS.replace("[%s]", "2.0"),
        "text.yaml": PARAMETERS.replace("[%s]", "fast"),
        "texts.yaml": PARAMETERS % "fast, 1.0",
        "actions.csv": "action_a\n1\n2\n",
        "slow.yaml": "/**: {ros__parameters: {joint_names: [a], limits: {acceleration: [0.1], jerk: [0.1]}}}",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    archives = {
        "flat": {"actions": np.zeros(3)},
        "nan": {"actions": np.full((3, 1), np.nan)},
        "spline": {"actions": np.ones((2, 1)), "dt": [0.1, 0.2], "control_space": "bspline", "degree": 4},
        "half": {"actions": np.zeros((3, 1)), "steps": 2.5},
        "long": {"actions": np.zeros((3, 1)), "dt": 1e6},
        "dt": {"actions": np.zeros((3, 1)), "dt": np.full(7, 0.1)},
        "infinite": {"actions": np.full((3, 1), 1e308), "control_space": "acceleration", "dt": 1e4},
    }
    for name, arrays in archives.items():
        np.savez(tmp_path / f"{name}.npz", **arrays)


MISTAKES = {
    "check_trajectory motion.csv --params none.yaml": "none.yaml: No such file",
    "check_trajectory motion.csv --params motion.csv": "motion.csv: expected a parameter file with joint_names",
    "check_trajectory motion.csv --params wrong.yaml": "limits.velocity: expected 0 or 2 values",
    "check_trajectory motion.csv --params one.yaml": "one.yaml: limits.velocity: expected a list of numbers, got 2.0",
    "check_trajectory motion.csv --params text.yaml": "limits.velocity: expected a list of numbers, got 'fast'",
    "check_trajectory motion.csv --params texts.yaml": "limits.velocity: expected a list of numbers, got ['fast'",
    "check_trajectory motion.csv --params ''": "argument --params: expected a name, got ''",
    "check_trajectory ''": "argument FILE: expected a name, got ''",
    "check_trajectory --topic ''": "argument --topic: expected a name, got ''",
    "check_trajectory motion.csv --joints a,,b": "--joints: expected names with commas between them, got 'a,,b'",
    "check_trajectory --start-tolerance -1": "argument --start-tolerance: expected a number > 0, got '-1'",
    "check_trajectory --nonsense": "unrecognized arguments: --nonsense",
    "replay motion.csv --speed 0": "argument --speed: expected a number > 0, got '0'",
    "plot_trajectory motion.csv --joints hand": "--joints: expected some of arm_a, arm_b, got hand",
    "plot_trajectory motion.csv --urdf no.urdf": "--urdf: expected a URDF file, got 'no.urdf': No such file",
    "plot_trajectory motion.csv --out nowhere/x.png": "argument --out: expected a folder that can be written to",
    "plot_trajectory motion.csv --out x.exe": "--out: expected a file ending in .png",
    "integrate motion.csv": "--out, --plot: expected at least one of them",
    "integrate motion.csv --out x.txt": "--out: expected .csv, .npz, .db3, .mcap or a folder",
    "integrate motion.csv --out nowhere/x.csv": "argument --out: expected a folder that can be written to",
    "integrate motion.csv --plot motion.csv/x.png": "argument --plot: expected a folder that can be written to",
    "integrate motion.csv --out .": "argument --out: expected a name that no folder has, got '.'",
    "integrate motion.csv --plot x.gif": "--plot: expected a file ending in .png",
    "integrate motion.csv --out x.csv --control-space jerk": "expected jerk of every joint, got position",
    "integrate actions.csv --out x.csv --start-position 1,2": "--start-position: expected 1 numbers",
    "integrate actions.csv --params slow.yaml --out x.csv": "the brake within limits.acceleration and limits.jerk",
    "integrate flat.npz --out x.csv": "expected actions of shape [Ha, D] or [B, Ha, D], got [3]",
    "integrate half.npz --out x.csv": "half.npz: expected whole numbers, 0 or more, in steps, got 2.5",
    "integrate dt.npz --out x.csv": "dt: expected 0, 1, 3 (horizon) or 3 (batch x horizon) values, got 7",
    "integrate infinite.npz --out x.csv": "expected a finite trajectory",
    "integrate nan.npz --out x.csv": "actions: expected finite numbers",
    "integrate motion.csv --out x.csv --dt 1e6": "expected 1e-06 to 10000 s, as in the node, got '1e6'",
    "integrate long.npz --out x.csv": "dt: expected more than 0 s (1e-06 to 10000), got 1e+06",
    "integrate motion.csv --out x.csv --control-space bspline": "expected actions; docs/cookbook.md fits a B-spline",
    "integrate motion.csv --out x.csv --goal-position 1,2": "--goal-position: expected actions, got a motion",
    "integrate actions.csv --out x.csv --goal-position 1,2": "--goal-position: expected 1 numbers (the joints), got 2",
    "integrate actions.csv --out x.csv --goal-velocity 1": "goal_velocity: expected none, because control space",
    "integrate spline.npz --out x.csv": "needs steps of one length, got 0.1 to 0.2 s",
    "retime motion.csv --params robot.yaml --out x.csv --duration 3": "--duration: expected with --fastest",
    "retime motion.csv --velocity 1 --out nowhere/x.csv": "argument --out: expected a folder that can be written to",
    "retime motion.csv --params robot.yaml --out x.npz": "--out: expected a file ending in .csv, got x.npz",
    "retime motion.csv --velocity 1 --out x.csv": (
        "--acceleration: expected a limit of arm_a, arm_b, from --params, --urdf or this option"
    ),
    "demo --seconds 0 --out out": "expected a number of at least 1 s",
    "demo --out actions.csv": "argument --out: expected a folder that can be written to, got 'actions.csv'",
    "demo actions.csv --out out": "expected columns time, position_<joint>",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_a_mistake_is_one_line_and_exit_code_2(tool: Tool, wrong_files: None, line: str) -> None:
    before = sorted(Path().iterdir())
    name, *arguments = shlex.split(line)
    result = tool(name, *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert MISTAKES[line] in result.stderr and result.stderr.startswith(f"{name}: ")
    assert result.stderr.count("\n") == 1 and sorted(Path().iterdir()) == before, result.stderr


def test_the_demos_motion_is_written_on_request(tool: Tool, tmp_path: Path) -> None:
    told, noted = "written: m.csv: 1.0 s, 501 samples\n", "note: cut to its first 1.0 s of 10.5 s\n"
    assert tool("demo", "--seconds", 1, "--write-motion", "m.csv") == (0, told, noted)
    assert len(read_plain(tmp_path / "m.csv").time) == 501


def test_names_are_printed_in_encodings_without_their_letters(tmp_path: Path, table: Path) -> None:
    line = command("plot_trajectory", "motion.csv", "--out", "größe.png", python=sys.executable)
    ascii_only = {**environment(), "PYTHONIOENCODING": "ascii"}
    result = subprocess.run(line, env=ascii_only, cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 0 and result.stdout.startswith(r"gr\xf6\xdfe.png: "), result.stderr
    assert (tmp_path / "größe.png").exists()


@pytest.mark.ros
@pytest.mark.parametrize(
    ("name", "arguments", "code", "words"),
    [
        ("check_trajectory", ("--timeout", "0.5", "--topic", "/nobody"), 1, "no trajectory on /nobody within 0.5 s"),
        ("plot_trajectory", ("--timeout", "0.5", "--topic", "/nobody"), 1, "no publisher of /nobody"),
        ("plot_trajectory", ("--topic", "not a name"), 2, "topic: expected a valid name, got 'not a name'"),
        ("monitor", ("--timeout", "0.5"), 1, "nothing on /diagnostics within 0.5 s"),
        ("replay", ("motion.csv", "--ros-args", "-r", "x:"), 2, "--ros-args: "),
    ],
)
def test_what_is_missing_or_wrong_in_ros_is_one_line(
    tool: Tool, table: Path, name: str, arguments: tuple[str, ...], code: int, words: str
) -> None:
    result = tool(name, *arguments)
    assert result.returncode == code
    assert words in result.stderr and result.stderr.splitlines()[-1].startswith(f"{name}: "), result.stderr


@pytest.mark.parametrize(
    ("library", "arguments", "words"),
    [
        ("matplotlib", ["integrate", "motion.csv", "--out", "out.csv", "--plot", "out.png"], "--plot needs"),
        ("matplotlib", ["plot_trajectory", "motion.csv"], "drawing needs"),
        ("yaml", ["check_trajectory", "motion.csv", "--params", "robot.yaml"], "reading robot.yaml needs"),
        ("rosbags", ["integrate", "motion.csv", "--out", "bag"], "writing bags needs"),
        ("rosbags", ["replay", "bag.db3"], "reading bags needs"),
        ("ruckig", ["integrate", "motion.csv", "--out", "out.csv"], "joining motions needs"),
        ("matplotlib", ["demo"], "the demo needs"),
        ("ruckig", ["demo"], "the demo needs"),
        ("scipy", ["demo"], "the demo needs"),
    ],
)
def test_a_tool_says_what_to_install(
    tool: Tool, tmp_path: Path, table: Path, monkeypatch: pytest.MonkeyPatch,
    library: str, arguments: list[str], words: str,
) -> None:  # fmt: skip
    for name in ("robot.yaml", "bag.db3"):
        (tmp_path / name).write_text("")
    monkeypatch.setitem(sys.modules, library, None)
    result = tool(*arguments)
    assert result.returncode == 2 and result.stderr.count("\n") == 1, result.stderr
    package = {"yaml": "PyYAML"}.get(library, library)
    assert f"{words} the library {package}: python -m pip install {package}" in result.stderr
    assert f"pip install '.[{'demo' if arguments == ['demo'] else 'tools'}]'" in result.stderr
    assert not (tmp_path / "out.csv").exists()
