"""Limits from sources other than the parameters, and the error for a wrong source. Knows no ROS."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .joint_limits import JointLimits

QUANTITIES = ("position_min", "position_max", "velocity", "acceleration", "deceleration", "jerk")
"""Names of limits: fields of `JointLimits`, and of parameters after `limits.`."""


class LimitsError(ValueError):
    """A source of limits is wrong, or belongs to another robot; the message is one line that names it."""


@dataclass(frozen=True)
class FoundLimits:
    """The limits that a source gives for the node's joints; infinite where it gives none."""

    source: str
    """Path, topic or node from which the limits come."""
    limits: JointLimits
    without: tuple[str, ...] = ()
    """Joints of the node for which the source has no limits."""
    continuous: tuple[str, ...] = ()
    """Joints of the node that are continuous: they turn without end."""
    fingers: tuple[str, ...] = ()
    """Joints of the node that slide, and that another sliding joint mimics, as the fingers of a gripper do."""
    robot: str = ""
    """The robot's name, if the source has it."""
    scales: tuple[tuple[str, float], ...] = ()
    """Quantities that the source scales, with their factors, which `limits` include already."""

    def origin(self, quantity: str) -> str:
        """Describe the source of one of the limits."""
        scale = dict(self.scales).get(quantity, 1.0)
        return self.source if scale == 1 else f"{self.source} x {scale:g}"


def found_limits(
    source: str, joint_names: tuple[str, ...], found: Mapping[str, Mapping[str, float]], **more: object
) -> FoundLimits:
    """Return the limits of all joints from those of each known joint; a quantity without finite limits is None.

    Unknown joints are listed in `without`. `more` are the other fields.
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
    """Return the infinite value that stands for the absence of a limit."""
    return -np.inf if quantity == "position_min" else np.inf


def number(value: object, place: str, of: str = "") -> float:
    """Convert a number from a file. Raises LimitsError, which names its place, for anything else."""
    try:
        found = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        found = math.nan
    if math.isnan(found):
        raise LimitsError(f"{place}: expected a number{of}, got {value!r}")
    return found
