"""The table of the node's parameters: types, defaults, ranges and descriptions. Knows no ROS."""

# ruff: noqa: RUF009  what is called makes a field

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import Field, dataclass, field, fields, replace
from enum import Enum
from typing import Any

import numpy as np

from ..kernels import ControlSpace

ParameterValue = bool | int | float | str | list[str] | list[float]


class ParameterKind(Enum):
    """Types of parameters; the values are their names in ROS."""

    BOOL = "bool"
    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    STRING_ARRAY = "string_array"
    DOUBLE_ARRAY = "double_array"


class Changeable(Enum):
    """When a parameter can be set."""

    RUN_TIME = "anytime"
    UNCONFIGURED = "before configure"
    """Changes are refused while the node is configured, because configure builds what depends on the parameter."""
    START_UP = "at start-up"
    """Read-only: only a parameter file or the command line can set it."""


@dataclass(frozen=True)
class ParameterSpec:
    """One parameter as it is declared and documented."""

    name: str
    kind: ParameterKind
    default: ParameterValue
    description: str
    unit: str = ""
    range: tuple[float, float] | None = None
    """Smallest and largest value of a number, both included."""
    choices: tuple[str, ...] = ()
    """Values of a text, or of each text in a list."""
    pattern: str = ""
    """Regular expression for strings that are neither free nor one of `choices`."""
    form: str = ""
    """Description of the pattern."""
    changeable: Changeable = Changeable.RUN_TIME
    convert: Callable[[Any], object] = lambda value: value
    """Converts a checked value to the node's form: limits become float64 `[dof]`, or None."""

    @property
    def is_for_all(self) -> bool:
        """Whether one number counts for all joints, alone or as a list: lists whose default is not empty."""
        return self.kind is ParameterKind.DOUBLE_ARRAY and bool(self.default)

    @property
    def constraints(self) -> str:
        """Describe the constraints that the range cannot express."""
        parts = [f"one of {', '.join(self.choices)}"] if self.choices else []
        parts += [f"unit {self.unit}"] if self.unit else []
        return "; ".join([*parts, f"can be set {self.changeable.value}"])


START_FROM_PREVIOUS = "previous"
END_STOP = "stop"
END_GOAL = "goal"
WITHOUT_TIMES_REFUSE = "refuse"
WITHOUT_TIMES_PATH = "path"
WITHOUT_TIMES_CHUNK = "chunk"
ABSOLUTE = "none"
SINCE_OBSERVATION = "observation"
SINCE_STEP = "step"
RELATIVE_TO = ABSOLUTE, SINCE_OBSERVATION, SINCE_STEP
ACTION_REJECT = "reject"
ACTION_RETIME = "retime"
ACTION_WARN = "warn"
ARM = "arm"
GRIPPER = "gripper"
BINARY = "binary"
BASE = "base"
JOINT_KINDS = (ARM, GRIPPER, BINARY, BASE)
"""Values of the parameter joints.kind."""
ON_REJECT_CONTINUE = "continue"
ON_REJECT_BRAKE = "brake"
LONGEST_WAIT_S = 1.0
"""How far ahead of the node's clock a stamp may lie, s: what lies further is the stamp of another clock."""
_MAXIMUM = 1e9
_GROUPS = tuple("joints limits publish position_trajectory supervision constraints diagnostics".split())
"""Groups: a parameter's name begins with the group and a dot, its field with the group and an underscore."""
_KINDS = {bool: ParameterKind.BOOL, int: ParameterKind.INTEGER, float: ParameterKind.DOUBLE, str: ParameterKind.STRING}
_UNTIL_CONFIGURED = {"changeable": Changeable.UNCONFIGURED}


def _value(default: ParameterValue, description: str, within: tuple = (), **more: object) -> Any:
    """Make a row of the table; lists hold strings; a number lies `within` two bounds and may have a unit."""
    kind = _KINDS.get(type(default), ParameterKind.STRING_ARRAY)
    if kind is ParameterKind.STRING_ARRAY:
        more = {"convert": tuple, **more}
    elif within:
        more = {"range": within[:2], "unit": "".join(within[2:]), **more}
    return field(metadata={"spec": ParameterSpec("", kind, default, description, **more)})


def _choice(default: Enum, description: str) -> Any:
    """Make a row for a member of an enumeration, by its value or, if that is a number, its name."""
    members = {one.value if isinstance(one.value, str) else one.name.lower(): one for one in type(default)}
    name = next(name for name, one in members.items() if one is default)
    return _value(name, description, choices=tuple(members), convert=members.__getitem__)


def _limits(description: str, unit: str, *, otherwise: str = "limits.moveit or the URDF") -> Any:
    """Make a row with a number for each joint; `otherwise` is what counts if it is empty."""
    kind, description = ParameterKind.DOUBLE_ARRAY, f"{description}; empty: {otherwise}"
    return field(metadata={"spec": ParameterSpec("", kind, [], description, unit)})


