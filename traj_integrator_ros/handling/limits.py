"""Joint limits: whether a trajectory keeps them, and where it does not. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import (
    DECELERATION,
    POSITION_SLACK,
    QUANTITIES,
    Limits,
    excess,
    relative_excess,
    told_excess,
)

if TYPE_CHECKING:  # brings torch with it
    from ..kernels import Trajectory


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


@dataclass(frozen=True)
class LimitViolation:
    """The value that exceeds its limit most; see `relative_excess`."""

    quantity: str
    joint: str
    row: int
    """Trajectory of the batch."""
    step: int
    """Row of the trajectory."""
    value: float
    limit: float

    def __str__(self) -> str:
        place = f"at step {self.step} of trajectory {self.row}"
        return told_excess(self.quantity, self.joint, self.value, self.limit, place)


def find_violation(trajectory: Trajectory, limits: JointLimits, start_row: int = 0) -> LimitViolation | None:
    """Find where a trajectory exceeds its limits.

    The start state, and rows before it, are where the robot is rather than part of the plan, and are not checked.

    Args:
        trajectory: arrays `[B, H, dof]`, numpy; any of them may be None.
        limits: the limits to check.
        start_row: row of the start state.

    Returns:
        The worst violation, or None.

    """
    first = start_row + 1
    found = []
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
            # First the worst value of each joint: one pass over the trajectory, without a temporary of its size.
            worst = _over_batch(reduce, planned)
            for joint in np.flatnonzero(excess(sign * worst, sign * bound, slack) > 0):
                value, limit = float(worst[joint]), float(bound[joint])
                place = np.argwhere(planned[:, :, joint] == value)[0]
                if sign < 0 and slowing is DECELERATION:
                    value, limit = -value, -limit
                named = slowing if sign < 0 else quantity
                found.append((relative_excess(quantity, value, limit), named, int(joint), place, value, limit))
    if not found:
        return None
    _, quantity, joint, (row, step), value, limit = max(found, key=lambda one: one[0])
    return LimitViolation(quantity, limits.joint_names[joint], int(row), int(step) + first, value, limit)


def forward_rows(acceleration: np.ndarray, velocity: np.ndarray, bounds: tuple[np.ndarray, np.ndarray]) -> np.ndarray:
    """Accelerations `[..., dof]`, above 0 where joints speed up; of a joint that rests, on the side with more room."""
    either = np.where(bounds[1] >= -bounds[0], 1.0, -1.0) * np.abs(acceleration)
    return np.where(velocity == 0, either, acceleration * np.sign(velocity))


def _over_batch(reduce: Callable[..., np.ndarray], planned: np.ndarray) -> np.ndarray:
    """Reduce to one value per joint; over the batch first if memory is contiguous, which is 20 times faster."""
    return reduce(reduce(planned, axis=0), axis=0)
