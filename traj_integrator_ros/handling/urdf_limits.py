"""Position and velocity limits from a robot's URDF, for the quantities that the parameters leave open. Knows no ROS."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from xml.etree import ElementTree

import numpy as np

from .limits import JointLimits
from .parameters import NodeParameters

FROM_TOPIC, FROM_NOWHERE = "topic", "none"
"""Values of the parameter limits.urdf; any other is the path of a file."""
_FROM_URDF = ("position_min", "position_max", "velocity")
"""Limits that a URDF can give; each is taken where the parameters do not give it."""
_TURNING, _SLIDING = ("revolute", "continuous"), ("prismatic",)


class UrdfError(ValueError):
    """The text is not a URDF, or that of another robot; the message is one line."""


@dataclasses.dataclass(frozen=True)
class UrdfLimits:
    """The limits that a URDF gives for the node's joints; infinite where it gives none."""

    source: str
    """Source of the URDF: a path or a topic."""
    limits: JointLimits
    without: tuple[str, ...]
    """Joints of the node without limits in the URDF: not in it, fixed, or mimicking another joint."""
    continuous: tuple[str, ...] = ()
    """Joints of the node that turn without end."""


@dataclasses.dataclass(frozen=True)
class RobotLimits:
    """The parameters as they were given, and a URDF for the limits that they leave open.

    Raises UrdfError where a position limit of one contradicts that of the other.
    """

    given: NodeParameters
    urdf: UrdfLimits | None = None

    @staticmethod
    def configured(given: NodeParameters) -> RobotLimits:
        """Return the limits from the parameters and from the URDF file that they name. Raises UrdfError."""
        is_file = given.limits_urdf not in (FROM_TOPIC, FROM_NOWHERE)
        return RobotLimits(given, load_urdf(given.limits_urdf, given.joint_names) if is_file else None)

    def described(self, text: str, source: str) -> RobotLimits:
        """Return the same with a URDF received on a topic. Raises UrdfError."""
        return dataclasses.replace(self, urdf=read_urdf(text, self.given.joint_names, source))

    def __post_init__(self) -> None:
        self.parameters  # noqa: B018 - raises UrdfError for limits that contradict each other

    @cached_property
    def parameters(self) -> NodeParameters:
        """The parameters with the URDF's limits where they have none."""
        given, urdf = self.given, self.urdf
        if urdf is None:
            return given
        filled = dataclasses.replace(
            given,
            **{
                f"limits_{name}": getattr(urdf.limits, name)
                for name in _FROM_URDF
                if getattr(given, f"limits_{name}") is None
            },
        )
        _check_positions(filled, urdf.source)
        return dataclasses.replace(filled, limits_continuous=self._continuous(filled, urdf))

    def _continuous(self, filled: NodeParameters, urdf: UrdfLimits) -> tuple[str, ...]:
        """Joints that turn without end: those given, and those of the URDF to which nobody gave a position limit."""
        limited = [
            np.isfinite(bound)
            for bound in (filled.limits_position_min, filled.limits_position_max)
            if bound is not None
        ]
        bounded = np.any(limited, axis=0) if limited else np.zeros(len(filled.joint_names), bool)
        found = [
            name
            for name, ends in zip(filled.joint_names, bounded, strict=True)
            if name in self.given.limits_continuous or (name in urdf.continuous and not ends)
        ]
        return tuple(found)

    @cached_property
    def origins(self) -> str:
        """Where the limit of each quantity comes from, in one line."""
        origins = {name: self._origin(name) for name in (*_FROM_URDF, "acceleration", "jerk")}
        if origins["position_min"] == origins["position_max"]:
            origins = {"position": origins["position_min"], **origins}
            del origins["position_min"], origins["position_max"]
        line = ", ".join(f"{name}: {origin}" for name, origin in origins.items())
        if self.urdf is not None and self.urdf.without and self.urdf.source in origins.values():
            line += f" (which has none of {', '.join(self.urdf.without)})"
        return line

    def _origin(self, name: str) -> str:
        if getattr(self.given, f"limits_{name}") is not None:
            return "parameters"
        found = getattr(self.parameters, f"limits_{name}") is not None
        return self.urdf.source if self.urdf is not None and found else "none"


def _check_positions(parameters: NodeParameters, source: str) -> None:
    """Check that a position limit of the parameters does not contradict the URDF's at the other end."""
    low, high = parameters.limits_position_min, parameters.limits_position_max
    if low is None or high is None or (low < high).all():
        return
    joint = int(np.argmin(low < high))
    raise UrdfError(
        f"{source}: expected position limits of {parameters.joint_names[joint]} that go with the parameters, got "
        f"{low[joint]:g} to {high[joint]:g}; give both limits.position_min and limits.position_max"
    )


