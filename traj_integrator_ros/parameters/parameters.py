"""Checks the values of the node's parameters, and makes the configuration of them. Knows no ROS."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from numbers import Integral, Real
from typing import ClassVar

import numpy as np

from ..execution.limits import LONGEST_BRAKE_S
from ..limits.found import QUANTITIES
from ..limits.joint_limits import JointLimits, assumed_limits
from .table import (
    ABSOLUTE,
    ARM,
    BINARY,
    END_STOP,
    GRIPPER,
    PARAMETERS,
    SINCE_OBSERVATION,
    SINCE_STEP,
    SPECS,
    ParameterKind,
    ParameterSpec,
    ParameterTable,
    ParameterValue,
    of_joints,
)

_EXPECTED = {
    ParameterKind.BOOL: (bool, "true or false"),
    ParameterKind.INTEGER: (Integral, "a whole number"),
    ParameterKind.DOUBLE: (Real, "a number"),
    ParameterKind.STRING: (str, "a text"),
    ParameterKind.STRING_ARRAY: (str, "a list of texts"),
    ParameterKind.DOUBLE_ARRAY: (Real, "a list of numbers"),
}
"""Types of values, or of values in a list, and their names for errors."""
_CHUNKS = "the node follows each chunk by the smoothest motion near it; publish.bandwidth: how fast differences go"
GONE = {
    "publish.fade_time": "now publish.bandwidth",
    "publish.catch_up": "now publish.bandwidth",
    "publish.lead_time_auto": "give publish.lead_time: longer than the transport to the controller",
    "chunks.ensemble": _CHUNKS,
    "chunks.decay": _CHUNKS,
    "chunks.heaviest": _CHUNKS,
    "dtype": "the node computes in float32, as its messages are",
    "acceleration_integrator": "accelerations are held over a step (zoh)",
    "bspline.degree": "the field degree of a sequence; 0 is 3",
    "bspline.steps": "the field steps of a sequence; 0 is 4",
    "limits.tolerance": "it is 0.001",
    "publish.row": "it is row 0: put the best candidate there",
    "publish.trajectory_batch": "it is published while it has subscribers",
    "supervision.clock_offset": "it is 0.02 s",
    "action_monitor_rate": "it is 20 Hz",
    "calls.depth": "it is 1000",
    "service_introspection": "services have no events any more",
    "finite_difference": "differences are backward; central ones: kernels.clique_central_step in process",
    "bspline.layout": "it is tight; splines as in cuRobo: kernels.bspline_step(layout='curobo') in process",
    "limits.moveit_scaling": "scaling factors count; take them out of the file, or give limits.velocity and so on",
    "publish.joint_trajectory": "send candidates to ~/integrate, which publishes nothing",
    "publish.rest_tolerance": "it is 1 % of the slowest joint's limit of velocity, at most 0.01",
    "publish.brake_time": "it is 0.25 s; give limits.acceleration and limits.jerk",
    "publish.longest_wait": "it is 1 s; send later what is to begin later",
}
"""Parameters of former versions, and what replaces them."""
_GRIPPERS = re.compile("gripper|finger|jaw|knuckle", re.IGNORECASE)
"""Parts of the names of joints that open and close grippers."""
_REST = 0.01
"""Largest speed of any robot that counts as rest where a plan ends, rad/s or m/s."""
_REST_SHARE = 0.01
"""The same for slow joints, such as linear axes, as a share of their limit of velocity."""
_LISTS = (ParameterKind.STRING_ARRAY, ParameterKind.DOUBLE_ARRAY)


class InvalidParameters(ValueError):
    """Parameter values are wrong, or contradict each other; the message names them."""


@dataclass(frozen=True)
class NodeParameters(ParameterTable):
    """All parameters, checked."""

    constraints_trajectory: np.ndarray
    """Largest error during an action goal, rad or m, `[dof]`; 0 allows any."""
    constraints_goal: np.ndarray
    """Largest error at the end of an action goal, rad or m, `[dof]`; 0 allows any."""

    publish_brake_time: ClassVar[float] = 0.25
    """Time in which a joint stops from its largest velocity by the limits that are assumed where none are given, s."""

    @cached_property
    def publish_rest_tolerance(self) -> float:
        """Speed that counts as rest where a plan ends, rad/s or m/s: 1 % of the slowest joint's limit, at most 0.01.

        Grippers and switched joints do not count: theirs is no motion that a brake has to end.
        """
        if self.limits_velocity is None:
            return _REST
        slowest = self.limits_velocity[~(self.of_kind(GRIPPER) | self.of_kind(BINARY))].min(initial=np.inf)
        return min(_REST, _REST_SHARE * float(slowest))

    @property
    def joint_limits(self) -> JointLimits:
        """The limits of the joints; None where there is no limit. Switched joints have none of rates."""
        limits = {name: getattr(self, f"limits_{name}") for name in QUANTITIES}
        if len(self.switched):
            rates = [name for name in QUANTITIES[2:] if limits[name] is not None]
            limits |= {name: np.where(self.of_kind(BINARY), np.inf, limits[name]) for name in rates}
        return JointLimits(**limits, joint_names=self.joint_names)

    @cached_property
    def rate_limits(self) -> JointLimits:
        """The limits of the joints for motions in which joints that are switched keep their value."""
        given = {name: getattr(self.joint_limits, name) for name in ("velocity", "acceleration")}
        any_rate = {name: np.where(self.of_kind(BINARY), 1.0, one) for name, one in given.items() if one is not None}
        return dataclasses.replace(self.joint_limits, **any_rate)

    @cached_property
    def kinds(self) -> tuple[str, ...]:
        """The kind of each joint: `joints.kind`; if that is empty, grippers by their names, unless all are such."""
        named = tuple(GRIPPER if _GRIPPERS.search(name) else ARM for name in self.joint_names)
        return self.joints_kind or (named if ARM in named else (ARM,) * len(named))

    def of_kind(self, kind: str) -> np.ndarray:
        """Return which joints are of a kind, bool `[dof]`."""
        return np.array([one == kind for one in self.kinds])

    @cached_property
    def switched(self) -> np.ndarray:
        """Indices of the joints of kind binary, whose rows are steps."""
        return np.flatnonzero(self.of_kind(BINARY))

    @cached_property
    def continuous(self) -> np.ndarray:
        """Which joints are continuous, bool `[dof]`."""
        return np.array([name in self.limits_continuous for name in self.joint_names])

    @cached_property
    def relative(self) -> np.ndarray:
        """Which joints' actions are relative, bool `[2, dof]`: to the observation, and to the step before."""
        given = self.relative_to or (ABSOLUTE,) * len(self.joint_names)
        return np.array([[one == kind for one in given] for kind in (SINCE_OBSERVATION, SINCE_STEP)])

    @staticmethod
    def of(joint_names: Sequence[str], **values: ParameterValue) -> NodeParameters:
        """Return the defaults with other values of some parameters (`__` for dots). Raises InvalidParameters."""
        given = {name.replace("__", "."): value for name, value in values.items()}
        own = {spec.name for kind in ("trajectory", "goal") for spec in of_joints(kind, list(joint_names))}
        if unknown := given.keys() - default_values().keys() - own:
            raise InvalidParameters(f"expected names of parameters, got {unknown_names(unknown)}")
        return NodeParameters.from_values(default_values() | {"joint_names": list(joint_names)} | given)

    @staticmethod
    def from_values(values: Mapping[str, ParameterValue]) -> NodeParameters:
        """Check values for all parameters of the table, individually and together; joints may have their own.

        Raises:
            InvalidParameters: with the parameter, what was expected and what was given.

        """
        check_value(SPECS["joint_names"], values["joint_names"])
        check_joint_names(values["joint_names"])
        converted = {}
        for spec in PARAMETERS:
            value, dof = values[spec.name], len(values["joint_names"])
            check_value(spec, value)
            if spec.is_for_all:
                value = _for_each(spec.name, value, dof)
            elif spec.kind is ParameterKind.DOUBLE_ARRAY:
                value = _checked_limit(spec.name, value, dof)
            converted[spec.name.replace(".", "_")] = spec.convert(value)
        for kind in ("trajectory", "goal"):
            specs = of_joints(kind, values["joint_names"])
            given = [values.get(spec.name, spec.default) for spec in specs]
            for spec, value in zip(specs, given, strict=True):
                check_value(spec, value)
            converted[f"constraints_{kind}"] = np.array(given)
        parameters = NodeParameters(**converted)
        _check_together(parameters)
        return parameters


