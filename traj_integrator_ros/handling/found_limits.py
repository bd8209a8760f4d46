"""Limits that were found outside of the parameters, and the error if what is there is wrong. Knows no ROS."""

from __future__ import annotations

import dataclasses

import numpy as np

from .limits import JointLimits

QUANTITIES = ("position_min", "position_max", "velocity", "acceleration", "deceleration", "jerk")
"""Limits by the names that they have in `JointLimits`, and after `limits.` as parameters."""


class LimitsError(ValueError):
    """A source of limits that is wrong, or of another robot; the message is one line and names the source."""


@dataclasses.dataclass(frozen=True)
class FoundLimits:
    """The limits that a source gives for the node's joints; infinite where it gives none."""

    source: str
    """A path, a topic or a node."""
    limits: JointLimits
    without: tuple[str, ...] = ()
    """Joints of the node that the source has no limits of."""
    continuous: tuple[str, ...] = ()
    """Joints of the node that turn without end."""
    scales: tuple[tuple[str, float], ...] = ()
    """Quantities that the source itself scales, and by how much; `limits` are scaled already."""

    def origin(self, quantity: str) -> str:
        """The source of one of its limits, in words."""
        scale = dict(self.scales).get(quantity, 1.0)
        return self.source if scale == 1 else f"{self.source} x {scale:g}"


def found_limits(
    source: str, joint_names: tuple[str, ...], values: dict[str, np.ndarray], **more: object
) -> FoundLimits:
    """The limits from arrays `[dof]` by quantity; those without a finite value are off."""
    given = {name: array for name, array in values.items() if np.isfinite(array).any()}
    return FoundLimits(source, JointLimits(**given, joint_names=joint_names), **more)


def no_limits(joint_names: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Arrays `[dof]` for every quantity in which nothing is limited."""
    return {name: np.full(len(joint_names), -np.inf if name == "position_min" else np.inf) for name in QUANTITIES}
