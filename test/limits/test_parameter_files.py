"""Parameter files are read as ROS reads them, for any node; and limits that a source gives twice."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from traj_integrator_ros.limits.found import LimitsError
from traj_integrator_ros.limits.moveit import load_moveit
from traj_integrator_ros.limits.parameter_files import nodes_with
from traj_integrator_ros.limits.urdf import load_urdf
from traj_integrator_ros.tools.robot import load_robot

yaml = pytest.importorskip("yaml")
A, B = {"ros__parameters": {"a": 1}}, {"ros__parameters": {"b": {"c": 2}}}
AS_ROS_READS_IT = {
    # sections of a file, and the parameters of nodes with a or b.c, wanted of nodes named mine
    "its own": ({"mine": A}, {"/mine": {"a": 1}}),
    "a namespace in the name": ({"/arm/mine": A}, {"/arm/mine": {"a": 1}}),
    "nested namespaces": ({"/cell": {"arm/mine": B}}, {"/cell/arm/mine": {"b.c": 2}}),
    "every node of a namespace": ({"/arm/**": A}, {"/arm/mine": {"a": 1}}),
    "a node of another name": ({"other": A}, {"/other": {"a": 1}}),
    "another node first": ({"other": A, "mine": B}, {"/mine": {"b.c": 2}}),
    "sections that are merged": ({"/**": A, "/arm/mine": B}, {"/arm/mine": {"a": 1, "b.c": 2}}),
    "two nodes": ({"/left/mine": A, "/right/mine": B}, {"/left/mine": {"a": 1}, "/right/mine": {"b.c": 2}}),
    **{str(content): (content, {}) for content in (None, 3, [], {}, {"ros__parameters": 3}, {"a": {"b": 1}})},
}


@pytest.mark.parametrize(("content", "nodes"), AS_ROS_READS_IT.values(), ids=AS_ROS_READS_IT)
def test_sections_are_those_of_the_nodes_that_ros_gives_them(content: object, nodes: dict[str, object]) -> None:
    assert nodes_with(content, "mine", lambda name: name in ("a", "b.c")) == nodes


def test_the_tools_take_the_parameters_of_the_node_as_it_does(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own, names = "limits: {velocity: [1.0, 2.0]}", "joint_names: [a, b]"
    for text in (
        f"arm: {{traj_integrator: {{ros__parameters: {{{own}, {names}}}}}}}",
        f"/**: {{ros__parameters: {{{names}}}}}\n/traj_integrator: {{ros__parameters: {{{own}}}}}",
        f"/**: {{ros__parameters: {{{names}, limits.velocity: [9.0, 9.0]}}}}\nmine: {{ros__parameters: {{{own}}}}}",
    ):
        (tmp_path / "a.yaml").write_text(text)
        limits = load_robot(tmp_path / "a.yaml", None).limits
        assert limits.joint_names == ("a", "b")
        np.testing.assert_array_equal(limits.velocity, [9, 9] if "mine" in text else [1, 2])
    assert capsys.readouterr().err == ""
    (tmp_path / "a.yaml").write_text("".join(f"{one}: {{ros__parameters: {{{own}, {names}}}}}\n" for one in "cd"))
    assert load_robot(tmp_path / "a.yaml", None).limits is not None
    assert "parameters of /c taken, left out: /d" in capsys.readouterr().err


def test_the_tools_read_numbers_as_rcl_does_and_tell_of_names_the_node_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = "limits.velocity: [1e3, 2.5E+0], limits.velocty: [1], use_sim_time: true, constraints.a.goal: 0.1"
    (tmp_path / "a.yaml").write_text(f"/**: {{ros__parameters: {{joint_names: [a, b], {names}}}}}")
    np.testing.assert_array_equal(load_robot(tmp_path / "a.yaml", None).limits.velocity, [1000, 2.5])
    assert capsys.readouterr().err.endswith("a.yaml: left out, since the node has no such parameters: limits.velocty\n")


JOINT = '<joint name="a" type="revolute">%s</joint>'
LIMIT = '<limit lower="-1" upper="1" velocity="{}"/>'
URDF = f'<robot name="r">{JOINT % LIMIT.format(5)}</robot>'
SOFT = '<safety_controller soft_lower_limit="-0.5" soft_upper_limit="0.5"/>'
TWICE = {
    # file, its content, and what is told about it; the correct value of a is 5
    "joint of a URDF": ("a.urdf", URDF.replace("</robot>", f"{JOINT % LIMIT.format(1)}</robot>"), "every joint once"),
    "limit of a joint": ("a.urdf", URDF.replace("<limit", f"{LIMIT.format(9)}<limit"), "one element limit, got 2"),
    "soft limits out of reach": (
        "a.urdf", URDF.replace("<limit", f"{SOFT.replace('0.5', '99')}<limit").replace('"-99"', '"98"'), "leaves a part"
    ),
    "soft limit": ("a.urdf", URDF.replace("<limit", f"{SOFT * 2}<limit"), "one element safety_controller, got 2"),
    "joint of MoveIt": ("a.yaml", "joint_limits:\n  a: {max_velocity: 5}\n  a: {max_velocity: 9}", "again in line 3"),
    "limit of MoveIt": ("a.yaml", "joint_limits:\n  a: {max_velocity: 5, max_velocity: 9}", "max_velocity twice"),
    "all joints of MoveIt": (
        "a.yaml", "joint_limits: {a: {max_velocity: 5}}\njoint_limits: {a: {max_velocity: 9}}", "in line 2"
    ),
}  # fmt: skip


@pytest.mark.parametrize(("name", "text", "told"), TWICE.values(), ids=TWICE)
def test_a_limit_that_one_source_gives_twice_is_refused(name: str, text: str, told: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(LimitsError) as refused:
        load_urdf(str(tmp_path / name), "a") if "urdf" in name else load_moveit(str(tmp_path / name), "a")
    assert told in str(refused.value) and str(refused.value).startswith(f"{tmp_path / name}: ")


@pytest.mark.parametrize(
    "text", [URDF, "joint_limits:\n  a: {max_velocity: 5, max_velocity: 5}\n  a: {max_jerk: 1}",
             "joint_limits: {b: &b {max_velocity: 9, max_jerk: 1}, a: {<<: *b, max_velocity: 5}}"],
)  # fmt: skip
def test_the_same_value_again_and_another_limit_are_no_contradiction(text: str, tmp_path: Path) -> None:
    (tmp_path / "a").write_text(text)
    path = str(tmp_path / "a")
    found = load_urdf(path, "a") if text == URDF else load_moveit(path, "a")
    assert found.limits.velocity == 5 and (text == URDF or found.limits.jerk == 1)
