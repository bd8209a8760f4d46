"""Parameters: the table, the configuration files and the running node agree; changes are checked and atomic."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import yaml
from node_fixtures import NodeServer, table
from rcl_interfaces.msg import ParameterType
from rclpy.parameter import Parameter
from ros_client import RosClient

from traj_integrator_ros.client import sequence
from traj_integrator_ros.limits.parameter_files import dotted
from traj_integrator_ros.parameters.parameters import InvalidParameters, NodeParameters, check_value, default_values
from traj_integrator_ros.parameters.table import PARAMETERS, SPECS, Changeable, ParameterKind, ParameterSpec

ROBOTS = sorted(path.stem for path in (Path(__file__).parents[2] / "config").glob("*.yaml"))
COMPLETE = "franka"
"""The configuration that lists every parameter; the others contain only what belongs to their robot."""
ROBOT_SPECIFIC = re.compile(r"joint_names|limits\.(position_min|position_max|velocity|acceleration|jerk)")
KINDS = {kind: getattr(ParameterType, f"PARAMETER_{kind.name}") for kind in ParameterKind}


def configuration(project_root: Path, robot: str) -> dict[str, object]:
    content = yaml.safe_load((project_root / "config" / f"{robot}.yaml").read_text(encoding="utf-8"))
    assert list(content) == ["/**"], "the wildcard works in any namespace"
    return dotted(content["/**"]["ros__parameters"])


def test_a_configuration_lists_every_parameter_with_its_default(project_root: Path) -> None:
    values = configuration(project_root, COMPLETE)
    assert sorted(values) == sorted(SPECS)
    for name, value in values.items():
        if not ROBOT_SPECIFIC.fullmatch(name):
            assert value == SPECS[name].default, name
            assert type(value) is type(SPECS[name].default), name


@pytest.mark.parametrize("robot", [robot for robot in ROBOTS if robot != COMPLETE])
def test_the_other_configurations_have_what_belongs_to_the_robot(project_root: Path, robot: str) -> None:
    assert all(ROBOT_SPECIFIC.fullmatch(name) for name in configuration(project_root, robot))


@pytest.mark.parametrize("robot", ROBOTS)
def test_a_configuration_is_valid_with_limits_in_joint_order(project_root: Path, robot: str) -> None:
    parameters = NodeParameters.from_values({**default_values(), **configuration(project_root, robot)})
    for limit in (parameters.limits_position_min, parameters.limits_position_max, parameters.limits_velocity):
        assert len(limit) == len(parameters.joint_names)


@pytest.mark.parametrize("spec", PARAMETERS, ids=lambda spec: spec.name)
def test_every_default_is_valid_and_described(spec: ParameterSpec) -> None:
    check_value(spec, spec.default)
    assert spec.description and not spec.description.endswith(".")
    assert spec.kind is not ParameterKind.DOUBLE or spec.unit
    assert bool(spec.form) == bool(spec.pattern), "a pattern is for programs, its form for people"


@pytest.mark.parametrize("spec", PARAMETERS, ids=lambda spec: spec.name)
def test_a_value_of_another_type_is_named(spec: ParameterSpec) -> None:
    of_another = [None, {}, [None], [[1.0]], 2.5 if spec.kind is ParameterKind.INTEGER else b"x"]
    others = ("fast", True) if spec.is_for_all else ("fast", True, 2.5)
    of_another += [value for value in others if not isinstance(value, type(spec.default))]
    for value in of_another:
        with pytest.raises(InvalidParameters, match=re.escape(f", got {value!r}")) as raised:
            NodeParameters.from_values({**default_values(), "joint_names": ["a", "b"], spec.name: value})
        assert str(raised.value).startswith(f"{spec.name}: expected ")


WRONG = {
    "dt zero": ({"dt": 0.0}, "dt"),
    "dt NaN": ({"dt": float("nan")}, "dt"),
    "device": ({"device": "cuda:x"}, "device"),
    "warmup text": ({"warmup": ["1 by 4"]}, "warmup"),
    "warmup zero": ({"warmup": ["0x4"]}, "warmup"),
    "warmup too large": ({"warmup": ["1x4", "2000x4"]}, "warmup"),
    "no joints": ({"joint_names": []}, "joint_names"),
    "empty joint": ({"joint_names": ["a", ""]}, "joint_names"),
    "duplicate joint": ({"joint_names": ["a", "a"]}, "joint_names"),
    "limit length": ({"limits.jerk": [1.0]}, "limits.jerk"),
    "limit NaN": ({"limits.velocity": [1.0, float("nan")]}, "limits.velocity"),
    "limit zero": ({"limits.acceleration": [1.0, 0.0]}, "limits.acceleration"),
    "limits crossed": (
        {"limits.position_min": [0.0, 1.0], "limits.position_max": [1.0, 1.0]}, "limits.position_min of b",
    ),
    "brake impossible": (
        {"limits.velocity": [1.0, 1.0], "limits.jerk": [9.0, 1e-6]}, "limits.acceleration, limits.jerk of b",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "named"), list(WRONG.values()), ids=list(WRONG))
def test_wrong_values_are_named(changes: dict[str, object], named: str) -> None:
    with pytest.raises(InvalidParameters, match=f"^{re.escape(named)}: expected .* got "):
        NodeParameters.from_values({**default_values(), "joint_names": ["a", "b"], **changes})


def test_infinite_limits_are_no_limits_and_one_side_may_be_off() -> None:
    values = {**default_values(), "joint_names": ["a"], "limits.position_max": [float("inf")]}
    assert NodeParameters.from_values(values).limits_position_min is None


@pytest.mark.ros
def test_every_parameter_is_declared_with_type_range_and_description(client: RosClient) -> None:
    assert set(SPECS) <= set(client.parameter_names())
    for name, descriptor in client.descriptors(list(SPECS)).items():
        spec = SPECS[name]
        assert descriptor.type == KINDS[spec.kind], name
        assert descriptor.description == spec.description
        assert descriptor.read_only == (spec.changeable is Changeable.START_UP), name
        assert spec.changeable.value in descriptor.additional_constraints
        ranges = [*descriptor.floating_point_range, *descriptor.integer_range]
        assert [(r.from_value, r.to_value) for r in ranges] == ([spec.range] if spec.range else []), name


def another(spec: ParameterSpec, value: object) -> object:
    """A different value of the same parameter."""
    return {
        ParameterKind.BOOL: lambda: not value,
        ParameterKind.INTEGER: lambda: value + 1,
        ParameterKind.DOUBLE: lambda: 2 * value or 0.1,
        ParameterKind.STRING: lambda: next(choice for choice in spec.choices if choice != value),
        ParameterKind.STRING_ARRAY: lambda: [spec.choices[-1]] * 3 if spec.choices else ["joint_a"],
        ParameterKind.DOUBLE_ARRAY: lambda: [1.0] * 3,
    }[spec.kind]()


@pytest.mark.ros
def test_what_can_change_at_run_time_does_and_the_rest_refuses(client: RosClient) -> None:
    for name, spec in SPECS.items():
        before = client.parameter(name)
        if spec.changeable is not Changeable.RUN_TIME:
            text = spec.kind is ParameterKind.STRING and not spec.choices
            other = f"{before}x" if text else another(spec, before)
            typed = Parameter(name, Parameter.Type(KINDS[spec.kind]), other)
            [(successful, reason)] = client.set_parameters(**{name: typed})
            assert not successful and name in reason
            assert "deactivate and clean up" in reason or "read-only" in reason
            continue
        for value in (another(spec, before), before):
            typed = Parameter(name, Parameter.Type(KINDS[spec.kind]), value)
            assert client.set_parameters(**{name: typed}) == [(True, "")], name
            assert client.parameter(name) == value


@pytest.mark.ros
@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("dt", 0.0, "out of range"),
        ("dt", -1, "out of range"),
        ("dt", "fast", "Wrong parameter type"),
        ("control_space", "torque", "control_space: expected one of position"),
        ("limits.velocity", [1.0], "limits.velocity: expected 0 or 3 values"),
        ("supervision.deviation", [0.1, 0.2], "supervision.deviation: expected 1 value, or 3, one for each"),
        ("supervision.deviation", [0.1, 0.2, -1.0], "supervision.deviation: expected 0 to 1e+09 rad or m, got -1.0"),
        ("joints.kind", ["arm", "hand", "arm"], "joints.kind: expected one of arm, gripper, binary, base, got 'hand'"),
        ("joint_names", ["a"], "deactivate and clean up"),
        ("publish.lead_time", 2.0, "out of range"),
    ],
)
def test_a_wrong_change_is_refused_and_leaves_everything_as_it_was(
    client: RosClient, name: str, value: object, said: str
) -> None:
    before = client.parameter(name)
    [(successful, reason)] = client.set_parameters(**{name: value})
    assert not successful and said in reason
    assert client.parameter(name) == before


@pytest.mark.ros
def test_changes_together_take_effect_together_or_not_at_all(client: RosClient) -> None:
    successful, reason = client.set_atomically(
        limits__position_min=[-1.0] * 3, limits__position_max=[1.0, 1.0, -2.0], dt=0.5
    )
    assert not successful and "limits.position_min of joint_c" in reason
    assert client.parameter("dt") == 0.02 and client.parameter("limits.position_min") == []
    assert client.set_atomically(dt=0.5, control_space="velocity") == (True, "")
    batch = client.integrate(sequence(np.ones((1, 3, 3)))).trajectory
    assert np.allclose(table(batch.position, 1, 3)[0, :, 0], [0.0, 0.5, 1.0])
    assert client.set_atomically(dt=0.02, control_space="position") == (True, "")


@pytest.mark.ros
def test_a_file_that_is_loaded_again_repeats_what_takes_effect_in_configure(client: RosClient) -> None:
    same = client.parameter("max_batch")
    assert client.set_atomically(max_batch=same, dt=0.5) == (True, "")
    assert client.set_atomically(max_batch=same, dt=0.02) == (True, "")


@pytest.mark.ros
def test_numbers_written_without_a_point_are_taken_for_what_they_are(client: RosClient) -> None:
    assert client.set_parameters(state_timeout=1, limits__jerk=[1, 2, 3]) == [(True, "")] * 2
    assert client.parameter("state_timeout") == 1.0 and client.parameter("limits.jerk") == [1.0, 2.0, 3.0]
    assert client.set_parameters(supervision__deviation=1) == [(True, "")]
    assert client.parameter("supervision.deviation") == [1.0], "one number for all joints"
    assert client.set_parameters(supervision__deviation=[0.1, 0.2, 0.0]) == [(True, "")]
    # `ros2 param set limits.jerk "[]"` sends this: a list of nothing, of the wrong type.
    nothing = Parameter("limits.jerk", Parameter.Type.BOOL_ARRAY, [])
    assert client.set_parameters(state_timeout=0, limits__jerk=nothing) == [(True, "")] * 2
    assert client.parameter("limits.jerk") == []


@pytest.mark.ros
def test_joints_have_tolerances_as_the_controller_names_them(
    serve: NodeServer,
) -> None:
    given = {"constraints.joint_a.goal": 1, "constraints.elbow.goal": 0.1, "constraints.joint_b.trajectory": 0.2}
    given |= {"dt": 1, "limits.velocity": [2, 2, 2], "limits.jerk": []}
    process, client = serve(given, ["-r", "__ns:=/whole"], connect_to="/whole/traj_integrator")
    names = [f"constraints.{joint}.{kind}" for joint in ("joint_a", "joint_b") for kind in ("trajectory", "goal")]
    assert list(client.parameters(names).values()) == [0.0, 1.0, 0.2, 0.0], "an integer is a number"
    plain = client.parameters(["dt", "limits.velocity", "limits.jerk"])
    assert plain == {"dt": 1.0, "limits.velocity": [2.0] * 3, "limits.jerk": []} and isinstance(plain["dt"], float)
    process.wait_for_output("parameter 'constraints.elbow.goal' was given but does not exist")
    assert process.output.count("does not exist") == 1
    assert client.set_parameters(constraints__joint_b__goal=0.3) == [(True, "")]
    [(changed, reason)] = client.set_parameters(constraints__joint_b__goal=-1.0)
    assert not changed and "constraints.joint_b.goal" in reason
    # Other joints have other parameters.
    assert client.change_state("deactivate") and client.change_state("cleanup")
    assert client.set_parameters(joint_names=["joint_a", "elbow"], limits__velocity=[2.0] * 2) == [(True, "")] * 2
    assert client.change_state("configure")
    assert client.parameter("constraints.elbow.goal") == 0.1
    assert "constraints.joint_b.goal" not in client.parameter_names()
