"""Limits that were found outside of the parameters, and the error if what is there is wrong. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .joint_limits import JointLimits

QUANTITIES = ("position_min", "position_max", "velocity", "acceleration", "deceleration", "jerk")
"""Limits by the names that they have in `JointLimits`, and after `limits.` as parameters."""


class LimitsError(ValueError):
    """A source of limits that is wrong, or of another robot; the message is one line and names the source."""


@dataclass(frozen=True)
class FoundLimits:
    """The limits that a source gives for the node's joints; infinite where it gives none."""

    source: str
    """A path, a topic or a node."""
    limits: JointLimits
    without: tuple[str, ...] = ()
    """Joints of the node that the source has no limits of."""
    continuous: tuple[str, ...] = ()
    """Joints of the node that turn without end."""
    robot: str = ""
    """The robot's name, if the source has it."""
    scales: tuple[tuple[str, float], ...] = ()
    """Quantities that the source itself scales, and by how much; `limits` are scaled already."""

    def origin(self, quantity: str) -> str:
        """The source of one of its limits, in words."""
        scale = dict(self.scales).get(quantity, 1.0)
        return self.source if scale == 1 else f"{self.source} x {scale:g}"


def found_limits(
    source: str, joint_names: tuple[str, ...], found: Mapping[str, Mapping[str, float]], **more: object
) -> FoundLimits:
    """The limits of all joints from each known joint's, by quantity; quantities without a finite one are off.

    Joints that are not known are `without`; `more`: the other fields.
    """
    values = {}
    for quantity in QUANTITIES:
        none = unlimited(quantity)
        limits = np.array([found.get(name, {}).get(quantity, none) for name in joint_names])
        if np.isfinite(limits).any():
            values[quantity] = limits
    without = tuple(name for name in joint_names if name not in found)
    return FoundLimits(source, JointLimits(**values, joint_names=joint_names), without, **more)


def unlimited(quantity: str) -> float:
    """Value that stands for a limit that there is not."""
    return -np.inf if quantity == "position_min" else np.inf


def number(value: object, place: str, of: str = "") -> float:
    """A number from a file. Raises LimitsError with its place, if it is none."""
    try:
        # YAML 1.1 takes 1e3 for a text, and rcl takes it for a number.
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if math.isnan(found):
        raise LimitsError(f"{place}: expected a number{of}, got {value!r}")
    return found
