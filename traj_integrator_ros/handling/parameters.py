"""The checked configuration from the values of the node's parameters. Knows no ROS."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..execution.limits import LONGEST_BRAKE_S
from ..kernels import AccelerationIntegrator, BsplineLayout, ControlSpace, FiniteDifference
from .assumed import assumed_limits
from .limits import JointLimits
from .parameter_table import END_STOP, PARAMETERS, ParameterSpec, ParameterTable, ParameterValue


class InvalidParameters(ValueError):
    """Parameter values that are wrong, or contradict each other; the message names them."""


@dataclass(frozen=True)
class NodeParameters(ParameterTable):
    """All parameters, checked."""

    @property
    def joint_limits(self) -> JointLimits:
        """The limits of the joints; None for those that are off."""
        return JointLimits(
            self.limits_position_min,
            self.limits_position_max,
            self.limits_velocity,
            self.limits_acceleration,
            self.limits_jerk,
            self.limits_tolerance,
            self.limits_deceleration,
            self.joint_names,
        )

    @cached_property
    def continuous(self) -> np.ndarray:
        """Which joints turn without end, bool `[dof]`."""
        return np.array([name in self.limits_continuous for name in self.joint_names])

    @staticmethod
    def from_values(values: Mapping[str, ParameterValue]) -> NodeParameters:
        """Check a value for every parameter of the table, individually and together.

        Raises:
            InvalidParameters: with the parameter, what was expected and what was given.

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
        for quantity in ("position_min", "position_max", "velocity", "acceleration", "deceleration", "jerk"):
            limit = _checked_limit(f"limits.{quantity}", values[f"limits.{quantity}"], names)
            converted[f"limits_{quantity}"] = limit
        converted["limits_continuous"] = _checked_continuous(values["limits.continuous"], names)
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
        InvalidParameters: with the parameter, what was expected and what was given.

    """
    if spec.range is not None:
        low, high = spec.range
        if not low <= value <= high:  # NaN counts as outside
            raise InvalidParameters(f"{spec.name}: expected {low:g} to {high:g}{f' {spec.unit}'.rstrip()}, got {value}")
    if spec.choices and value not in spec.choices:
        raise InvalidParameters(f"{spec.name}: expected one of {', '.join(spec.choices)}, got {value!r}")
    if spec.pattern:
        for text in [value] if isinstance(value, str) else value:
            if not re.fullmatch(spec.pattern, text):
                raise InvalidParameters(f"{spec.name}: expected {spec.form}, got {text!r}")


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


def _checked_continuous(continuous: Sequence[str], names: tuple[str, ...]) -> tuple[str, ...]:
    for name in continuous:
        if name not in names:
            raise InvalidParameters(f"limits.continuous: expected some of {', '.join(names)}, got {name!r}")
    return tuple(continuous)


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
    check_brake(parameters)
    if parameters.publish_row >= parameters.max_batch:
        raise InvalidParameters(
            f"publish.row: expected less than max_batch ({parameters.max_batch}), got {parameters.publish_row}"
        )


def check_brake(parameters: NodeParameters) -> None:
    """Check that the largest velocities can be braked within the limits. Raises InvalidParameters."""
    velocity = parameters.limits_velocity
    if velocity is None or parameters.publish_end != END_STOP:
        return
    fastest = np.where(np.isfinite(velocity), velocity, 0.0)
    assumed = assumed_limits(parameters.joint_limits, parameters.publish_brake_time, 1.0)
    durations = assumed.bounds.stop_durations(fastest)
    joint = int(durations.argmax())
    if not durations[joint] <= LONGEST_BRAKE_S:
        raise InvalidParameters(
            f"limits.acceleration, limits.jerk of {parameters.joint_names[joint]}: expected to stop within "
            f"{LONGEST_BRAKE_S:g} s from limits.velocity ({velocity[joint]:g}), got {durations[joint]:.3g} s"
        )
