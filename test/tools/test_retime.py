"""retime: a plan is slowed if necessary, a path is timed, and an impossible request is refused in a line."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest
from recordings import read_plain
from tool_runs import command, environment

OUT = Path("out.csv")
LIMITS = """
/**:
  ros__parameters:
    joint_names: [a, b]
    limits: {velocity: [2.0, 2.0], acceleration: [6.0, 6.0], jerk: [70.0, 70.0]}
"""


@pytest.fixture
def robot(tmp_path: Path) -> Path:
    """Parameters of a robot with limits that the plan keeps."""
    path = tmp_path / "robot.yaml"
    path.write_text(LIMITS)
    return path


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """From rest to rest in 1 s: up to 1.875 rad/s, 5.77 rad/s^2, 60 rad/s^3."""
    t, way = np.linspace(0, 1, 51), np.polynomial.Polynomial([0, 0, 0, 10, -15, 6])
    columns = [t, *(scale * way.deriv(k)(t) for k in range(3) for scale in (1.0, -0.5))]
    names = (f"{quantity}_{joint}" for quantity in ("position", "velocity", "acceleration") for joint in "ab")
    path, header = tmp_path / "plan.csv", ",".join(("time", *names))
    np.savetxt(path, np.column_stack(columns), delimiter=",", header=header, comments="", fmt="%.17g")
    return path


def test_a_plan_within_the_limits_is_kept(plan, robot, tool):
    assert "unchanged, 51 points, 1.000 s" in tool("retime", plan, "--params", robot, "--out", OUT).told
    for name in ("time", "position", "velocity", "acceleration"):
        np.testing.assert_array_equal(getattr(read_plain(OUT), name), getattr(read_plain(plan), name))


@pytest.mark.parametrize(
    ("options", "lasts"),
    [
        (["--velocity", "1.6"], (1.01, 1.875 / 1.6)),
        (["--fastest"], (0.9, 0.99)),
        (["--fastest", "--order", "2"], (0.8, 0.85)),
        (["--fastest", "--duration", "3"], (3.0, 3.0)),
    ],
)
def test_what_is_written_keeps_the_limits_as_another_tool_finds(plan, robot, tool, options, lasts):
    for arguments in (("retime", plan, "--out", OUT, *options), ("check_trajectory", OUT)):
        assert tool(*arguments, "--params", robot).told
    motion = read_plain(OUT)
    assert lasts[0] - 1e-6 <= motion.duration <= lasts[1] + 1e-6
    np.testing.assert_allclose(motion.position[[0, -1]], [[0, 0], [1, -0.5]], atol=1e-9)
    if options[0] == "--velocity":
        assert np.abs(motion.velocity).max() <= 1.6 * 1.0005


def test_a_duration_too_short_is_a_failure_that_names_the_shortest(plan, robot, tool):
    code, _, told = tool("retime", plan, "--params", robot, "--out", OUT, "--fastest", "--duration", "0.5")
    assert code == 1 and "--duration 0.5: the shortest duration is" in told and told.count("\n") == 1


def test_ctrl_c_during_a_long_file_ends_with_a_line_and_leaves_no_output(robot, tmp_path):
    way = np.cumsum(np.random.default_rng(0).normal(size=(100_000, 2)), 0)  # takes many seconds
    np.savez(tmp_path / "way.npz", joint_names=["a", "b"], time=np.arange(len(way)) * 0.1, position=way)
    before = sorted(tmp_path.iterdir())
    arguments = command("retime", "way.npz", "--params", robot, "--fastest", "--out", "out.csv", "--angle-unit", "rad")
    process = subprocess.Popen(
        arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert "timing 100000 rows" in process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    assert (process.returncode, told) == (130, "\nretime: interrupted\n")
    assert sorted(tmp_path.iterdir()) == before