def _each(default: float, description: str, within: tuple) -> Any:
    """Make a row with a number for each joint, or one for all of them, `within` two bounds, with a unit."""
    kind, limits = ParameterKind.DOUBLE_ARRAY, within[:2]
    spec = ParameterSpec("", kind, [default], f"{description}; one for all joints, or one for each", within[2], limits)
    return field(metadata={"spec": spec})


def _shapes(texts: list[str]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(int, text.split("x"))) for text in texts)


@dataclass(frozen=True)
class ParameterTable:
    """All parameters as the node uses them, each with its default and declaration; limits as float64 `[dof]`."""

    joint_names: tuple[str, ...] = _value(
        [], "Joints of the robot in the order of all arrays (required)", **_UNTIL_CONFIGURED
    )
    device: str = _value(
        "auto",
        "Where kernels run: auto (the CPU, the fastest from message to message), cpu, cuda or cuda:N",
        pattern=r"auto|cpu|cuda(:\d+)?",
        form="auto, cpu, cuda or cuda:N",
        **_UNTIL_CONFIGURED,
    )
    control_space: ControlSpace = _choice(ControlSpace.POSITION, "What actions are, if a sequence does not say")
    dt: float = _value(0.02, "Time step, if a sequence gives none", (1e-6, 1e4, "s"))
    relative_to: tuple[str, ...] = _value(
        [],
        "What positions and control points of sequences are relative to, for each joint: none, observation (the joint "
        "state at the stamp) or step (the step before; the first one: observation); empty: none",
        choices=RELATIVE_TO,
    )
    max_batch: int = _value(1024, "Most trajectories in one message", (1, 10_000_000), **_UNTIL_CONFIGURED)
    max_horizon: int = _value(256, "Most actions in a trajectory", (1, 1_000_000), **_UNTIL_CONFIGURED)
    warmup: tuple[tuple[int, int], ...] = _value(
        ["1x32"],
        "Shapes (batch x action horizon, BxH) run once in configure, so that the first message is not slower",
        pattern=r"\d+x\d+",
        form="BxH, such as 64x32",
        convert=_shapes,
        **_UNTIL_CONFIGURED,
    )
    state_timeout: float = _value(0.5, "Oldest joint state to start from; 0 accepts any age", (0.0, _MAXIMUM, "s"))
    speed_scaling_topic: str = _value(
        "",
        "Where a driver publishes its speed scaling (std_msgs/Float64, percent), if controller_state does not say it",
        changeable=Changeable.UNCONFIGURED,
    )
    start_from: str = _value(
        "measured",
        "Start of rows without one: measured (latest joint state) or previous (commanded state, on the schedule of "
        "the stamps)",
        choices=("measured", START_FROM_PREVIOUS),
    )
    joints_kind: tuple[str, ...] = _value(
        [],
        "What each joint is: arm, gripper (meets objects: its tracking error is no fault), binary (its rows are steps, "
        "without limits of rates) or base (supervised apart from the arm); empty: grippers by the URDF and by names, "
        "otherwise arm",
        choices=JOINT_KINDS,
    )
    limits_position_min: np.ndarray | None = _limits("Lowest position of each joint", "rad or m")
    limits_position_max: np.ndarray | None = _limits("Highest position of each joint", "rad or m")
    limits_velocity: np.ndarray | None = _limits("Largest speed of each joint", "rad/s or m/s")
    limits_acceleration: np.ndarray | None = _limits(
        "Largest acceleration of each joint, either sign", "rad/s^2 or m/s^2"
    )
    limits_deceleration: np.ndarray | None = _limits(
        "Largest acceleration of each joint while it slows down",
        "rad/s^2 or m/s^2",
        otherwise="limits.acceleration, if given, else limits.moveit or the URDF",
    )
    limits_jerk: np.ndarray | None = _limits("Largest jerk of each joint, either sign", "rad/s^3 or m/s^3")
    limits_assumed_velocity: float = _value(
        0.0,
        "Limit of velocity assumed for joints without one; 0: without one, nothing is published for a controller",
        (0.0, 1000.0, "rad/s or m/s"),
    )
    limits_continuous: tuple[str, ...] = _value(
        [], "Joints that turn without end, beside those of the URDF: their positions are unwrapped"
    )
    limits_start_deviation: float = _value(
        0.1,
        "Largest distance of any joint from the robot at which a sequence may begin; 0 is off",
        (0.0, _MAXIMUM, "rad or m"),
    )
    limits_urdf: str = _value(
        "topic", "URDF with limits: topic (robot_description), none, or the path of a file", **_UNTIL_CONFIGURED
    )
    limits_moveit: str = _value(
        "none", "Limits that go before the URDF: none, or the path of MoveIt's joint_limits.yaml", **_UNTIL_CONFIGURED
    )
    limits_action: str = _value(
        ACTION_RETIME,
        "What happens to a plan that exceeds a limit: retime (slowed along its path, or rejected if that is "
        "impossible), reject, or warn (published nevertheless)",
        choices=(ACTION_RETIME, ACTION_REJECT, ACTION_WARN),
    )
    publish_end: str = _value(
        END_STOP,
        "End of ~/joint_trajectory: stop (brake if the plan ends in motion) or as_planned",
        choices=(END_STOP, "as_planned"),
    )
    publish_on_reject: str = _value(
        ON_REJECT_CONTINUE,
        "After a rejected sequence: continue the motion in execution to its end and brake, or brake at once",
        choices=(ON_REJECT_CONTINUE, ON_REJECT_BRAKE),
    )
    publish_start_held: bool = _value(
        False,
        "Begin held, as after ~/stop with hold, until ~/stop is called with hold: false; for a node that is "
        "restarted automatically",
        **_UNTIL_CONFIGURED,
    )
    publish_start_moving: bool = _value(
        False,
        "Without a known command: begin also with a robot that moves, where it will be then; for one that something "
        "else moves",
    )
    publish_bridge_time: float = _value(
        0.2,
        "Without a known command: time in which the controller moves to the first point, which is the measured state",
        (0.02, 2.0, "s"),
    )
    position_trajectory_end: str = _value(
        END_GOAL,
        "Last point of a message on ~/position_trajectory: goal (the robot comes to rest there) or stream "
        "(positions of a chunk, which the next message continues)",
        choices=(END_GOAL, "stream"),
    )
    position_trajectory_without_times: str = _value(
        WITHOUT_TIMES_REFUSE,
        "Several points that are all at time 0: refuse, path (passed as fast as limits allow, after a stop) or chunk "
        "(dt apart from the stamp on, like the actions of a sequence)",
        choices=(WITHOUT_TIMES_REFUSE, WITHOUT_TIMES_PATH, WITHOUT_TIMES_CHUNK),
    )
    position_trajectory_max_points: int = _value(
        20_000,
        "Most points in a plan: a message on ~/position_trajectory, an action goal, or a request to ~/retime",
        (1, 1_000_000),
    )
    supervision_deviation: np.ndarray = _each(
        0.05,
        "Largest distance of a joint from its command, lag taken out, less for a range below 1 rad; beyond, the "
        "robot is braked and sequences are rejected until it rests; 0 is off",
        (0.0, _MAXIMUM, "rad or m"),
    )
    publish_lead_time: float = _value(
        0.02,
        "Time from now until a new plan is taken up; longer than the transport to the controller",
        (0.0, LONGEST_WAIT_S, "s"),
    )
    publish_bandwidth: float = _value(
        2.5,
        "Bandwidth with which differences between command and plan go: higher follows plans sooner, lower is smoother",
        (0.1, 50.0, "Hz"),
    )
    publish_lead_in: bool = _value(
        True,
        "Trajectories begin with the present motion: for controllers that replace at once "
        "(allow_trajectory_replacement: false); otherwise in the future, for controllers that blend",
    )
    constraints_goal_time: float = _value(
        0.0,
        "Time after an action goal's trajectory in which the robot must reach the goal; 0: no limit",
        (0.0, _MAXIMUM, "s"),
    )
    constraints_stopped_velocity_tolerance: float = _value(
        0.01, "Largest velocity of a joint at an action goal; 0: any", (0.0, _MAXIMUM, "rad/s or m/s")
    )
    diagnostics_period: float = _value(1.0, "Time between messages on /diagnostics", (0.01, 3600.0, "s"))
    autostart: bool = _value(True, "Configure and activate at start-up", changeable=Changeable.START_UP)


