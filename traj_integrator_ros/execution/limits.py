"""Whether a motion keeps its limits everywhere, not at its points alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .extremes import QUANTITIES, bernstein, extremes_of_piece
from .motion import Motion

RELATIVE_SLACK = 1e-5
"""A motion planned up to a limit may exceed it by the rounding of float32."""


@dataclass(frozen=True)
class Limits:
    """Limits per joint `[D]`, rad, rad/s, rad/s^2, rad/s^3; None is no limit, as is an infinite value."""

    position_min: np.ndarray | None = None
    position_max: np.ndarray | None = None
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None
    jerk: np.ndarray | None = None

    def bounds(self, order: int) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lowest and highest value `[D]` of the derivative of that order, slack included; None where off."""
        if order == 0:
            low, high = self.position_min, self.position_max
        else:
            high = (self.velocity, self.acceleration, self.jerk)[order - 1]
            low = None if high is None else -high
        slack = RELATIVE_SLACK
        return None if low is None else low - slack * np.abs(low), None if high is None else high + slack * np.abs(high)

    @cached_property
    def checked(self) -> tuple[tuple[int, np.ndarray | float, np.ndarray | float], ...]:
        """Orders of derivative that are limited at all, with their lowest and highest values."""
        pairs = ((order, *self.bounds(order)) for order in range(len(QUANTITIES)))
        return tuple(
            (order, -np.inf if low is None else low, np.inf if high is None else high)
            for order, low, high in pairs
            if low is not None or high is not None
        )


@dataclass(frozen=True)
class Violation:
    """Where a motion leaves a limit first, and by how much at most in the piece where it does."""

    joint: int
    quantity: str
    time: float
    """s from the motion's start, of the extreme in the first piece that leaves the limit."""
    value: float
    bound: float
    """The limit itself."""


def first_violation(motion: Motion, limits: Limits, *, from_time: float = 0.0) -> Violation | None:
    """Find where a motion leaves its limits first, by the exact extremes of its pieces.

    Args:
        motion: what is checked.
        limits: what it must keep.
        from_time: pieces that end before it, s, are not checked.

    Returns:
        The first violation of the first quantity (position, velocity, acceleration, jerk) that has one, or None.

    """
    if not limits.checked:
        return None
    first = max(int(np.searchsorted(motion.knots, from_time, side="right")) - 1, 0)
    spans = np.diff(motion.knots)[first:]
    coefficients = motion.coefficients[first:]
    for order, low, high in limits.checked:
        control = bernstein(coefficients, spans, order)
        if ((control <= high) & (control >= low)).all():
            continue
        near = ((control > high) | (control < low)).any(axis=1)  # [N, D]
        for piece, joint in np.argwhere(near):
            span = float(spans[piece])
            times, values = extremes_of_piece(coefficients[piece, :, joint], span, order)
            top = float(np.broadcast_to(high, motion.dof)[joint])
            bottom = float(np.broadcast_to(low, motion.dof)[joint])
            excess = np.maximum(values - top, bottom - values)
            worst = int(excess.argmax())
            if excess[worst] > 0:
                begin = float(motion.knots[first + piece])
                bound = _limit(limits, order, int(joint), above=values[worst] > top)
                return Violation(
                    int(joint), QUANTITIES[order], begin + float(times[worst]), float(values[worst]), bound
                )
    return None


def _limit(limits: Limits, order: int, joint: int, *, above: bool) -> float:
    if order == 0:
        return float((limits.position_max if above else limits.position_min)[joint])
    return float((limits.velocity, limits.acceleration, limits.jerk)[order - 1][joint])
