"""Limits from MoveIt's joint_limits.yaml. Knows no ROS.

`has_X_limits: false` means that this source has no such limit, so that the next source counts. A value without
`has_X_limits` counts.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from .found import FoundLimits, LimitsError, found_limits, number
from .parameter_files import load_once

_PLANNING = "robot_description_planning"
"""The key above the limits in some files."""
_JOINTS = "joint_limits"
_SCALED = {
    "velocity": "default_velocity_scaling_factor",
    "acceleration": "default_acceleration_scaling_factor",
    "deceleration": "default_acceleration_scaling_factor",
}
_KEYS = {
    "position": {"min_position": "position_min", "max_position": "position_max"},
    **{kind: {f"max_{kind}": kind} for kind in ("velocity", "acceleration", "deceleration", "jerk")},
}
"""Fields of the file for each limited quantity, and the names of the limits."""

Tree = Mapping[str, object]


def load_moveit(path: str, joint_names: Sequence[str]) -> FoundLimits:
    """Read a file. Raises LimitsError."""
    import yaml

    # Launch files of MoveIt do the same.
    angles = {"!degrees": lambda text: math.radians(float(text)), "!radians": float}
    try:
        content = load_once(Path(os.path.expanduser(path)).read_text(encoding="utf-8"), angles)
        planning = content.get(_PLANNING, content) if isinstance(content, Mapping) else content
    except OSError as error:
        raise LimitsError(f"limits.moveit: expected none or a file, got {path!r}: {error.strerror}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise LimitsError(f"{path}: expected a YAML file with {_JOINTS}, got {' '.join(str(error).split())}") from None
    return read_moveit(planning, joint_names, path)


def read_moveit(planning: object, joint_names: Sequence[str], source: str) -> FoundLimits:
    """Read the limits of some joints.

    Args:
        planning: the map with `joint_limits` and the scaling factors.
        joint_names: the joints; others are ignored.
        source: for errors.

    Raises:
        LimitsError: with the source, the joint and the field, what was expected and what was found.

    """
    joints = planning.get(_JOINTS) if isinstance(planning, Mapping) else None
    if not isinstance(joints, Mapping):
        raise LimitsError(f"{source}: expected a map {_JOINTS} of joints, got {_shown(planning, joints)}")
    names = tuple(joint_names)
    known = [name for name in names if name in joints]
    if not known:
        raise LimitsError(
            f"{source}: expected limits of {', '.join(names)}, got those of {', '.join(map(str, joints)) or 'no joint'}"
        )
    factors = {quantity: _factor(planning, key, source) for quantity, key in _SCALED.items()}
    scales = {quantity: factor for quantity, factor in factors.items() if factor != 1}
    found = {}
    for name in known:
        of_joint = joints[name]
        if not isinstance(of_joint, Mapping):
            raise LimitsError(f"{source}: joint {name}: expected a map such as max_velocity: 1.0, got {of_joint!r}")
        values = _of_joint(of_joint, f"{source}: joint {name}")
        found[name] = {quantity: value * scales.get(quantity, 1) for quantity, value in values.items()}
    return found_limits(source, names, found, scales=tuple(scales.items()))


def _of_joint(fields: Tree, place: str) -> dict[str, float]:
    """Return the limits of one joint by quantity."""
    found: dict[str, float] = {}
    for kind, keys in _KEYS.items():
        has = fields.get(f"has_{kind}_limits")
        if has is not None and not isinstance(has, bool):
            raise LimitsError(f"{place}: has_{kind}_limits: expected true or false, got {has!r}")
        if has is False:
            continue
        given = {key: number(fields[key], f"{place}: {key}") for key in keys if fields.get(key) is not None}
        if has and not given:
            wanted = " or ".join(keys)
            raise LimitsError(f"{place}: {wanted}: expected a number, because has_{kind}_limits is true, got none")
        for key, value in given.items():
            if kind == "deceleration":
                value = abs(value)  # This field is negative for Pilz's planner and positive for ros2_control.
            if kind != "position" and not value > 0:
                raise LimitsError(f"{place}: {key}: expected more than 0, got {value:g}")
            found[keys[key]] = value
    low, high = (found.get(quantity) for quantity in ("position_min", "position_max"))
    if low is not None and high is not None and not low < high:
        raise LimitsError(f"{place}: min_position: expected less than max_position, {high:g}, got {low:g}")
    return found


def _factor(planning: Tree, key: str, source: str) -> float:
    value = planning.get(key)
    factor = 1.0 if value is None else number(value, f"{source}: {key}")
    if not 0 < factor <= 1:
        raise LimitsError(f"{source}: {key}: expected more than 0 and at most 1, got {factor:g}")
    return factor


def _shown(planning: object, joints: object) -> str:
    if joints is not None or not isinstance(planning, Mapping):
        return repr(planning if joints is None else joints)[:60]
    return f"the keys {', '.join(map(str, planning)) or 'none'}"
