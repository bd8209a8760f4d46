"""Limits from a robot's URDF, with the accelerations, decelerations and jerks of URDF 1.2. Knows no ROS."""

from __future__ import annotations

import os
from collections.abc import Sequence
from math import inf
from pathlib import Path
from xml.etree.ElementTree import Element

from .found import FoundLimits, LimitsError, found_limits, number
from .urdf_text import element_in

MOVING = ("revolute", "continuous", "prismatic")
"""Types of joints that have limits."""
_XACRO = "xacro:"
_DIRECTIVES = {f"{_XACRO}{name}" for name in ("include", "macro", "if", "unless", "insert_block", "call", "element")}
"""Elements that no file contains once xacro has expanded it, unlike calls of unknown macros and properties."""


def read_urdf(text: str, joint_names: Sequence[str], source: str) -> FoundLimits:
    """Read the limits of some joints.

    A position limit is the tighter one of `limit` and `safety_controller`; a continuous joint has none. Acceleration,
    deceleration and jerk are read in URDFs of any version. A velocity of 0 or less, and 0 for one of these, stands for
    an unknown limit and is ignored. Joints that mimic another one have no limits.

    Raises:
        LimitsError: with the source, what was expected and what was found.

    """
    robot, names = _robot(text, source), tuple(joint_names)
    joints = _joints_of(robot, source)
    found = {name: _of_joint(joints[name], source) for name in names if _is_limited(joints.get(name))}
    if not found:
        listed = ", ".join(f"{name} ({_kind(joint)})" for name, joint in joints.items()) or "none"
        raise LimitsError(f"{source}: expected limits of {', '.join(names)}, got a URDF with the joints {listed}")
    continuous = tuple(name for name in found if joints[name].get("type") == "continuous")
    sliding = {name: joint for name, joint in joints.items() if joint.get("type") == "prismatic"}
    mimicked = {mimic.get("joint") for joint in sliding.values() if (mimic := joint.find("mimic")) is not None}
    fingers = tuple(name for name in found if name in sliding and name in mimicked)
    return found_limits(source, names, found, continuous=continuous, fingers=fingers, robot=robot.get("name", ""))


def load_urdf(path: str, joint_names: Sequence[str]) -> FoundLimits:
    """Read a file. Raises LimitsError."""
    return read_urdf(_text_of(path), joint_names, path)


def load_joint_types(path: str) -> dict[str, str]:
    """Return the type of each joint in a file, such as revolute or prismatic, by name. Raises LimitsError."""
    return read_joint_types(_text_of(path), path)


def read_joint_types(text: str, source: str) -> dict[str, str]:
    """Return the type of each joint in a URDF's text by name. Raises LimitsError."""
    return {name: joint.get("type", "") for name, joint in _joints_of(_robot(text, source), source).items()}


def _text_of(path: str) -> str:
    try:
        content = Path(os.path.expanduser(path)).read_bytes()
    except OSError as error:
        message = f"limits.urdf: expected topic, none or a URDF file, got {path!r}: {error.strerror}"
        raise LimitsError(message) from None
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:  # Whatever encoding the file declares, the parts that are read here are ASCII.
        return content.decode("latin-1")


def _robot(text: str, source: str) -> Element:
    try:
        root = element_in(text)
    except ValueError as error:
        raise LimitsError(f"{source}: expected a URDF, got text that is no XML: {error}") from None
    if root.tag != "robot":
        raise LimitsError(f"{source}: expected a URDF with the element robot, got {root.tag[:40]!r}")
    if _is_xacro(root, root.findall("joint")):
        raise LimitsError(f"{source}: expected a URDF, got a xacro file; expand it first: xacro FILE > robot.urdf")
    return root


def _joints_of(robot: Element, source: str) -> dict[str, Element]:
    """Return joints by name, without those in transmission and ros2_control. Raises LimitsError for a joint twice."""
    joints: dict[str, Element] = {}
    for joint in robot.findall("joint"):
        if joints.setdefault(name := joint.get("name", ""), joint) is not joint:
            raise LimitsError(f"{source}: expected every joint once, got {name} twice")
    return joints


def _is_xacro(root: Element, joints: list[Element]) -> bool:
    """Return whether a file needs xacro to make joints or their limits; unexpanded calls elsewhere do not count."""
    tags = {element.tag for element in root.iter()}
    if not tags.isdisjoint(_DIRECTIVES) or (not joints and any(tag.startswith(_XACRO) for tag in tags)):
        return True
    of_joints = [element for joint in joints for element in joint.iter()]
    values = [value for element in of_joints for value in element.attrib.values()]
    return any(one.tag.startswith(_XACRO) for one in of_joints) or any("${" in one or "$(" in one for one in values)


def _kind(joint: Element) -> str:
    return "mimic" if joint.find("mimic") is not None else joint.get("type", "without type")


def _is_limited(joint: Element | None) -> bool:
    return joint is not None and joint.get("type") in MOVING and joint.find("mimic") is None


def _of_joint(joint: Element, source: str) -> dict[str, float]:
    """Return the limits of one joint by quantity."""
    for element in ("limit", "safety_controller"):
        if (count := len(joint.findall(element))) > 1:
            raise LimitsError(f"{source}: joint {joint.get('name')}: expected one element {element}, got {count}")
    found = {}
    if joint.get("type") != "continuous":
        low, high = _range(joint, "limit", "lower", "upper", source)
        soft_low, soft_high = _range(joint, "safety_controller", "soft_lower_limit", "soft_upper_limit", source)
        found = {"position_min": max(low, soft_low), "position_max": min(high, soft_high)}
        if not found["position_min"] < found["position_max"]:
            raise LimitsError(
                f"{source}: joint {joint.get('name')}: expected a safety_controller that leaves a part of the range "
                f"{low:g} to {high:g}, got {soft_low:g} to {soft_high:g}"
            )
    for quantity in ("velocity", "acceleration", "deceleration", "jerk"):
        largest = _number(joint, "limit", quantity, source)
        if largest is not None and largest < 0 and quantity != "velocity":
            message = f"expected {quantity} in limit to be above 0, got {largest:g}"
            raise LimitsError(f"{source}: joint {joint.get('name')}: {message}")
        if largest is not None and largest > 0:
            found[quantity] = largest
    return found


def _range(joint: Element, element: str, lower: str, upper: str, source: str) -> tuple[float, float]:
    """Return lowest and highest value, infinite if both are missing; if one is, URDF defines it as 0."""
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


def _number(joint: Element, element: str, attribute: str, source: str) -> float | None:
    found = joint.find(element)
    text = None if found is None else found.get(attribute)
    if text is None:
        return None
    return number(text, f"{source}: joint {joint.get('name')}", f" for {attribute} in {element}")
