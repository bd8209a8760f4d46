"""The largest message is known from the command line, read as ROS reads it, before there is a node."""

from __future__ import annotations

from pathlib import Path

import pytest

from traj_integrator_ros.node.message_size import USUAL_DOF, MessageSize, largest_message
from traj_integrator_ros.parameters.table import SPECS

DEFAULT = MessageSize(SPECS["max_batch"].default, SPECS["max_horizon"].default, USUAL_DOF)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two nodes and another section."""
    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/left:\n  traj_integrator:\n    ros__parameters: {joint_names: [a, b], max_batch: 2000, max_horizon: 80}\n"
        "/right/traj_integrator:\n  ros__parameters: {joint_names: [a, b, c], max_batch: 20}\n"
        "/**:\n  ros__parameters: {dt: 0.1, max_batch: much}\n",
        encoding="utf-8",
    )
    return path


def test_defaults_are_those_of_the_node(project_root: Path) -> None:
    assert largest_message([]) == DEFAULT
    franka = ("--ros-args", "--params-file", str(project_root / "config" / "franka.yaml"))
    assert largest_message(franka) == DEFAULT


def test_of_several_nodes_in_a_file_the_largest_counts(file: Path) -> None:
    assert largest_message(["--ros-args", "--params-file", str(file)]) == (2000, 80, 3)


def test_later_values_override_earlier_ones(file: Path) -> None:
    short = ["-p", "position_trajectory.max_points:=1"]
    given = [*short, "-p", "max_batch:=5", "--params-file", str(file), "--param", "traj_integrator:max_horizon:=3"]
    assert largest_message(["--ros-args", *given]) == (2000, 3, 3)
    assert largest_message([*given, "-p", "max_batch:=5", "-p", "joint_names:=[a]"]) == (5, 3, 1)


def test_plans_of_many_points_are_larger_than_small_batches(tmp_path: Path) -> None:
    path = tmp_path / "parameters.yaml"
    path.write_text(
        "/**:\n  ros__parameters:\n    {max_batch: 8, joint_names: [a, b], position_trajectory: {max_points: 500}}"
    )
    given = ["--params-file", str(path)]
    assert largest_message(["-p", "max_batch:=8"]) == (1, 40_000, USUAL_DOF)
    assert largest_message(given) == (8, 256, 2)
    assert largest_message([*given, "-p", "max_horizon:=64"]) == (1, 1000, 2)


@pytest.mark.parametrize(
    "text", ["", "[", "5", "/**: 5", "/**:\n  ros__parameters: [1]", "{a: !!python/name:os.system }"]
)
def test_what_cannot_be_read_counts_for_nothing(tmp_path: Path, text: str) -> None:
    path = tmp_path / "wrong.yaml"
    path.write_text(text, encoding="utf-8")
    assert largest_message(["--params-file", str(path)]) == DEFAULT
    assert largest_message(["--params-file", str(tmp_path), "-p", "max_batch", "-p", "max_batch:=", "-p"]) == DEFAULT
    assert largest_message(["-p", "max_batch:=-3", "-p", "max_horizon:=1.5", "--params-file"]) == DEFAULT
