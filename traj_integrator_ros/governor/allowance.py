"""By how much joints may be away from their command before the robot is braked. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..parameters.parameters import NodeParameters

SLOW = 0.2
"""Share of the allowance by which the motion of a joint that goes slowly may differ from its command."""
_FULL_RANGE = 1.0
"""rad or m; a joint with a smaller range is allowed less, in proportion."""


class Allowance(NamedTuple):
    """By how much joints may be away from their command, `[dof]`."""

    distance: np.ndarray
    """rad or m; 0: any."""
    full_speed: np.ndarray
    """rad/s or m/s; the allowance of a motion that is slower is smaller, in proportion, down to a fifth."""

    def of_motion(self, speed: np.ndarray) -> np.ndarray:
        """By how much a motion at a commanded speed, rad/s, `[dof]`, may be another one; at rest, by anything."""
        return np.where(speed > 0, self.distance * np.clip(speed / self.full_speed, SLOW, 1.0), np.inf)


def allowance_of(parameters: NodeParameters) -> Allowance:
    """The allowance that parameters mean: `supervision.deviation`, less for joints with a range below 1 rad or m."""
    size, low, high = (np.full(len(parameters.joint_names), _FULL_RANGE), *parameters.joint_limits.of("position"))
    if low is not None and high is not None:
        size = np.minimum(high - low, size)
    return Allowance(parameters.supervision_deviation * size, size)
