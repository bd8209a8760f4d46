"""The interface package defines exactly the messages and services that planners and optimizers rely on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from traj_integrator_ros.kernels.retime import RetimeStatus

_STATUSES = (*(status.name for status in RetimeStatus), "POSITION")
DEFINITIONS = {
    "msg/StartState.msg": [
        ["float32[] position", "float32[] velocity", "float32[] acceleration"],
    ],
    "msg/ActionSequence.msg": [
        [
            "uint8 DEFAULT=0",
            "uint8 POSITION=1",
            "uint8 VELOCITY=2",
            "uint8 ACCELERATION=3",
            "uint8 JERK=4",
            "uint8 BSPLINE=5",
            "std_msgs/Header header",
            "string[] joint_names",
            "uint8 control_space",
            "uint32 batch",
            "uint32 horizon",
            "float32[] dt",
            "StartState start",
            "uint32[] start_index",
            "float32[] data",
            "StartState goal",
            "uint32[] goal_index",
            "uint8 degree",
            "uint8 steps",
        ],
    ],
    "msg/CostTerm.msg": [
        [
            "float32[] weight",
            "float32[] target",
            "float32[] terminal_weight",
            "float32[] limit_weight",
            "float32[] lower",
            "float32[] upper",
        ],
    ],
    "msg/QuadraticCost.msg": [
        [
            "CostTerm position",
            "CostTerm velocity",
            "CostTerm acceleration",
            "CostTerm jerk",
            "float32[] duration_weight",
        ],
    ],
    "msg/TrajectoryBatch.msg": [
        [
            "uint8 ALL=0",
            "uint8 POSITION=1",
            "uint8 VELOCITY=2",
            "uint8 ACCELERATION=4",
            "uint8 JERK=8",
            "std_msgs/Header header",
            "string[] joint_names",
            "uint32 batch",
            "uint32 horizon",
            "float32[] time_from_start",
            "float32[] position",
            "float32[] velocity",
            "float32[] acceleration",
            "float32[] jerk",
        ],
    ],
    "srv/Integrate.srv": [
        ["ActionSequence actions", "uint8 fields", "bool as_published"],
        ["bool success", "string message", "TrajectoryBatch trajectory"],
    ],
    "srv/ComputeGradient.srv": [
        [
            "ActionSequence actions",
            "float32[] grad_position",
            "float32[] grad_velocity",
            "float32[] grad_acceleration",
            "float32[] grad_jerk",
        ],
        [
            "bool success",
            "string message",
            "float32[] grad_action",
            "float32[] grad_start_position",
            "float32[] grad_start_velocity",
            "float32[] grad_start_acceleration",
            "float32[] grad_dt",
            "float32[] grad_goal_position",
            "float32[] grad_goal_velocity",
            "float32[] grad_goal_acceleration",
        ],
    ],
    "srv/Evaluate.srv": [
        [
            "ActionSequence actions",
            "QuadraticCost cost",
            "bool want_grad_action true",
            "bool want_grad_start false",
            "bool want_grad_goal false",
            "bool want_grad_dt false",
            "uint32[] trajectory_rows",
            "uint8 trajectory_fields",
            "bool want_limit_violations false",
            "uint8 violation_fields",
        ],
        [
            "bool success",
            "string message",
            "float32[] cost",
            "float32[] grad_action",
            "float32[] grad_start_position",
            "float32[] grad_start_velocity",
            "float32[] grad_start_acceleration",
            "float32[] grad_goal_position",
            "float32[] grad_goal_velocity",
            "float32[] grad_goal_acceleration",
            "float32[] grad_dt",
            "TrajectoryBatch trajectory",
            "float32[] violation_position",
            "float32[] violation_velocity",
            "float32[] violation_acceleration",
            "float32[] violation_jerk",
        ],
    ],
    "msg/Rejection.msg": [
        ["std_msgs/Header header", "string topic", "uint32 count", "string reason", "string text"],
    ],
    "srv/Stop.srv": [
        ["bool hold"],
        ["bool success", "string message", "float64 duration", "string[] joint_names", "float64[] distance"],
    ],
    "srv/Retime.srv": [
        [
            *(f"uint8 {name}={value}" for value, name in enumerate(_STATUSES)),
            "string[] joint_names",
            "uint32 batch 1",
            "uint32 rows",
            "float64[] position",
            "float64[] dt",
            "float64[] velocity",
            "float64[] acceleration",
            "float64[] velocity_limits",
            "float64[] acceleration_limits",
            "float64[] jerk_limits",
            "float64 max_velocity_scaling_factor",
            "float64 max_acceleration_scaling_factor",
            "float64 duration",
            "float64 min_duration",
            "uint8 order",
        ],
        [
            "bool success",
            "string message",
            "string[] joint_names",
            "uint8[] status",
            "string[] reason",
            "float64[] duration",
            "bool[] unchanged",
            "float64[] ratio",
            "uint32[] points",
            "float64[] time_from_start",
            "float64[] result_position",
            "float64[] result_velocity",
            "float64[] result_acceleration",
            "float64[] row_times",
        ],
    ],
    "srv/Committed.srv": [
        ["builtin_interfaces/Time stamp", "float64 dt", "uint32 rows", "uint32 rows_before"],
        [
            "bool success",
            "string message",
            "builtin_interfaces/Time now",
            "float64 lead",
            "uint32 committed",
            "bool executing",
            "string[] joint_names",
            "float64[] position",
            "float64[] velocity",
            "float64[] commanded_position",
            "float64[] commanded_velocity",
            "float64[] measured_position",
            "float64[] measured_velocity",
        ],
    ],
}


@pytest.fixture
def interfaces(project_root: Path) -> Path:
    """The folder of the interface package."""
    return project_root / "traj_integrator_interfaces"


def without_comments(text: str) -> list[list[str]]:
    """The declarations of a definition, by part (request and response of a service)."""
    parts: list[list[str]] = [[]]
    for line in text.splitlines():
        declaration = line.split("#")[0].strip()
        if declaration == "---":
            parts.append([])
        elif declaration:
            parts[-1].append(declaration)
    return parts


@pytest.mark.parametrize("name", DEFINITIONS)
def test_definition_has_the_specified_fields_in_order(interfaces: Path, name: str) -> None:
    assert without_comments((interfaces / name).read_text()) == DEFINITIONS[name]


def test_there_are_no_other_definitions_and_all_are_built(interfaces: Path) -> None:
    files = {f"{kind}/{path.name}" for kind in ("msg", "srv") for path in (interfaces / kind).iterdir()}
    built = set(re.findall(r'"((?:msg|srv)/\w+\.\w+)"', (interfaces / "CMakeLists.txt").read_text()))
    assert files == built == set(DEFINITIONS)


@pytest.mark.parametrize("name", DEFINITIONS)
def test_every_array_says_its_shape(interfaces: Path, name: str) -> None:
    comment = ""
    previous_was_comment = False
    for line in (interfaces / name).read_text().splitlines():
        if line.startswith("#"):
            comment = comment + line if previous_was_comment else line
        elif "[]" in line:
            assert re.search(r"\[[\w ,]+\]", comment), f"no shape above: {line}"
        previous_was_comment = line.startswith("#") or ("[]" in line and previous_was_comment)


@pytest.mark.ros
@pytest.mark.parametrize("name", DEFINITIONS)
def test_installed_package_is_built_from_these_definitions(name: str) -> None:
    import traj_integrator_interfaces.msg
    import traj_integrator_interfaces.srv

    kind, file = name.split("/")
    type_ = getattr(getattr(traj_integrator_interfaces, kind), file.split(".")[0])
    classes = [type_] if kind == "msg" else [type_.Request, type_.Response]
    for part, class_ in zip(DEFINITIONS[name], classes, strict=True):
        fields = [declaration.split()[1] for declaration in part if "=" not in declaration]
        assert list(class_.get_fields_and_field_types()) == fields
        for declaration in part:
            if "=" in declaration:
                constant, value = declaration.split()[1].split("=")
                assert getattr(class_, constant) == int(value)