def read_urdf(text: str, joint_names: Sequence[str], source: str) -> UrdfLimits:
    """Read the limits of some joints.

    A position limit is the tighter one of `limit` and `safety_controller`; a continuous joint has none. A velocity of 0
    or less is a placeholder for an unknown limit and is ignored. Joints that mimic another one have no limits.

    Raises:
        UrdfError: with the source, what was expected and what was found.

    """
    joints = _joints(text, source)
    low, high, velocity = (np.full(len(joint_names), value) for value in (-np.inf, np.inf, np.inf))
    known = [name for name in joint_names if _is_limited(joints.get(name))]
    for name in known:
        column = list(joint_names).index(name)
        low[column], high[column] = _positions(joints[name], source)
        speed = _number(joints[name], "limit", "velocity", source)
        velocity[column] = speed if speed is not None and speed > 0 else np.inf
    if not known:
        listed = ", ".join(joints) or "none"
        raise UrdfError(f"{source}: expected limits of {', '.join(joint_names)}, got a URDF with the joints {listed}")
    arrays = (values if np.isfinite(values).any() else None for values in (low, high, velocity))
    without = tuple(name for name in joint_names if name not in known)
    continuous = tuple(name for name in known if joints[name].get("type") == "continuous")
    return UrdfLimits(source, JointLimits(tuple(joint_names), *arrays), without, continuous)


def load_urdf(path: str, joint_names: Sequence[str]) -> UrdfLimits:
    """Read a file. Raises UrdfError."""
    return read_urdf(_text_of(path), joint_names, path)


def load_joint_types(path: str) -> dict[str, str]:
    """The type of each joint in a file by name: revolute, prismatic and so on. Raises UrdfError."""
    return read_joint_types(_text_of(path), path)


def read_joint_types(text: str, source: str) -> dict[str, str]:
    """The same of a text. Raises UrdfError."""
    return {name: joint.get("type", "") for name, joint in _joints(text, source).items()}


def _text_of(path: str) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise UrdfError(f"limits.urdf: expected topic, none or a URDF file, got {path!r}: {reason}") from None


def _joints(text: str, source: str) -> dict[str, ElementTree.Element]:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise UrdfError(f"{source}: expected a URDF, got text that is no XML: {error}") from None
    if root.tag != "robot":
        raise UrdfError(f"{source}: expected a URDF with the element robot, got {root.tag[:40]!r}")
    if any("xacro" in element.tag for element in root.iter()):
        raise UrdfError(f"{source}: expected a URDF, got a xacro file; expand it first: xacro FILE > robot.urdf")
    # Not the joint elements inside transmission and ros2_control.
    return {joint.get("name", ""): joint for joint in root.findall("joint")}


def _is_limited(joint: ElementTree.Element | None) -> bool:
    return joint is not None and joint.get("type") in (*_TURNING, *_SLIDING) and joint.find("mimic") is None


def _positions(joint: ElementTree.Element, source: str) -> tuple[float, float]:
    if joint.get("type") == "continuous":
        return -math.inf, math.inf
    low, high = _range(joint, "limit", "lower", "upper", source)
    soft_low, soft_high = _range(joint, "safety_controller", "soft_lower_limit", "soft_upper_limit", source)
    return max(low, soft_low), min(high, soft_high)


def _range(joint: ElementTree.Element, element: str, lower: str, upper: str, source: str) -> tuple[float, float]:
    """Lowest and highest value, infinite if neither is given; if one is missing, URDF defines it as 0."""
    low, high = _number(joint, element, lower, source), _number(joint, element, upper, source)
    if low is None and high is None:
        return -math.inf, math.inf
    low, high = low or 0.0, high or 0.0
    if not low < high:
        raise UrdfError(
            f"{source}: joint {joint.get('name')}: expected {lower} below {upper} in {element}, "
            f"got {low:g} and {high:g}"
        )
    return low, high


def _number(joint: ElementTree.Element, element: str, attribute: str, source: str) -> float | None:
    found = joint.find(element)
    text = None if found is None else found.get(attribute)
    if text is None:
        return None
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if math.isnan(value):
        raise UrdfError(
            f"{source}: joint {joint.get('name')}: expected a number for {attribute} in {element}, got {text!r}"
        )
    return value
