"""Joint limits: where a trajectory exceeds them, and assumed values for missing ones. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import NamedTuple

import numpy as np

from ..execution.bounds import Bounds
from ..execution.limits import (
    POSITION_SLACK,
    QUANTITIES,
    Limits,
    Violation,
    excess,
)

_OF_SLACK = 0.5
"""Share of the tolerance of a limit that blends and brakes may use if plans may use it, too."""


@dataclass(frozen=True)
class JointLimits(Limits):
    """Limits of named joints, `[dof]` in the node's order."""

    def of_joints(self, joint_names: Sequence[str]) -> JointLimits:
        """Return the limits of other joints, in their order; a joint that is not named here has none."""
        places = [self.joint_names.index(name) if name in self.joint_names else -1 for name in joint_names]
        arranged = {}
        for field in fields(Limits):
            if isinstance(values := getattr(self, field.name), np.ndarray):
                off = -np.inf if field.name == "position_min" else np.inf
                arranged[field.name] = np.append(values, off)[places]
        return replace(self, joint_names=tuple(joint_names), **arranged)


def find_violation(trajectories: np.ndarray, limits: JointLimits, start_row: int = 0) -> str:
    """Describe where trajectories exceed their limits most (see `Violation.excess`); empty if they do not.

    The start state, and rows before it, are the robot's and no part of the plan: they are not checked.

    Args:
        trajectories: position, velocity, acceleration and jerk, `[4, B, H, dof]`, finite.
        limits: of the joints.
        start_row: row of the start state.

    """
    first = start_row + 1
    planned, allowed = trajectories[:, :, first:], limits.slackened
    if allowed is None or not planned.size:
        return ""
    # The extremes of each row: over the batch first, which is contiguous, and 20 times faster.
    extremes = planned.min(axis=1), planned.max(axis=1)
    if (extremes[0] >= allowed[0][:, None]).all() and (extremes[1] <= allowed[1][:, None]).all():
        return ""
    worst, place = None, ""
    for order, quantity in enumerate(QUANTITIES):
        values, reached = planned[order], [of_rows[order] for of_rows in extremes]
        slack = min(limits.slack, POSITION_SLACK) if quantity == "position" else limits.slack
        bounds = limits.range_of(quantity)
        if slows := quantity == "acceleration" and limits.forward is not None:
            bounds = limits.forward
            values = forward_rows(values, planned[1], bounds)
            reached = [values.min(axis=0), values.max(axis=0)]
        for reduce, sign, of_rows, bound in zip((np.min, np.max), (-1.0, 1.0), reached, bounds, strict=True):
            if bound is None:
                continue
            of_joints = reduce(of_rows, axis=0)
            for joint in np.flatnonzero(excess(sign * of_joints, sign * bound, slack) > 0):
                value, limit = float(of_joints[joint]), float(bound[joint])
                found = Violation(int(joint), quantity, 0.0, value, limit)
                if worst is not None and found.excess <= worst.excess:
                    continue
                row, step = np.argwhere(values[:, :, joint] == value)[0]
                worst = found.slowing_down if sign < 0 and slows else found
                place = f"at step {step + first} of trajectory {row}"
    return worst.describe(limits.joint_names[worst.joint], place) if worst is not None else ""


def forward_rows(acceleration: np.ndarray, velocity: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Return accelerations `[..., dof]`, positive where joints speed up; at rest, with the sign of the wider bound."""
    either = np.where(bounds[1] >= -bounds[0], 1.0, -1.0) * np.abs(acceleration)
    return np.where(velocity == 0, either, acceleration * np.sign(velocity))


def limits_lacking(joint_names: Sequence[str], limits: np.ndarray | None) -> str:
    """Name the joints without a limit; empty if all have one."""
    limited = np.zeros(len(joint_names), bool) if limits is None else np.isfinite(limits)
    return ", ".join(name for name, known in zip(joint_names, limited, strict=True) if not known)


# Assumed limits of blends and brakes, which never cause the refusal of a plan


class AssumedLimits(NamedTuple):
    """Limits of every blend to a plan and of every brake, with assumed values where none is given."""

    bounds: Bounds
    lacking: tuple[str, ...]
    """Joints without a limit of velocity: because of them, no trajectory is published for a controller."""
    description: str
    """Description of the assumed limits; empty if all are given."""


def assumed_limits(
    limits: JointLimits, stop_time: float, assumed_velocity: float, *, exceeded: bool = False
) -> AssumedLimits:
    """Complete the limits of joints with assumptions.

    A joint without a limit of acceleration is assumed to stop from its largest velocity v within T: with acceleration
    2 v / T and jerk 4 v / T^2. A joint with a limit a of acceleration, but none of jerk, has the jerk 2 a / T.

    Args:
        limits: as given; values for missing or infinite ones are assumed.
        stop_time: T, s.
        assumed_velocity: limit of velocity for joints without one, rad/s; 0: none is assumed.
        exceeded: whether plans, and their brakes, may exceed limits that are given.

    """
    names, made, descriptions = limits.joint_names, [], []
    bounds = limits.velocity, limits.acceleration, limits.jerk
    given = np.stack([_full(bound, len(names), np.inf) for bound in bounds])
    missing = ~np.isfinite(given)
    for what, bound, unknown in zip(("velocity", "acceleration", "jerk"), given, missing, strict=True):
        otherwise = 2 * made[-1] / stop_time if made else assumed_velocity if assumed_velocity > 0 else 1.0
        made.append(np.where(unknown, otherwise, bound))
        if unknown.any():
            descriptions.append(f"{what} of {_names(names, unknown)} ({_numbers(made[-1][unknown])})")
    lacking = () if assumed_velocity > 0 else tuple(np.array(names)[missing[0]].tolist())
    position = [
        _full(bound, len(names), off) for bound, off in zip(limits.range_of("position"), (-np.inf, np.inf), strict=True)
    ]
    most = np.full_like(given, np.inf) if exceeded else given * (1 + _OF_SLACK * limits.slack)
    bounds = Bounds(*position, *made, deceleration=limits.deceleration, most=most)
    return AssumedLimits(bounds, lacking, ", ".join(descriptions))


def _full(bound: np.ndarray | None, dof: int, off: float) -> np.ndarray:
    return np.full(dof, off) if bound is None else np.asarray(bound, np.float64)


def _names(names: tuple[str, ...], chosen: np.ndarray) -> str:
    return "all joints" if chosen.all() else ", ".join(name for name, take in zip(names, chosen, strict=True) if take)


def _numbers(values: np.ndarray) -> str:
    distinct = sorted({f"{value:.4g}" for value in values}, key=float)
    return distinct[0] if len(distinct) == 1 else f"{distinct[0]} to {distinct[-1]}"
