"""Joint limits: whether a trajectory keeps them, and where it does not. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from ..execution.limits import POSITION_SLACK, RELATIVE_SLACK, Limits, first_violation
from ..execution.motion import Motion

if TYPE_CHECKING:  # brings torch with it
    from ..kernels import Trajectory


@dataclass(frozen=True)
class JointLimits:
    """Limits per joint `[dof]` in the node's order; None or an infinite value means no limit."""

    joint_names: tuple[str, ...]
    position_min: np.ndarray | None = None
    position_max: np.ndarray | None = None
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None
    jerk: np.ndarray | None = None
    slack: float = RELATIVE_SLACK
    """Relative; see `Limits`."""

    def bounds(self, quantity: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lowest and highest value `[dof]` of "position", "velocity", "acceleration" or "jerk", None if off."""
        return self.of_motion.of(quantity)

    @cached_property
    def of_motion(self) -> Limits:
        """The same limits, for motions."""
        return Limits(self.position_min, self.position_max, self.velocity, self.acceleration, self.jerk, self.slack)

    def containing(self, position: np.ndarray) -> JointLimits:
        """The same, with positions widened to a position `[dof]` that is outside of them."""
        wide = self.of_motion.containing(position)
        return replace(self, position_min=wide.position_min, position_max=wide.position_max)

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
        bounds = self.of_motion.with_slack(0.999 * self.slack)
        return None if bounds is None else (bounds[0][:, None], bounds[1][:, None])


@dataclass(frozen=True)
class LimitViolation:
    """The value that exceeds its limit most, in the first quantity in which any value does."""

    quantity: str
    joint: str
    row: int
    """Trajectory of the batch."""
    step: int
    """Row of the trajectory."""
    value: float
    limit: float

    def __str__(self) -> str:
        return (
            f"{self.quantity} of {self.joint}: limit {self.limit:g}, got {self.value:g} "
            f"at step {self.step} of trajectory {self.row}"
        )


def excess(value: np.ndarray | float, highest: np.ndarray | float, slack: float = RELATIVE_SLACK) -> np.ndarray | float:
    """By how much a value exceeds its limit beyond a relative slack; 0 or less if it does not. Infinity: no limit."""
    return value - highest - slack * np.abs(highest)


def find_violation(trajectory: Trajectory, limits: JointLimits, start_row: int = 0) -> LimitViolation | None:
    """Find where a trajectory exceeds its limits.

    The start state, and rows before it, are where the robot is rather than part of the plan, and are not checked.

    Args:
        trajectory: arrays `[B, H, dof]`, numpy; any of them may be None.
        limits: the limits to check.
        start_row: row of the start state.

    Returns:
        The worst violation of the first quantity that has one, or None.

    """
    first = start_row + 1
    bounds = (
        ("position", trajectory.position, limits.position_max, 1.0),
        ("position", trajectory.position, limits.position_min, -1.0),
        ("velocity", trajectory.velocity, limits.velocity, None),
        ("acceleration", trajectory.acceleration, limits.acceleration, None),
        ("jerk", trajectory.jerk, limits.jerk, None),
    )
    for quantity, values, limit, sign in bounds:
        if limit is None or values is None or values.shape[1] <= first:
            continue
        planned = values[:, first:]
        # First the worst value of each joint: one pass over the trajectory, if possible without a temporary of its
        # size.
        if sign is None:
            worst = np.maximum(_over_batch(np.max, planned), -_over_batch(np.min, planned))
            bound = limit
        else:
            worst = _over_batch(np.max, planned) if sign > 0 else -_over_batch(np.min, planned)
            bound = sign * limit
        beyond = excess(worst, bound, limits.slack if sign is None else min(limits.slack, POSITION_SLACK))
        joint = int(beyond.argmax())
        if not beyond[joint] > 0:
            continue
        column = planned[:, :, joint]
        column = np.abs(column) if sign is None else sign * column
        row, step = (int(i) for i in np.unravel_index(int(column.argmax()), column.shape))
        value = float(planned[row, step, joint])
        return LimitViolation(quantity, limits.joint_names[joint], row, step + first, value, float(limit[joint]))
    return None


def _over_batch(reduce: Callable[..., np.ndarray], planned: np.ndarray) -> np.ndarray:
    """Reduce to one value per joint; over the batch first if memory is contiguous, which is 20 times faster."""
    return reduce(reduce(planned, axis=0), axis=0)


def find_motion_violation(
    motion: Motion, limits: JointLimits, brakes_at: float | None = None, *, steps: bool = True
) -> str:
    """Describe where a motion exceeds its limits, between its points as well; empty if it does not.

    A joint that begins outside a limit may return within the first piece: the robot is there, but it was not planned.
    If accelerations are held, jerk is the change from one to the next over a step, as in the rows of the map.

    Args:
        motion: what is to be commanded.
        limits: the limits to check.
        brakes_at: when the plan ends and a brake begins, s; None: no brake.
        steps: whether held accelerations are checked, which needs the plan's own knots.

    """
    found = first_violation(motion, limits.of_motion)
    if found is not None:
        finding = f"{found.quantity} of {limits.joint_names[found.joint]}"
        place = f"limit {found.bound:g}, got {found.value:g} at {found.time:.3f} s"
        if brakes_at is not None and found.time > brakes_at:
            return f"{finding}: {place}, while braking from the end of the plan at {brakes_at:.3f} s"
        return f"{finding}: {place}"
    if motion.with_accelerations or limits.jerk is None or not steps:
        return ""
    return _steps_beyond(motion, limits, brakes_at)


def _steps_beyond(motion: Motion, limits: JointLimits, brakes_at: float | None) -> str:
    """Describe where held accelerations change by more than the jerk limit allows within a step."""
    held = motion.knots[:-1] < (np.inf if brakes_at is None else brakes_at - 1e-9)
    accelerations = 2 * motion.coefficients[held, 2]
    if len(accelerations) < 2:
        return ""
    jerk = np.diff(accelerations, axis=0) / np.diff(motion.knots[1 : len(accelerations) + 1])[:, None]
    beyond = excess(np.abs(jerk), limits.jerk, limits.slack)
    step, joint = np.unravel_index(int(beyond.argmax()), beyond.shape)
    if not beyond[step, joint] > 0:
        return ""
    time = motion.knots[step + 1]
    return (
        f"jerk of {limits.joint_names[joint]}: limit {limits.jerk[joint]:g}, got {jerk[step, joint]:g} "
        f"(a step of acceleration) at {time:.3f} s"
    )
