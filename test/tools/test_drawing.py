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
from traj_integrator_ros.motions import figures
from traj_integrator_ros.motions.samples import QUANTITIES, Samples
from traj_integrator_ros.motions.units import JointUnits
from traj_integrator_ros.tools.drawing import curves, draw_motion, violations
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


def test_exceeded_limits_are_reported_joint_by_joint(quadratic: Samples) -> None:
    told = violations(quadratic, Robot(LIMITS))
    assert [(line.split(" exceeds")[0], line.split(" of ")[-1]) for line in told] == [
        ("position of arm_a", "1.1 rad)"),
        ("position of arm_b", "-0.95 rad)"),
        ("acceleration of arm_b", "-0.2 rad/s^2)"),
    ]
    assert told[0] == "position of arm_a exceeds its limit by 0.11 rad at 0.6 s (1.21 of 1.1 rad)"


def test_a_joint_at_rest_is_drawn_at_rest_and_not_as_its_noise(
    tmp_path: Path, quadratic: Samples, monkeypatch: pytest.MonkeyPatch
) -> None:
    noise = 1e-27 * np.random.default_rng(0).standard_normal((4, *quadratic.position.shape))
    rows = dict(zip(QUANTITIES, noise, strict=True))
    shown = []
    monkeypatch.setattr(figures, "_fit_texts", shown.append)
    draw_motion(tmp_path / "rest.png", dataclasses.replace(quadratic, **rows), Robot(), ["arm_b"])
    spans = [float(np.ptp(axes.get_ylim())) for axes in shown[0].axes]
    assert min(spans) >= 1e-4 and len(spans) == 4


@pytest.mark.parametrize("joints", [2, 9], ids=["few joints", "many joints"])
def test_every_panel_has_numbers_of_its_own_quantity(
    tmp_path: Path, quadratic: Samples, monkeypatch: pytest.MonkeyPatch, joints: int
) -> None:
    many = {name: np.tile(getattr(quadratic, name), joints)[:, :joints] for name in QUANTITIES}
    samples = dataclasses.replace(quadratic, joint_names=tuple(f"j{k}" for k in range(joints)), **many)
    shown = []
    monkeypatch.setattr("matplotlib.figure.Figure.savefig", lambda drawn, *_, **__: shown.append(drawn))
    draw_motion(tmp_path / "panels.png", samples, Robot())
    numbers = [any(one.label1.get_visible() for one in axes.yaxis.get_major_ticks()) for axes in shown[0].axes]
    assert len(numbers) == 4 * joints and all(numbers)


def test_the_figure_has_units_of_the_urdf_and_limits_of_a_point(tmp_path: Path, quadratic: Samples) -> None:
    rows = {name: getattr(quadratic, name)[:1] for name in ("time", *QUANTITIES[:3])}
    point = dataclasses.replace(quadratic, **rows, jerk=None)
    for samples in (quadratic, point):
        draw_motion(tmp_path / "units.svg", samples, Robot(LIMITS, JointUnits({"arm_a": True})), ["arm_a"])
        text = (tmp_path / "units.svg").read_text()
        assert "velocity [m/s]" in text and "rad" not in text and "limit ±9" in text


def test_the_tool_draws_a_file(tool: Tool, tmp_path: Path, table: Path) -> None:
    result = tool("plot_trajectory", table, "--joints", "arm_b", "--out", "figure.png")
    assert (result.returncode, result.stdout) == (0, "figure.png: 1 of 2 joints, 31 points, 0.600 s\n")
    assert (tmp_path / "figure.png").read_bytes()[:4] == b"\x89PNG"


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


def test_titles_that_are_too_long_are_made_to_fit_in_what_is_saved(tmp_path: Path) -> None:
    from matplotlib.image import imread

    file = tmp_path / "figure.png"
    with figures.figure(file, 6, 3) as drawn:
        left, right = drawn.subfigures(1, 2)
        above, below = right.subfigures(2, 1)
        parts, long = (left, above, below), "a title that nobody could read to its end " * 2
        titles = [part.subplots().set_title(long, loc="left") for part in parts]
        below.axes[0].set_ylabel("a label\nof two lines")
        titles.append(drawn.suptitle("the heading of all of it, which is longer than the figure is wide " * 2))
    drawn.draw_without_rendering()
    for text, part in zip(titles, (*parts, drawn), strict=True):
        box = text.get_window_extent()
        assert part.bbox.x0 - 1 <= box.x0 and box.x1 <= part.bbox.x1 + 1
    pixels = imread(file)[..., :3]
    assert (pixels[:, -2:] == 1).all() and (pixels < 1).any()
