"""Whether a motion keeps its limits everywhere, not only at its points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import native
from .extremes import QUANTITIES, bernstein, control_points_within, extremes_of_piece, leaves_bounds, surely_within
from .motion import Motion

RELATIVE_SLACK = 1e-3
"""Relative slack by default: equality is no violation, nor is the ripple of interpolation."""
POSITION_SLACK = 1e-5
"""Relative slack of positions: a joint ends where it ends, wherever its 0 is."""


@dataclass(frozen=True)
class Limits:
    """Limits per joint `[D]`, rad, rad/s, rad/s^2, rad/s^3; None or an infinite value means no limit."""

    position_min: np.ndarray | None = None
    position_max: np.ndarray | None = None
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None
    jerk: np.ndarray | None = None
    slack: float = RELATIVE_SLACK
    """Relative; positions have that of the smallest distance that counts, 1e-5."""

    def of(self, quantity: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lowest and highest value `[D]` of "position", "velocity", "acceleration" or "jerk"; None if off."""
        if quantity == "position":
            return self.position_min, self.position_max
        largest = getattr(self, quantity)
        return None if largest is None else -largest, largest

    @cached_property
    def slackened(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Least and greatest value `[4, D]` of each derivative, with slack; infinite where off; None: no limits."""
        return self.with_slack(self.slack)

    def with_slack(self, slack: float) -> tuple[np.ndarray, np.ndarray] | None:
        """The same with another relative slack."""
        bounds = [self.of(quantity) for quantity in QUANTITIES]
        dof = next((len(bound) for pair in bounds for bound in pair if bound is not None), None)
        if dof is None:
            return None
        low, high = (
            np.stack([np.full(dof, off) if pair[side] is None else pair[side] for pair in bounds])
            for side, off in enumerate((-np.inf, np.inf))
        )
        # Positions end where the joint ends, wherever its 0 is.
        relative = np.array([min(slack, POSITION_SLACK), slack, slack, slack])[:, None]
        return low - relative * np.abs(low), high + relative * np.abs(high)

    def containing(self, position: np.ndarray) -> Limits:
        """The same, with positions widened to a position `[D]` that is outside of them."""
        low, high = self.position_min, self.position_max
        return replace(
            self,
            position_min=None if low is None else np.minimum(low, position),
            position_max=None if high is None else np.maximum(high, position),
        )


@dataclass(frozen=True)
class Violation:
    """The extreme of the first piece of a motion that exceeds a limit."""

    joint: int
    quantity: str
    time: float
    """When, s from the motion's start."""
    value: float
    bound: float
    """The limit itself."""


def first_violation(motion: Motion, limits: Limits) -> Violation | None:
    """Find where a motion first exceeds its limits, by the exact extremes of its pieces.

    The start state is where the robot is rather than part of the plan: the first piece may begin outside the limits.

    Returns:
        The first violation of the first quantity (position, velocity, acceleration, jerk) that has one, or None.

    """
    if limits.slackened is None:
        return None
    lows, highs = limits.slackened
    if _surely_keeps(motion, lows, highs):
        return None
    steps = motion.steps
    for order, (low, high) in enumerate(zip(lows, highs, strict=True)):
        if not (np.isfinite(low).any() or np.isfinite(high).any()):
            continue
        control = bernstein(motion.coefficients, steps, order)  # [N, n + 1, D]
        lowest, highest = np.tile(low, (len(steps), 1)), np.tile(high, (len(steps), 1))
        if order < 3:
            lowest[0], highest[0] = np.minimum(low, control[0, 0]), np.maximum(high, control[0, 0])
        found = _first_piece(control, lowest, highest)
        if found is not None:
            return _violation(motion, limits, order, found, lowest[found], highest[found])
    return None


def _surely_keeps(motion: Motion, lows: np.ndarray, highs: np.ndarray) -> bool:
    kept = native.surely_keeps(motion.coefficients, motion.knots, lows, highs)
    if kept is not None:
        return kept
    if surely_within(motion.coefficients, float(motion.steps.max()), lows, highs):
        return True
    return control_points_within(motion, lows, highs)  # as a brake at its limits does


def _first_piece(control: np.ndarray, lowest: np.ndarray, highest: np.ndarray) -> tuple[int, int] | None:
    """First piece, and a joint, whose polynomial leaves its bounds `[N, D]`."""
    near = (control.max(axis=1) > highest) | (control.min(axis=1) < lowest)
    pieces, joints = np.nonzero(near)
    if not len(pieces):
        return None
    leaves = leaves_bounds(control[pieces, :, joints], lowest[near], highest[near])
    first = int(leaves.argmax())
    return (int(pieces[first]), int(joints[first])) if leaves[first] else None


def _violation(
    motion: Motion, limits: Limits, order: int, found: tuple[int, int], lowest: float, highest: float
) -> Violation:
    piece, joint = found
    times, values = extremes_of_piece(motion.coefficients[piece, :, joint], float(motion.steps[piece]), order)
    excess = np.maximum(values - highest, lowest - values)
    worst = int(excess.argmax())
    value = float(values[worst])
    low, high = limits.of(QUANTITIES[order])
    bound = high if value > highest or low is None else low
    if order:
        bound = high
    time = float(motion.knots[piece] + times[worst])
    return Violation(joint, QUANTITIES[order], time, value, float(bound[joint]))