def unknown_names(names: Iterable[str]) -> str:
    """Return names that are no parameters, sorted in one line, with what replaces those of former versions."""
    return ", ".join(f"{name} ({GONE[name]})" if name in GONE else name for name in sorted(names))


def default_values() -> dict[str, ParameterValue]:
    """Return the default of every parameter."""
    return {spec.name: spec.default for spec in PARAMETERS}


def check_value(spec: ParameterSpec, value: ParameterValue) -> None:
    """Check one value against its row of the table.

    Raises:
        InvalidParameters: with the parameter, what was expected and what was given.

    """
    kind, expected = _EXPECTED[spec.kind]
    given = [value] if spec.is_for_all and _is(value, Real) else value
    values = given if spec.kind in _LISTS else [given]
    if not isinstance(values, (list, tuple, np.ndarray)) or not all(_is(one, kind) for one in values):
        raise InvalidParameters(f"{spec.name}: expected {expected}, got {value!r}")
    if spec.range is not None:
        low, high = spec.range
        for one in values:
            if not low <= one <= high:  # NaN counts as outside.
                unit = f" {spec.unit}".rstrip()
                raise InvalidParameters(f"{spec.name}: expected {low:g} to {high:g}{unit}, got {one}")
    for text in values if spec.choices else ():
        if text not in spec.choices:
            raise InvalidParameters(f"{spec.name}: expected one of {', '.join(spec.choices)}, got {text!r}")
    if spec.pattern:
        for text in values:
            if not re.fullmatch(spec.pattern, text):
                raise InvalidParameters(f"{spec.name}: expected {spec.form}, got {text!r}")


