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
    names, made, told = limits.joint_names, [], []
    bounds = limits.velocity, limits.acceleration, limits.jerk
    given = np.stack([_full(bound, len(names), np.inf) for bound in bounds])
    missing = ~np.isfinite(given)
    for what, bound, unknown in zip(("velocity", "acceleration", "jerk"), given, missing, strict=True):
        otherwise = 2 * made[-1] / stop_time if made else assumed_velocity if assumed_velocity > 0 else 1.0
        made.append(np.where(unknown, otherwise, bound))
        if unknown.any():
            told.append(f"{what} of {_names(names, unknown)} ({_numbers(made[-1][unknown])})")
    lacking = () if assumed_velocity > 0 else tuple(np.array(names)[missing[0]].tolist())
    position = [
        _full(bound, len(names), off) for bound, off in zip(limits.of("position"), (-np.inf, np.inf), strict=True)
    ]
    most = np.full_like(given, np.inf) if exceeded else given * (1 + _OF_SLACK * limits.slack)
    return AssumedLimits(Bounds(*position, *made, most, limits.deceleration), lacking, ", ".join(told))


def _full(bound: np.ndarray | None, dof: int, off: float) -> np.ndarray:
    return np.full(dof, off) if bound is None else np.asarray(bound, np.float64)


def _names(names: tuple[str, ...], chosen: np.ndarray) -> str:
    return "all joints" if chosen.all() else ", ".join(name for name, take in zip(names, chosen, strict=True) if take)


def _numbers(values: np.ndarray) -> str:
    distinct = sorted({f"{value:.4g}" for value in values}, key=float)
    return distinct[0] if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"
