"""Limits from a robot's URDF, with the accelerations, decelerations and jerks of URDF 1.2. Knows no ROS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from xml.etree import ElementTree

from .found_limits import FoundLimits, LimitsError, found_limits, number

_TURNING, _SLIDING = ("revolute", "continuous"), ("prismatic",)


def read_urdf(text: str, joint_names: Sequence[str], source: str) -> FoundLimits:
    """Read the limits of some joints.

    A position limit is the tighter one of `limit` and `safety_controller`; a continuous joint has none. Acceleration,
    deceleration and jerk are read whatever version the URDF says it has. A velocity of 0 or less, and 0 for one of
    these, is a placeholder for an unknown limit and is ignored. Joints that mimic another one have no limits.

    Raises:
        LimitsError: with the source, what was expected and what was found.

    """
    joints, names = _joints(text, source), tuple(joint_names)
    found = {name: _of_joint(joints[name], source) for name in names if _is_limited(joints.get(name))}
    if not found:
        listed = ", ".join(joints) or "none"
        raise LimitsError(f"{source}: expected limits of {', '.join(names)}, got a URDF with the joints {listed}")
    continuous = tuple(name for name in found if joints[name].get("type") == "continuous")
    return found_limits(source, names, found, continuous=continuous)


def load_urdf(path: str, joint_names: Sequence[str]) -> FoundLimits:
    """Read a file. Raises LimitsError."""
    return read_urdf(_text_of(path), joint_names, path)


def load_joint_types(path: str) -> dict[str, str]:
    """The type of each joint in a file by name: revolute, prismatic and so on. Raises LimitsError."""
    return read_joint_types(_text_of(path), path)


def read_joint_types(text: str, source: str) -> dict[str, str]:
    """The same of a text. Raises LimitsError."""
    return {name: joint.get("type", "") for name, joint in _joints(text, source).items()}


def _text_of(path: str) -> str:
    try:
        return Path(os.path.expanduser(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not a text file"
        raise LimitsError(f"limits.urdf: expected topic, none or a URDF file, got {path!r}: {reason}") from None


def _joints(text: str, source: str) -> dict[str, ElementTree.Element]:
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise LimitsError(f"{source}: expected a URDF, got text that is no XML: {error}") from None
    if root.tag != "robot":
        raise LimitsError(f"{source}: expected a URDF with the element robot, got {root.tag[:40]!r}")
    if any("xacro" in element.tag for element in root.iter()):
        raise LimitsError(f"{source}: expected a URDF, got a xacro file; expand it first: xacro FILE > robot.urdf")
    # Not the joint elements inside transmission and ros2_control.
    return {joint.get("name", ""): joint for joint in root.findall("joint")}


def _is_limited(joint: ElementTree.Element | None) -> bool:
    return joint is not None and joint.get("type") in (*_TURNING, *_SLIDING) and joint.find("mimic") is None


def _of_joint(joint: ElementTree.Element, source: str) -> dict[str, float]:
    """The limits of one joint by quantity."""
    found = {}
    if joint.get("type") != "continuous":
        low, high = _range(joint, "limit", "lower", "upper", source)
        soft_low, soft_high = _range(joint, "safety_controller", "soft_lower_limit", "soft_upper_limit", source)
        found = {"position_min": max(low, soft_low), "position_max": min(high, soft_high)}
    for quantity in ("velocity", "acceleration", "deceleration", "jerk"):
        largest = _number(joint, "limit", quantity, source)
        if largest is not None and largest < 0 and quantity != "velocity":
            told = f"expected {quantity} in limit to be above 0, got {largest:g}"
            raise LimitsError(f"{source}: joint {joint.get('name')}: {told}")
        if largest is not None and largest > 0:
            found[quantity] = largest
    return found


def _range(joint: ElementTree.Element, element: str, lower: str, upper: str, source: str) -> tuple[float, float]:
    """Lowest and highest value, infinite if neither is given; if one is missing, URDF defines it as 0."""
    low, high = _number(joint, element, lower, source), _number(joint, element, upper, source)
    if low is None and high is None:
        return -inf, inf
    low, high = low or 0.0, high or 0.0
    if not low < high:
        raise LimitsError(
            f"{source}: joint {joint.get('name')}: expected {lower} below {upper} in {element}, "
            f"got {low:g} and {high:g}"
        )
    return low, high


def _number(joint: ElementTree.Element, element: str, attribute: str, source: str) -> float | None:
    found = joint.find(element)
    text = None if found is None else found.get(attribute)
    if text is None:
        return None
    return number(text, f"{source}: joint {joint.get('name')}", f" for {attribute} in {element}")