def _named(field_: Field) -> ParameterSpec:
    group = next((group for group in _GROUPS if field_.name.startswith(f"{group}_")), None)
    name = field_.name if group is None else f"{group}.{field_.name.removeprefix(f'{group}_')}"
    return replace(field_.metadata["spec"], name=name)


PARAMETERS = tuple(_named(field_) for field_ in fields(ParameterTable))
SPECS: Mapping[str, ParameterSpec] = {spec.name: spec for spec in PARAMETERS}
CONSTRAINTS = "constraints."
"""Prefix of the parameters of `of_joints`; joint_trajectory_controller uses the same names."""
_OF_JOINT = {
    "trajectory": "Largest distance of the joint from where it is commanded to be, while an action goal is executed",
    "goal": "Largest distance of the joint from an action goal that it has reached",
}


def of_joints(kind: str, joint_names: Sequence[str]) -> list[ParameterSpec]:
    """Return a parameter for each joint; `kind` is "trajectory" or "goal"."""
    within = (0.0, _MAXIMUM)
    description = f"{_OF_JOINT[kind]}; 0: any"
    return [
        ParameterSpec(
            f"{CONSTRAINTS}{name}.{kind}", ParameterKind.DOUBLE, 0.0, description, unit="rad or m", range=within
        )
        for name in joint_names
    ]
