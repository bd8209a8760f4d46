"""By how much joints may be away from their command before the robot is braked. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..parameters.parameters import NodeParameters

_FULL_RANGE = 1.0
"""rad or m; a joint with a smaller range is allowed less, in proportion."""


class Allowance(NamedTuple):
    """By how much joints may be away from their command, `[dof]`."""

    distance: np.ndarray
    """rad or m; 0: any."""
    full_speed: np.ndarray
    """rad/s or m/s; errors may grow less in a slower motion."""


def allowance_of(parameters: NodeParameters) -> Allowance:
    """The allowance that parameters mean: `supervision.deviation`, less for joints with a range below 1 rad or m."""
    size, low, high = (np.full(len(parameters.joint_names), _FULL_RANGE), *parameters.joint_limits.of("position"))
    if low is not None and high is not None:
        size = np.minimum(high - low, size)
    return Allowance(parameters.supervision_deviation * size, size)
