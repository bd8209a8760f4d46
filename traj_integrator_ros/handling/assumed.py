"""Limits that nobody gave, assumed for joins and brakes: never a reason to refuse a plan. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..execution.limits import Bounds
from .limits import JointLimits

_OF_SLACK = 0.5
"""Share of the slack of a limit that joins and brakes use where the plan uses it, too."""


class AssumedLimits(NamedTuple):
    """Limits with which every motion to a plan, and every brake, is made."""

    bounds: Bounds
    lacking: tuple[str, ...]
    """Joints whose velocity nobody limits: nothing is published for a controller."""
    description: str
    """What was assumed, in words; empty if everything was given."""


def assumed_limits(
    limits: JointLimits, stop_time: float, assumed_velocity: float, *, exceeded: bool = False
) -> AssumedLimits:
    """Complete the limits of joints.

    A joint without a limit of acceleration stops from its largest velocity v within T: its acceleration is 2 v / T and
    its jerk 4 v / T^2. One with an acceleration a, but without jerk, has the jerk 2 a / T.

    Args:
        limits: as they were given; missing or infinite ones are assumed.
        stop_time: T, s.
        assumed_velocity: rad/s, of joints whose velocity is not limited; 0: none is assumed.
        exceeded: whether plans may exceed limits that were given, and their brakes with them.

    """
    dof = len(limits.joint_names)
    low, high = (
        _full(bound, dof, off) for bound, off in zip(limits.of("position"), (-np.inf, np.inf), strict=True)
    )
    velocity = _full(limits.velocity, dof, np.inf)
    unknown = ~np.isfinite(velocity)
    lacking = tuple(name for name, missing in zip(limits.joint_names, unknown, strict=True) if missing)
    velocity = np.where(unknown, assumed_velocity if assumed_velocity > 0 else 1.0, velocity)
    acceleration = _full(limits.acceleration, dof, np.inf)
    no_acceleration = ~np.isfinite(acceleration)
    acceleration = np.where(no_acceleration, 2 * velocity / stop_time, acceleration)
    jerk = _full(limits.jerk, dof, np.inf)
    no_jerk = ~np.isfinite(jerk)
    jerk = np.where(no_jerk, 2 * acceleration / stop_time, jerk)
    parts = [
        f"{what} of {_names(limits.joint_names, missing)} ({_numbers(values[missing])})"
        for what, missing, values in (
            ("velocity", unknown, velocity),
            ("acceleration", no_acceleration, acceleration),
            ("jerk", no_jerk, jerk),
        )
        if missing.any()
    ]
    lacking = () if assumed_velocity > 0 else lacking
    given = np.stack([_full(bound, dof, np.inf) for bound in (limits.velocity, limits.acceleration, limits.jerk)])
    most = np.full_like(given, np.inf) if exceeded else given * (1 + _OF_SLACK * limits.slack)
    bounds = Bounds(low, high, velocity, acceleration, jerk, most, limits.deceleration)
    return AssumedLimits(bounds, lacking, ", ".join(parts))


def _full(bound: np.ndarray | None, dof: int, off: float) -> np.ndarray:
    return np.full(dof, off) if bound is None else np.asarray(bound, np.float64)


def _names(names: tuple[str, ...], chosen: np.ndarray) -> str:
    return "all joints" if chosen.all() else ", ".join(name for name, take in zip(names, chosen, strict=True) if take)


def _numbers(values: np.ndarray) -> str:
    distinct = sorted({f"{value:.4g}" for value in values}, key=float)
    return distinct[0] if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"
