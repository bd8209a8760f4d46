"""Limits from MoveIt's joint_limits.yaml, and which source counts; without ROS."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from test_urdf_limits import JOINTS, URDF, parameters

from traj_integrator_ros.limits.found import FoundLimits, LimitsError
from traj_integrator_ros.limits.moveit import load_moveit
from traj_integrator_ros.parameters.in_force import RobotLimits

pytest.importorskip("yaml")
FILE = """
default_velocity_scaling_factor: 0.5
default_acceleration_scaling_factor: 0.25
joint_limits:
  gripper: {has_velocity_limits: nonsense}
  turn:
    has_position_limits: true
    min_position: !degrees -90
    max_position: 1.5
    has_velocity_limits: true
    max_velocity: 2
    has_acceleration_limits: true
    max_acceleration: 4.0
    has_deceleration_limits: true
    max_deceleration: -8.0
    has_jerk_limits: true
    max_jerk: 1e3
  spin:
    has_velocity_limits: false
    max_velocity: 0
    has_acceleration_limits: false
    max_acceleration: 0.0
"""


def found(text: str, tmp_path: Path) -> FoundLimits:
    path = tmp_path / "joint_limits.yaml"
    path.write_text(text)
    return load_moveit(str(path), JOINTS)


@pytest.mark.parametrize("text", [FILE, "robot_description_planning:" + FILE.replace("\n", "\n  ")])
def test_all_quantities_of_a_file_are_read_and_scaled(text: str, tmp_path: Path) -> None:
    limits = found(text, tmp_path).limits
    half, quarter = 0.5, 0.25
    expected = {
        "position_min": [-np.pi / 2, -np.inf, -np.inf],
        "position_max": [1.5, np.inf, np.inf],
        "velocity": [2 * half, np.inf, np.inf],
        "acceleration": [4 * quarter, np.inf, np.inf],
        "deceleration": [8 * quarter, np.inf, np.inf],
        "jerk": [1000.0, np.inf, np.inf],
    }
    for quantity, values in expected.items():
        np.testing.assert_allclose(getattr(limits, quantity), values)


def test_parameters_go_before_the_file_and_that_before_the_urdf(tmp_path: Path) -> None:
    path = tmp_path / "joint_limits.yaml"
    path.write_text(FILE)
    (tmp_path / "arm.urdf").write_text(URDF.replace('velocity="0.2"', 'velocity="0.2" acceleration="3" jerk="7"'))
    files = {"limits__moveit": str(path), "limits__urdf": str(tmp_path / "arm.urdf")}
    limits = RobotLimits.configured(parameters(**files, limits__jerk=[9.0] * 3))
    result = limits.parameters
    np.testing.assert_allclose(result.limits_position_max, [1.5, np.inf, 0.4])
    np.testing.assert_allclose(result.limits_velocity, [1.0, 3.5, 0.2])
    np.testing.assert_allclose(result.limits_acceleration, [1.0, np.inf, 3.0])
    np.testing.assert_allclose(result.limits_deceleration, [2.0, np.inf, np.inf])
    np.testing.assert_allclose(result.limits_jerk, [9.0] * 3)
    assert result.limits_continuous == ("spin",)
    urdf = tmp_path / "arm.urdf"
    assert limits.origins == (
        f"position: {path} and {urdf}, velocity: {path} x 0.5 and {urdf}, acceleration: {path} x 0.25 and {urdf}, "
        f"deceleration: {path} x 0.25, jerk: parameters ({path} has none of slide)"
    )


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("max_velocity: 2", "max_velocity: fast", "joint turn: max_velocity: expected a number, got 'fast'"),
        ("max_velocity: 2", "max_velocity: true", "joint turn: max_velocity: expected a number, got True"),
        ("max_velocity: 2", "", "joint turn: max_velocity: expected a number, because has_velocity_limits is true"),
        ("max_acceleration: 4.0", "max_acceleration: 0", "joint turn: max_acceleration: expected more than 0, got 0"),
        ("max_jerk: 1e3", "max_jerk: [1]", "joint turn: max_jerk: expected a number, got [1]"),
        ("max_jerk: 1e3", "max_jerk: .nan", "joint turn: max_jerk: expected a number, got nan"),
        ("max_position: 1.5", "max_position: -2", "joint turn: min_position: expected less than max_position, -2"),
        ("has_jerk_limits: true", "has_jerk_limits: 1", "joint turn: has_jerk_limits: expected true or false, got 1"),
        ("y_scaling_factor: 0.5", "y_scaling_factor: 2", "velocity_scaling_factor: expected more than 0 and at"),
        ("turn:", "wheel:", "expected limits of turn, spin, slide, got those of gripper, wheel"),
        ("joint_limits:", "limits:", "expected a map joint_limits of joints, got the keys default_velocity_"),
        ("joint_limits:", "joint_limits: 3\nother:", "expected a map joint_limits of joints, got 3"),
        ("!degrees -90", "!degrees x", "expected a YAML file with joint_limits, got"),
        (FILE, "{", "expected a YAML file with joint_limits, got while parsing"),
        (FILE, "joint_limits: {turn: 3}", "joint turn: expected a map such as max_velocity: 1.0, got 3"),
    ],
)
def test_what_is_wrong_is_told_with_file_joint_and_field(old: str, new: str, told: str, tmp_path: Path) -> None:
    assert old in FILE
    text = FILE.replace(old, new).replace("spin:", "pin:") if "wheel" in new else FILE.replace(old, new)
    with pytest.raises(LimitsError) as raised:
        found(text, tmp_path)
    message = str(raised.value)
    assert message.startswith(f"{tmp_path / 'joint_limits.yaml'}: ") and told in message and "\n" not in message


def test_a_missing_or_contradicting_file_is_told_of(tmp_path: Path) -> None:
    for nowhere in ("/nowhere", "~nobody/joint_limits.yaml"):
        with pytest.raises(LimitsError, match=rf"limits\.moveit: .* none or a file, got '{nowhere}': No such"):
            RobotLimits.configured(parameters(limits__moveit=nowhere))
    given = parameters(limits__moveit=str(tmp_path / "a.yaml"), limits__urdf="none")
    for text, told in (
        (
            "min_position: 2.5, max_acceleration: 1e-4",
            r"position_min of turn: expected less than .* \(2\), got 2\.5; limits",
        ),
        ("max_acceleration: 1e-4", "acceleration, .* of turn: .* stop within"),
    ):
        (tmp_path / "a.yaml").write_text(f"joint_limits: {{turn: {{{text}}}}}")
        with pytest.raises(LimitsError, match=rf"a\.yaml and here: limits.{told}"):
            RobotLimits.configured(given).described(URDF, "here")
