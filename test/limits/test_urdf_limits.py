"""Limits from a URDF, without ROS."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from traj_integrator_ros.limits.found import LimitsError
from traj_integrator_ros.limits.urdf import load_urdf, read_urdf
from traj_integrator_ros.parameters.in_force import RobotLimits
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values

JOINTS = ("turn", "spin", "slide")
URDF = """<?xml version="1.0"?>
<robot name="arm">
  <joint name="finger" type="prismatic"><mimic joint="slide"/><limit lower="0" upper="1" velocity="1"/></joint>
  <joint name="slide" type="prismatic"><limit upper="0.4" effort="1" velocity="0.2"/></joint>
  <joint name="spin" type="continuous"><limit effort="9" velocity="3.5"/></joint>
  <joint name="turn" type="revolute">
    <limit lower="-2" upper="2" effort="9" velocity="1.5"/>
    <safety_controller soft_lower_limit="-1.9" soft_upper_limit="2.5" k_velocity="1"/>
  </joint>
  <joint name="unknown_speed" type="revolute"><limit lower="-1" upper="1" velocity="0"/></joint>
  <joint name="mount" type="fixed"/>
  <ros2_control name="x" type="system"><joint name="turn"/></ros2_control>
</robot>
"""


def parameters(joint_names: tuple[str, ...] = JOINTS, **given: object) -> NodeParameters:
    values = {name.replace("__", "."): value for name, value in given.items()}
    return NodeParameters.from_values({**default_values(), "joint_names": list(joint_names), **values})


def test_joints_that_mimic_or_lack_have_no_limits_and_are_named() -> None:
    found = read_urdf(URDF, ("turn", "finger", "mount", "nowhere", "unknown_speed"), "here")
    assert found.without == ("finger", "mount", "nowhere")
    np.testing.assert_array_equal(found.limits.velocity, [1.5, np.inf, np.inf, np.inf, np.inf])
    limits = RobotLimits(parameters(("turn", "nowhere"))).described(URDF, "here")
    assert limits.origins.endswith("jerk: none (here has none of nowhere)")


def test_limits_of_urdf_1_2_are_read_and_fill_in() -> None:
    newer = URDF.replace('velocity="1.5"', 'velocity="1.5" acceleration="6" deceleration="9" jerk="80"')
    newer = newer.replace('velocity="3.5"', 'velocity="3.5" acceleration="0" jerk="inf"')
    limits = RobotLimits(parameters()).described(newer, "here")
    np.testing.assert_array_equal(limits.parameters.limits_acceleration, [6.0, np.inf, np.inf])
    np.testing.assert_array_equal(limits.parameters.limits_deceleration, [9.0, np.inf, np.inf])
    np.testing.assert_array_equal(limits.parameters.limits_jerk, [80.0, np.inf, np.inf])
    assert limits.origins == "position: here, velocity: here, acceleration: here, deceleration: here, jerk: here"
    given = RobotLimits(parameters(limits__acceleration=[5.0] * 3)).described(newer, "here")
    assert given.parameters.limits_deceleration is None, "an acceleration that is given holds for either sign"
    assert given.origins == "position: here, velocity: here, acceleration: parameters, jerk: here"


def test_a_position_limit_beyond_the_urdfs_other_end_is_refused() -> None:
    told = r"here: limits.position_min of turn: expected less than .* \(-2\), got -1\.9; limits"
    with pytest.raises(LimitsError, match=told):
        RobotLimits(parameters(limits__position_max=[-2.0, 1.0, 1.0])).described(URDF, "here")
    limits = RobotLimits(parameters()).described(URDF, "here")
    with pytest.raises(LimitsError, match=told):  # as ros2 param set does
        dataclasses.replace(limits, given=parameters(limits__position_max=[-2.0, 1.0, 1.0]))


XACRO = 'xmlns:xacro="http://ros.org/wiki/xacro"'
AS_ROS_READS_IT = {
    "as_it_is": URDF,
    "default_namespace": URDF.replace("<robot", '<robot xmlns="http://www.ros.org"'),
    "undeclared_prefix": URDF.replace("</robot>", '<gazebo><sensor:camera a:b="1"/></gazebo></robot>'),
    "blank_line_first": f"\n \t{URDF}",
    "byte_order_mark": f"\ufeff{URDF}",
    "comment_first": f"<!-- licence -->{URDF}",
    "dashes_in_a_comment": URDF.replace("</robot>", "<!-- ---- <joint> -- --></robot>"),
    "bare_ampersand": URDF.replace("</robot>", '<mesh filename="a&b<c"/> & ]]> </robot>'),
    "literal_text": URDF.replace("</robot>", '<![CDATA[<joint name="turn">]]></robot>'),
    "a_doctype": URDF.replace("<robot", "<!DOCTYPE robot><robot"),
    "unknown_encoding": URDF.replace('"1.0"?', '"1.0" encoding="some"?'),
    "what_follows_the_robot": f"{URDF}</robot><x",
    "nul_at_the_end": f"{URDF}\0<",
    "no_space_between_attributes": URDF.replace('" velocity', '"velocity'),
    "control_characters": URDF.replace("</robot>", "<mesh filename='\x01'/></robot>"),
    "number_by_its_code": URDF.replace('"1.5"', '"&#49;.5"'),
    "leftover_macro": URDF.replace("<robot", f"<robot {XACRO}").replace("</robot>", '<xacro:imu tag="x"/></robot>'),
    "leftover_macro_of_a_link": URDF.replace("</robot>", '<link name="a"><xacro:box size="1 2"/></link></robot>'),
    "leftover_property": URDF.replace("</robot>", '<xacro:property name="a" value="$(find b)"/></robot>'),
}


@pytest.mark.parametrize("text", AS_ROS_READS_IT.values(), ids=AS_ROS_READS_IT)
def test_a_urdf_is_read_as_ros_reads_it(text: str) -> None:
    found = read_urdf(text, JOINTS, "here")
    # The tighter of limit and safety_controller; none for a continuous joint; 0 for a missing bound.
    np.testing.assert_array_equal(found.limits.range_of("position"), [[-1.9, -np.inf, 0.0], [2.0, np.inf, 0.4]])
    np.testing.assert_array_equal(found.limits.velocity, [1.5, 3.5, 0.2])
    assert (found.without, found.continuous, found.limits.acceleration) == ((), ("spin",), None)


@pytest.mark.parametrize("declared", ['encoding="ISO-8859-1"', 'encoding="utf-8"', ""])
def test_a_file_in_latin_1_is_read_whatever_it_declares(tmp_path: Path, declared: str) -> None:
    path = tmp_path / "arm.urdf"
    path.write_bytes(f'<?xml version="1.0" {declared}?><!-- 30 ° -->{URDF}'.encode("latin-1"))
    np.testing.assert_array_equal(load_urdf(str(path), JOINTS).limits.velocity, [1.5, 3.5, 0.2])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (URDF[:-10], "got text that is no XML: it ends before </robot>"),
        (URDF[: URDF.index('velocity="1.5')], "got text that is no XML: line 7: '<limit' begins no element"),
        (URDF.replace("</robot>", "</rob>"), "got text that is no XML: line 13: expected </robot>, got </rob>"),
        (URDF.replace('"1.5"', '"1.5" velocity="2"'), "no XML: line 7: velocity is given twice in limit"),
        (URDF.replace('"1.5"', "1.5"), "no XML: line 7: '<limit' begins no element"),
        ("", "got text that is no XML: there is no element in it"),
        (URDF.replace("</robot>", '<xacro:include filename="a"/></robot>'), "got a xacro file; expand it first"),
        (URDF.replace("</robot>", '<xacro:macro name="a"/></robot>'), "got a xacro file; expand it first"),
        (URDF.replace('"1.5"', '"${fast}"'), "got a xacro file; expand it first"),
        (URDF.replace("<limit ", '<xacro:if value="1"/><limit ', 1), "got a xacro file; expand it first"),
        (URDF.replace("<limit ", "<xacro:limits/><limit ", 1), "got a xacro file; expand it first"),
        ("joint_names: [a]", "expected a URDF, got text that is no XML"),
        ("<sdf/>", "expected a URDF with the element robot, got 'sdf'"),
        ('<robot xmlns:xacro="http://x/xacro"><xacro:arm/></robot>', "got a xacro file; expand it first"),
        ("<robot/>", "expected limits of turn, spin, slide, got a URDF with the joints none"),
        (
            '<robot><joint name="turn"/><joint name="spin" type="fixed"/><joint name="far" type="revolute"/></robot>',
            "got a URDF with the joints turn (without type), spin (fixed), far (revolute)",
        ),
        (URDF.replace('"1.5"', '"fast"'), "joint turn: expected a number for velocity in limit, got 'fast'"),
        (URDF.replace('upper="2"', 'upper="-2"'), "joint turn: expected lower below upper in limit, got -2 and -2"),
        (URDF.replace('"1.5"', '"1" jerk="-1"'), "joint turn: expected jerk in limit to be above 0, got -1"),
        (URDF.replace('"1.5"', '"1" deceleration="x"'), "turn: expected a number for deceleration in limit, got 'x'"),
        (URDF.replace('upper="2"', 'upper="nan"'), "joint turn: expected a number for upper in limit, got 'nan'"),
    ],
)
def test_anything_but_a_urdf_of_this_robot_is_reported_in_one_line(text: str, told: str) -> None:
    with pytest.raises(LimitsError, match=r"^here: ") as raised:
        read_urdf(text, JOINTS, "here")
    assert told in str(raised.value) and "\n" not in str(raised.value)


def test_a_file_that_the_parameter_names_is_read_or_told_of(tmp_path: Path) -> None:
    path = tmp_path / "arm.urdf"
    path.write_text(URDF)
    limits = RobotLimits.configured(parameters(limits__urdf=str(path)))
    np.testing.assert_array_equal(limits.parameters.limits_velocity, [1.5, 3.5, 0.2])
    for nothing in ("topic", "none"):
        assert RobotLimits.configured(parameters(limits__urdf=nothing)).parameters.limits_velocity is None
    for nowhere in ("/nowhere", "~nobody/arm.urdf"):
        with pytest.raises(LimitsError, match=rf"limits\.urdf: .* a URDF file, got '{nowhere}': No such"):
            RobotLimits.configured(parameters(limits__urdf=nowhere))


@pytest.mark.parametrize(
    ("file", "robot", "prefix", "same"),
    [
        ("curobo/ur10e.urdf", "ur10e", "", ("position_min", "position_max", "velocity")),
        ("libfranka/fr3.urdf", "fr3", "fp3", ("position_min", "position_max", "velocity")),
        # By the safety controller, its positions are the configuration's, except the last one of joint 4.
        ("moveit_resources/panda.urdf", "franka", "panda", ("position_min",)),
    ],
)
def test_urdfs_of_real_robots_have_the_limits_of_the_configurations(
    shared_data: Callable[[str], Path], project_root: Path, file: str, robot: str, prefix: str, same: tuple[str, ...]
) -> None:
    yaml = pytest.importorskip("yaml")
    text = (project_root / "config" / f"{robot}.yaml").read_text(encoding="utf-8")
    configuration = yaml.safe_load(text)["/**"]["ros__parameters"]
    names = [name.replace(f"{robot}_", f"{prefix}_") if prefix else name for name in configuration["joint_names"]]
    found = load_urdf(str(shared_data(f"limits-urdf/{file}")), names)
    for quantity in same:
        close = {"atol": 1e-9, "rtol": 2e-3 * (quantity == "velocity")}  # a Franka stops at the exact limit
        np.testing.assert_allclose(getattr(found.limits, quantity), configuration["limits"][quantity], **close)
    assert found.without == ()


def test_one_position_limit_in_the_parameters_leaves_the_other_to_the_urdf() -> None:
    given = RobotLimits(parameters(limits__position_max=[1.0, 1.0, 0.1]))
    assert given.origins.startswith("position_min: none, position_max: parameters, velocity: none, ")
    limits = given.described(URDF, "here")
    np.testing.assert_array_equal(limits.parameters.limits_position_min, [-1.9, -np.inf, 0.0])
    np.testing.assert_array_equal(limits.parameters.limits_position_max, [1.0, 1.0, 0.1])
    assert limits.origins.startswith("position_min: here, position_max: parameters, velocity: here, ")
