"""Figures: what is derived, which limits are exceeded."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from tool_runs import JOINTS, Tool

from traj_integrator_ros.handling.limits import JointLimits
from traj_integrator_ros.motions.samples import Samples
from traj_integrator_ros.tools.drawing import curves, draw_motion

pytest.importorskip("matplotlib", reason="matplotlib is not installed")


def test_what_is_missing_is_derived_by_differences_of_the_quantity_before(quadratic: Samples) -> None:
    drawn = curves(dataclasses.replace(quadratic, velocity=None, acceleration=None, jerk=None))
    assert [curve.differences for curve in drawn.values()] == [False, True, True, True]
    middles = (quadratic.velocity[1:] + quadratic.velocity[:-1]) / 2
    np.testing.assert_allclose(drawn["velocity"].values, middles, atol=1e-12)
    np.testing.assert_allclose(drawn["velocity"].time, quadratic.time[:-1] + 0.01)
    np.testing.assert_allclose(drawn["acceleration"].values, quadratic.acceleration[2:], atol=1e-9)


def test_exceeded_limits_are_told_joint_by_joint(tmp_path: Path, quadratic: Samples) -> None:
    limits = JointLimits(
        JOINTS,
        position_min=np.array([0.0, -0.95]),
        position_max=np.array([1.1, np.inf]),
        velocity=np.array([9.0, 9.0]),
        acceleration=np.array([1.0, 0.2]),
    )
    told = draw_motion(tmp_path / "figure.png", quadratic, limits)
    assert [line.partition(",")[0] for line in told] == [
        "position of arm_a: highest 1.1 rad",
        "position of arm_b: lowest -0.95 rad",
        "acceleration of arm_b: lowest -0.2 rad/s²",
    ]
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


def test_a_single_point_can_be_drawn(tmp_path: Path, quadratic: Samples) -> None:
    rows = {name: getattr(quadratic, name)[:1] for name in ("time", "position", "velocity", "acceleration")}
    draw_motion(tmp_path / "point.svg", dataclasses.replace(quadratic, **rows, jerk=None))
    assert (tmp_path / "point.svg").exists()


def test_the_tool_draws_a_file(tool: Tool, tmp_path: Path, table: Path) -> None:
    result = tool("plot_trajectory", table, "--joints", "arm_b", "--out", "figure.png")
    assert (result.returncode, result.stdout) == (0, "figure.png: 2 joints, 31 points, 0.600 s\n")
    assert (tmp_path / "figure.png").exists()
