"""Figures: derived quantities and exceeded limits."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tool_runs import JOINTS, Tool, command, environment

from traj_integrator_ros.limits.joint_limits import JointLimits
from traj_integrator_ros.motions.samples import QUANTITIES, Samples
from traj_integrator_ros.motions.units import JointUnits
from traj_integrator_ros.tools.drawing import curves, draw_motion
from traj_integrator_ros.tools.robot import Robot

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_what_is_missing_is_derived_by_differences_of_the_quantity_before(quadratic: Samples) -> None:
    drawn = curves(dataclasses.replace(quadratic, velocity=None, acceleration=None, jerk=None))
    assert [curve.differences for curve in drawn.values()] == [False, True, True, True]
    middles = (quadratic.velocity[1:] + quadratic.velocity[:-1]) / 2
    np.testing.assert_allclose(drawn["velocity"].values, middles, atol=1e-12)
    np.testing.assert_allclose(drawn["velocity"].time, quadratic.time[:-1] + 0.01)
    np.testing.assert_allclose(drawn["acceleration"].values, quadratic.acceleration[2:], atol=1e-9)


LIMITS = JointLimits(
    joint_names=JOINTS,
    position_min=np.array([0.0, -0.95]),
    position_max=np.array([1.1, np.inf]),
    velocity=np.array([9.0, 9.0]),
    acceleration=np.array([1.0, 0.2]),
)


def test_the_figure_has_units_of_the_urdf_and_limits_of_a_point(tmp_path: Path, quadratic: Samples) -> None:
    rows = {name: getattr(quadratic, name)[:1] for name in ("time", *QUANTITIES[:3])}
    point = dataclasses.replace(quadratic, **rows, jerk=None)
    for samples in (quadratic, point):
        draw_motion(tmp_path / "units.svg", samples, Robot(LIMITS, JointUnits({"arm_a": True})), ["arm_a"])
        text = (tmp_path / "units.svg").read_text()
        assert "velocity [m/s]" in text and "rad" not in text and "limit ±9" in text


def test_the_callers_backend_does_not_matter(tmp_path: Path, table: Path) -> None:
    """A notebook passes on to its children a backend that they may not have."""
    told = subprocess.run(
        command("plot_trajectory", table, "--out", tmp_path / "figure.png", python=sys.executable),
        env={**environment(), "MPLBACKEND": "module://of_a_notebook.that_is_not_here"},
        capture_output=True,
        text=True,
    )
    assert told.returncode == 0 and (tmp_path / "figure.png").exists(), told.stderr


@pytest.mark.parametrize("tool_name", ["plot_trajectory", "integrate"])
def test_parameters_of_another_robot_are_refused(tool: Tool, tmp_path: Path, table: Path, tool_name: str) -> None:
    text = "/**:\n  ros__parameters:\n    joint_names: [{}]\n    limits: {{velocity: [0.1]}}\n"
    (tmp_path / "other.yaml").write_text(text.format("leg"))
    (tmp_path / "part.yaml").write_text(text.format("arm_a"))
    arguments = (tool_name, table, {"integrate": "--plot", "plot_trajectory": "--out"}[tool_name], "f.png", "--params")
    refused = tool(*arguments, "other.yaml")
    assert (refused.returncode, refused.stderr) == (
        2, f"{tool_name}: other.yaml: expected limits of arm_a, arm_b, got those of leg\n"
    )  # fmt: skip
    told = tool(*arguments, "part.yaml")
    assert (told.returncode, told.stderr) == (0, "note: part.yaml has no limits of arm_b\n")
    where = {"integrate": "", "plot_trajectory": " at the points"}[tool_name]
    assert f"limit exceeded{where}: velocity of arm_a exceeds" in told.stdout and "of 0.1 rad/s)" in told.stdout