def check_joint_names(names: Sequence[str]) -> None:
    """Check that each joint has a name of its own. Raises InvalidParameters."""
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


def _is(value: object, kind: type) -> bool:
    """Return whether a value is of a type; truth values, which are numbers in Python, are not numbers here."""
    return isinstance(value, kind) and isinstance(value, bool) is (kind is bool)


def _for_each(name: str, value: float | Sequence[float], dof: int) -> np.ndarray:
    """Return one number for each joint, `[dof]`, from one for all or from as many."""
    values = np.atleast_1d(np.asarray(value, np.float64))
    if len(values) not in (1, dof):
        raise InvalidParameters(f"{name}: expected 1 value, or {dof}, one for each joint, got {len(values)}")
    return np.broadcast_to(values, dof).copy()


def _checked_limit(name: str, values: Sequence[float], dof: int) -> np.ndarray | None:
    if len(values) == 0:
        return None
    if len(values) != dof:
        raise InvalidParameters(f"{name}: expected 0 or {dof} values, one for each joint, got {len(values)}")
    if any(math.isnan(value) for value in values):
        raise InvalidParameters(f"{name}: expected numbers (.inf is no limit), got NaN")
    if not name.startswith("limits.position") and any(value <= 0 for value in values):
        raise InvalidParameters(f"{name}: expected values > 0, got {min(values):g}")
    return np.asarray(values, np.float64)


def _check_together(parameters: NodeParameters) -> None:
    names = parameters.joint_names
    for name in parameters.limits_continuous:
        if name not in names:
            raise InvalidParameters(f"limits.continuous: expected some of {', '.join(names)}, got {name!r}")
    given = {"relative_to": parameters.relative_to, "joints.kind": parameters.joints_kind}
    for name, values in given.items():
        if len(values) not in (0, len(names)):
            raise InvalidParameters(f"{name}: expected 0 or {len(names)} values, one for each joint, got {len(values)}")
    check_limits(parameters)
    for batch, horizon in parameters.warmup:
        if not (1 <= batch <= parameters.max_batch and 1 <= horizon <= parameters.max_horizon):
            raise InvalidParameters(
                f"warmup: expected at least 1x1 and at most max_batch x max_horizon = "
                f"{parameters.max_batch}x{parameters.max_horizon}, got {batch}x{horizon}"
            )


def check_limits(parameters: NodeParameters) -> None:
    """Check limits together, and that the largest velocities can be braked within them. Raises InvalidParameters."""
    names = parameters.joint_names
    low, high = parameters.limits_position_min, parameters.limits_position_max
    if low is not None and high is not None and not (low < high).all():
        joint = int(np.argmin(low < high))
        raise InvalidParameters(
            f"limits.position_min of {names[joint]}: expected less than limits.position_max ({high[joint]:g}), "
            f"got {low[joint]:g}"
        )
    velocity = parameters.limits_velocity
    if velocity is None or parameters.publish_end != END_STOP:
        return
    fastest = np.where(np.isfinite(velocity), velocity, 0.0)
    assumed = assumed_limits(parameters.rate_limits, parameters.publish_brake_time, 1.0)
    durations = assumed.bounds.stop_durations(fastest)
    joint = int(durations.argmax())
    if not durations[joint] <= LONGEST_BRAKE_S:
        raise InvalidParameters(
            f"limits.acceleration, limits.jerk of {parameters.joint_names[joint]}: expected to stop within "
            f"{LONGEST_BRAKE_S:g} s from limits.velocity ({velocity[joint]:g}), got {durations[joint]:.3g} s"
        )
