"""The node's parameters: one table of them, and the checked configuration they make. Knows no ROS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..kernels import AccelerationIntegrator, BsplineLayout, ControlSpace, FiniteDifference
from .ending import LONGEST_BRAKE_S, Braking, brake_durations

ParameterValue = bool | int | float | str | list[str] | list[float]


class ParameterKind(Enum):
    """Type of a parameter; the values are the names ROS has for them."""

    BOOL = "bool"
    INTEGER = "integer"
    DOUBLE = "double"
    STRING = "string"
    STRING_ARRAY = "string_array"
    DOUBLE_ARRAY = "double_array"


class Changeable(Enum):
    """When a parameter can be set."""

    RUN_TIME = "at run time"
    UNCONFIGURED = "before configure"
    """Refused while the node is configured: what depends on it is built in configure."""
    START_UP = "at start-up"
    """Read-only: only by a parameter file or the command line."""


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
    pattern: str = ""
    """What a string must match where it is neither free nor one of `choices`."""
    changeable: Changeable = Changeable.RUN_TIME

    @property
    def constraints(self) -> str:
        """What the range cannot say, in words."""
        parts = [f"one of {', '.join(self.choices)}"] if self.choices else []
        parts += [f"unit {self.unit}"] if self.unit else []
        return "; ".join([*parts, f"can be set {self.changeable.value}"])


START_FROM_PREVIOUS = "previous"
END_STOP = "stop"
ENSEMBLE_WEIGHTED = "weighted"
HEAVIEST_NEWEST = "newest"
ACTION_REJECT = "reject"
_MAXIMUM = 1e9

PARAMETERS: tuple[ParameterSpec, ...] = (
    ParameterSpec(
        "joint_names",
        ParameterKind.STRING_ARRAY,
        [],
        "Joints of the robot in the order of all arrays (required)",
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "device",
        ParameterKind.STRING,
        "auto",
        "Where kernels run: auto (CUDA where there is one), cpu, cuda or cuda:N",
        pattern=r"auto|cpu|cuda(:\d+)?",
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "dtype",
        ParameterKind.STRING,
        "float32",
        "Floating-point type the kernels compute in",
        choices=("float32", "float64"),
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "control_space",
        ParameterKind.STRING,
        "position",
        "What actions are where a sequence does not say",
        choices=tuple(space.name.lower() for space in ControlSpace),
    ),
    ParameterSpec(
        "dt",
        ParameterKind.DOUBLE,
        0.02,
        "Time step where a sequence brings none",
        unit="s",
        range=(1e-6, 1e4),
    ),
    ParameterSpec(
        "finite_difference",
        ParameterKind.STRING,
        "backward",
        "How positions become velocity, acceleration and jerk; central has 4 more points than actions",
        choices=tuple(scheme.value for scheme in FiniteDifference),
    ),
    ParameterSpec(
        "acceleration_integrator",
        ParameterKind.STRING,
        "zoh",
        "How accelerations become velocity and position: zoh is exact for accelerations held over a step",
        choices=tuple(scheme.value for scheme in AccelerationIntegrator),
    ),
    ParameterSpec(
        "bspline.degree",
        ParameterKind.INTEGER,
        3,
        "Degree of B-splines where a sequence does not say",
        range=(3, 5),
    ),
    ParameterSpec(
        "bspline.steps",
        ParameterKind.INTEGER,
        4,
        "Rows in each segment of a B-spline where a sequence does not say",
        range=(1, 255),
    ),
    ParameterSpec(
        "bspline.layout",
        ParameterKind.STRING,
        "tight",
        "How start and goal meet the control points: tight (both exact, no dead time) or curobo (as there)",
        choices=tuple(layout.value for layout in BsplineLayout),
    ),
    ParameterSpec(
        "max_batch",
        ParameterKind.INTEGER,
        1024,
        "Most trajectories accepted in one message",
        range=(1, 10_000_000),
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "max_horizon",
        ParameterKind.INTEGER,
        256,
        "Most actions accepted in one trajectory, and most points in a position trajectory",
        range=(1, 1_000_000),
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "warmup",
        ParameterKind.STRING_ARRAY,
        ["1x32"],
        "Shapes (batch x action horizon, as BxH) run once in configure, so that the first message is not slower",
        pattern=r"\d+x\d+",
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "state_timeout",
        ParameterKind.DOUBLE,
        0.5,
        "Oldest joint state to start from; 0 accepts any age",
        unit="s",
        range=(0.0, _MAXIMUM),
    ),
    ParameterSpec(
        "start_from",
        ParameterKind.STRING,
        "measured",
        "What trajectories go on from: measured (the latest joint state), or previous (the last published motion, on "
        "a schedule; measured once it has ended)",
        choices=("measured", START_FROM_PREVIOUS),
    ),
    ParameterSpec(
        "limits.position_min",
        ParameterKind.DOUBLE_ARRAY,
        [],
        "Lowest position of each joint; empty is off",
        unit="rad or m",
    ),
    ParameterSpec(
        "limits.position_max",
        ParameterKind.DOUBLE_ARRAY,
        [],
        "Highest position of each joint; empty is off",
        unit="rad or m",
    ),
    ParameterSpec(
        "limits.velocity",
        ParameterKind.DOUBLE_ARRAY,
        [],
        "Largest speed of each joint; empty is off",
        unit="rad/s or m/s",
    ),
    ParameterSpec(
        "limits.acceleration",
        ParameterKind.DOUBLE_ARRAY,
        [],
        "Largest acceleration of each joint, either sign; empty is off",
        unit="rad/s^2 or m/s^2",
    ),
    ParameterSpec(
        "limits.jerk",
        ParameterKind.DOUBLE_ARRAY,
        [],
        "Largest jerk of each joint, either sign; empty is off",
        unit="rad/s^3 or m/s^3",
    ),
    ParameterSpec(
        "limits.start_deviation",
        ParameterKind.DOUBLE,
        0.1,
        "Largest distance of any joint between the start of a published trajectory and the measured state; 0 is off",
        unit="rad or m",
        range=(0.0, _MAXIMUM),
    ),
    ParameterSpec(
        "limits.urdf",
        ParameterKind.STRING,
        "topic",
        "Where limits of position and velocity come from that are not given here: topic (the URDF on "
        "robot_description), none, or the path of a URDF file",
        changeable=Changeable.UNCONFIGURED,
    ),
    ParameterSpec(
        "limits.action",
        ParameterKind.STRING,
        ACTION_REJECT,
        "What a violated limit leads to: reject, or warn (published all the same)",
        choices=(ACTION_REJECT, "warn"),
    ),
    ParameterSpec(
        "publish.row",
        ParameterKind.INTEGER,
        0,
        "Trajectory of a batch that is published on ~/joint_trajectory",
        range=(0, 10_000_000),
    ),
    ParameterSpec(
        "publish.joint_trajectory",
        ParameterKind.BOOL,
        True,
        "Publish one trajectory of each sequence on ~/joint_trajectory",
    ),
    ParameterSpec(
        "publish.trajectory_batch",
        ParameterKind.BOOL,
        True,
        "Publish all trajectories of each sequence on ~/trajectory_batch while it has subscribers",
    ),
    ParameterSpec(
        "publish.end",
        ParameterKind.STRING,
        END_STOP,
        "End of ~/joint_trajectory: stop (a brake follows where the plan ends in motion) or as_planned",
        choices=(END_STOP, "as_planned"),
    ),
    ParameterSpec(
        "publish.rest_tolerance",
        ParameterKind.DOUBLE,
        0.01,
        "End velocity up to which a plan counts as ending at rest: it is taken away instead of braked",
        unit="rad/s or m/s",
        range=(0.0, _MAXIMUM),
    ),
    ParameterSpec(
        "publish.brake_time",
        ParameterKind.DOUBLE,
        0.25,
        "Duration of a brake of joints without limits.jerk (limits.acceleration may prolong it)",
        unit="s",
        range=(1e-3, 30.0),
    ),
    ParameterSpec(
        "publish.lead_time",
        ParameterKind.DOUBLE,
        0.02,
        "With start_from = previous: how far ahead trajectories start, so that the way to the controller does not "
        "count; 0: on arrival",
        unit="s",
        range=(0.0, 10.0),
    ),
    ParameterSpec(
        "publish.fade_time",
        ParameterKind.DOUBLE,
        0.2,
        "With start_from = previous: time in which the difference between the motion before and a new plan fades; "
        "0: it is not carried over",
        unit="s",
        range=(0.0, 30.0),
    ),
    ParameterSpec(
        "publish.lead_in",
        ParameterKind.BOOL,
        True,
        "With start_from = previous: trajectories begin with what the robot does until they take over, so that the "
        "controller joins nothing by itself; right where it replaces at once (allow_trajectory_replacement: false)",
    ),
    ParameterSpec(
        "publish.longest_wait",
        ParameterKind.DOUBLE,
        1.0,
        "With start_from = previous: furthest that the stamp of a sequence may lie ahead",
        unit="s",
        range=(0.0, 3600.0),
    ),
    ParameterSpec(
        "chunks.ensemble",
        ParameterKind.STRING,
        "latest",
        "With start_from = previous: which of the stamped position sequences that cover a time count: latest, or "
        "weighted (the average of them all, as in ACT's temporal ensembling)",
        choices=("latest", ENSEMBLE_WEIGHTED),
    ),
    ParameterSpec(
        "chunks.decay",
        ParameterKind.DOUBLE,
        0.01,
        "With chunks.ensemble = weighted: m of the weights exp(-m i) of the chunks that cover a time; 0: all the same",
        unit="per chunk",
        range=(0.0, 1000.0),
    ),
    ParameterSpec(
        "chunks.heaviest",
        ParameterKind.STRING,
        "oldest",
        "With chunks.ensemble = weighted: the chunk that i counts from, by stamp: oldest (as in ACT) or newest",
        choices=("oldest", HEAVIEST_NEWEST),
    ),
    ParameterSpec(
        "diagnostics.period",
        ParameterKind.DOUBLE,
        1.0,
        "Time between two messages on /diagnostics",
        unit="s",
        range=(0.01, 3600.0),
    ),
    ParameterSpec(
        "service_introspection",
        ParameterKind.STRING,
        "disabled",
        "What ros2 service echo gets to see of ~/integrate, ~/compute_gradient and ~/evaluate",
        choices=("disabled", "metadata", "contents"),
    ),
    ParameterSpec(
        "autostart",
        ParameterKind.BOOL,
        True,
        "Configure and activate at start-up without being told",
        changeable=Changeable.START_UP,
    ),
)

SPECS: Mapping[str, ParameterSpec] = {spec.name: spec for spec in PARAMETERS}


class InvalidParameters(ValueError):
    """Parameter values that are wrong, or do not fit together; the message names them."""


@dataclass(frozen=True)
class NodeParameters:
    """All parameters, checked; limits as float64 arrays `[dof]`, None if off."""

    joint_names: tuple[str, ...]
    device: str
    dtype: str
    control_space: ControlSpace
    dt: float
    finite_difference: FiniteDifference
    acceleration_integrator: AccelerationIntegrator
    bspline_degree: int
    bspline_steps: int
    bspline_layout: BsplineLayout
    max_batch: int
    max_horizon: int
    warmup: tuple[tuple[int, int], ...]
    state_timeout: float
    start_from: str
    limits_position_min: np.ndarray | None
    limits_position_max: np.ndarray | None
    limits_velocity: np.ndarray | None
    limits_acceleration: np.ndarray | None
    limits_jerk: np.ndarray | None
    limits_start_deviation: float
    limits_urdf: str
    limits_action: str
    publish_row: int
    publish_joint_trajectory: bool
    publish_trajectory_batch: bool
    publish_end: str
    publish_rest_tolerance: float
    publish_brake_time: float
    publish_lead_time: float
    publish_fade_time: float
    publish_lead_in: bool
    publish_longest_wait: float
    chunks_ensemble: str
    chunks_decay: float
    chunks_heaviest: str
    diagnostics_period: float
    service_introspection: str
    autostart: bool

    @property
    def braking(self) -> Braking:
        """How motions are brought to rest."""
        return Braking(
            self.joint_names,
            self.publish_rest_tolerance,
            self.publish_brake_time,
            self.limits_acceleration,
            self.limits_jerk,
        )

    @staticmethod
    def from_values(values: Mapping[str, ParameterValue]) -> NodeParameters:
        """Check a value for every parameter of the table, alone and together.

        Raises:
            InvalidParameters: names the parameter, what was expected and what was given.

        """
        for spec in PARAMETERS:
            check_value(spec, values[spec.name])
        names = _checked_joint_names(values["joint_names"])
        converted: dict[str, object] = {name.replace(".", "_"): value for name, value in values.items()}
        converted["joint_names"] = names
        converted["control_space"] = ControlSpace[str(values["control_space"]).upper()]
        converted["finite_difference"] = FiniteDifference(values["finite_difference"])
        converted["acceleration_integrator"] = AccelerationIntegrator(values["acceleration_integrator"])
        converted["bspline_layout"] = BsplineLayout(values["bspline.layout"])
        for quantity in ("position_min", "position_max", "velocity", "acceleration", "jerk"):
            limit = _checked_limit(f"limits.{quantity}", values[f"limits.{quantity}"], names)
            converted[f"limits_{quantity}"] = limit
        converted["warmup"] = tuple(tuple(int(size) for size in shape.split("x")) for shape in values["warmup"])
        parameters = NodeParameters(**converted)
        _check_together(parameters)
        return parameters


def default_values() -> dict[str, ParameterValue]:
    """Return the default of every parameter."""
    return {spec.name: spec.default for spec in PARAMETERS}


def check_value(spec: ParameterSpec, value: ParameterValue) -> None:
    """Check one value against its line of the table.

    Raises:
        InvalidParameters: names the parameter, what was expected and what was given.

    """
    if spec.range is not None:
        low, high = spec.range
        if not low <= value <= high:  # NaN is outside, too
            raise InvalidParameters(f"{spec.name}: expected {low:g} to {high:g}{f' {spec.unit}'.rstrip()}, got {value}")
    if spec.choices and value not in spec.choices:
        raise InvalidParameters(f"{spec.name}: expected one of {', '.join(spec.choices)}, got {value!r}")
    if spec.pattern:
        for text in [value] if isinstance(value, str) else value:
            if not re.fullmatch(spec.pattern, text):
                raise InvalidParameters(f"{spec.name}: expected text like {spec.pattern}, got {text!r}")


def _checked_joint_names(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        raise InvalidParameters(
            "joint_names: expected the robot's joints, got none; give them in a parameter file "
            "(see config/franka.yaml) whose section matches this node's name"
        )
    for name in names:
        if not name:
            raise InvalidParameters("joint_names: expected non-empty names, got an empty one")
        if list(names).count(name) > 1:
            raise InvalidParameters(f"joint_names: expected every joint once, got {name!r} twice")
    return tuple(names)


def _checked_limit(name: str, values: Sequence[float], joint_names: tuple[str, ...]) -> np.ndarray | None:
    if len(values) == 0:
        return None
    if len(values) != len(joint_names):
        raise InvalidParameters(
            f"{name}: expected 0 or {len(joint_names)} values, one for each joint, got {len(values)}"
        )
    if any(math.isnan(value) for value in values):
        raise InvalidParameters(f"{name}: expected numbers (.inf is no limit), got NaN")
    if not name.startswith("limits.position") and any(value <= 0 for value in values):
        raise InvalidParameters(f"{name}: expected values > 0, got {min(values):g}")
    return np.asarray(values, np.float64)


def _check_together(parameters: NodeParameters) -> None:
    low, high = parameters.limits_position_min, parameters.limits_position_max
    if low is not None and high is not None and not (low < high).all():
        joint = int(np.argmin(low < high))
        raise InvalidParameters(
            f"limits.position_min of {parameters.joint_names[joint]}: expected less than limits.position_max "
            f"({high[joint]:g}), got {low[joint]:g}"
        )
    for batch, horizon in parameters.warmup:
        if not (1 <= batch <= parameters.max_batch and 1 <= horizon <= parameters.max_horizon):
            raise InvalidParameters(
                f"warmup: expected at least 1x1 and at most max_batch x max_horizon = "
                f"{parameters.max_batch}x{parameters.max_horizon}, got {batch}x{horizon}"
            )
    if parameters.publish_lead_time > parameters.publish_longest_wait:
        raise InvalidParameters(
            f"publish.lead_time: expected at most publish.longest_wait ({parameters.publish_longest_wait:g} s), "
            f"got {parameters.publish_lead_time:g}"
        )
    _check_brake(parameters)
    if parameters.publish_row >= parameters.max_batch:
        raise InvalidParameters(
            f"publish.row: expected less than max_batch ({parameters.max_batch}), got {parameters.publish_row}"
        )


def _check_brake(parameters: NodeParameters) -> None:
    """Check that the largest velocities can be braked within the limits."""
    velocity = parameters.limits_velocity
    if velocity is None or parameters.publish_end != END_STOP:
        return
    fastest = np.where(np.isfinite(velocity), velocity, 0.0)
    durations = brake_durations(fastest, parameters.braking)
    joint = int(durations.argmax())
    if not durations[joint] <= LONGEST_BRAKE_S:
        raise InvalidParameters(
            f"limits.acceleration, limits.jerk of {parameters.joint_names[joint]}: expected to stop within "
            f"{LONGEST_BRAKE_S:g} s from limits.velocity ({velocity[joint]:g}), got {durations[joint]:.3g} s"
        )
