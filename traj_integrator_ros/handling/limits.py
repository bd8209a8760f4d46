"""Joint limits: whether a trajectory keeps them, where it does not, and what is assumed without. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..execution.limits import (
    DECELERATION,
    POSITION_SLACK,
    QUANTITIES,
    Bounds,
    Limits,
    excess,
    relative_excess,
    told_excess,
)

if TYPE_CHECKING:  # brings torch with it
    from ..kernels import Trajectory

_OF_SLACK = 0.5
"""Share of the slack of a limit that joins and brakes use where the plan uses it, too."""


@dataclass(frozen=True)
class JointLimits(Limits):
    """Limits of joints that have names, `[dof]` in the node's order."""

    def of_joints(self, joint_names: Sequence[str]) -> JointLimits:
        """The limits of other joints, in their order; none for joints that these do not name."""
        places = [self.joint_names.index(name) if name in self.joint_names else -1 for name in joint_names]
        arranged = {}
        for field in fields(Limits):
            if isinstance(values := getattr(self, field.name), np.ndarray):
                off = -np.inf if field.name == "position_min" else np.inf
                arranged[field.name] = np.append(values, off)[places]
        return replace(self, joint_names=tuple(joint_names), **arranged)

    def surely_kept(self, trajectories: np.ndarray, start_row: int = 0) -> bool:
        """Whether `find_violation` would find none, in few operations; in close cases the answer is False.

        Args:
            trajectories: position, velocity, acceleration and jerk, `[4, B, H, dof]`, finite.
            start_row: row of the start state.

        """
        if self._thresholds is None:
            return True
        lowest, highest = self._thresholds
        if trajectories.shape[1] == 1:
            planned = trajectories[:, 0, start_row + 1 :]
            return not ((planned > highest).any() or (planned < lowest).any())
        # Over the batch first, where the memory is contiguous.
        most, least = (reduced(trajectories, axis=1)[:, start_row + 1 :] for reduced in (np.max, np.min))
        return not ((most > highest).any() or (least < lowest).any())

    @cached_property
    def _thresholds(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Bounds `[4, H, dof]` within which values need no further check; None without limits."""
        bounds = self.with_slack(0.999 * self.slack)
        return None if bounds is None else (bounds[0][:, None], bounds[1][:, None])


def find_violation(trajectory: Trajectory, limits: JointLimits, start_row: int = 0) -> str:
    """Describe where a trajectory exceeds its limits most, see `relative_excess`; empty if it does not.

    The start state, and rows before it, are where the robot is rather than part of the plan, and are not checked.

    Args:
        trajectory: arrays `[B, H, dof]`, numpy; any of them may be None.
        limits: the limits to check.
        start_row: row of the start state.

    """
    first = start_row + 1
    worst, told = 0.0, ""
    for quantity in QUANTITIES:
        values = getattr(trajectory, quantity)
        if values is None or values.shape[1] <= first:
            continue
        planned = values[:, first:]
        slack = min(limits.slack, POSITION_SLACK) if quantity == "position" else limits.slack
        slowing, bounds = quantity, limits.of(quantity)
        if quantity == "acceleration" and limits.forward is not None and trajectory.velocity is not None:
            slowing, bounds = DECELERATION, limits.forward
            planned = forward_rows(planned, trajectory.velocity[:, first:], bounds)
        for reduce, sign, bound in zip((np.min, np.max), (-1.0, 1.0), bounds, strict=True):
            if bound is None:
                continue
            # The largest of each joint: over the batch first, which is contiguous, and 20 times faster.
            reached = reduce(reduce(planned, axis=0), axis=0)
            for joint in np.flatnonzero(excess(sign * reached, sign * bound, slack) > 0):
                value, limit = float(reached[joint]), float(bound[joint])
                by = relative_excess(quantity, value, limit)
                if told and by <= worst:
                    continue
                row, step = np.argwhere(planned[:, :, joint] == value)[0]
                if sign < 0 and slowing is DECELERATION:
                    value, limit = -value, -limit
                named, place = slowing if sign < 0 else quantity, f"at step {step + first} of trajectory {row}"
                worst, told = by, told_excess(named, limits.joint_names[joint], value, limit, place)
    return told


def forward_rows(acceleration: np.ndarray, velocity: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Accelerations `[..., dof]`, above 0 where joints speed up; of a joint that rests, on the side with more room."""
    either = np.where(bounds[1] >= -bounds[0], 1.0, -1.0) * np.abs(acceleration)
    return np.where(velocity == 0, either, acceleration * np.sign(velocity))


# Limits that nobody gave, assumed for joins and brakes: never a reason to refuse a plan


class AssumedLimits(NamedTuple):
    """Limits with which every motion to a plan, and every brake, is made."""

    bounds: Bounds
    lacking: tuple[str, ...]
    """Joints whose velocity nobody limits: nothing is published for a controller."""
    description: str
    """The assumptions, in words; empty if everything was given."""


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
