"""Whether a motion keeps its limits everywhere, not only at its points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from .extremes import QUANTITIES, bernstein, extremes_of_piece, forward, surely_keeps
from .motion import Motion

RELATIVE_SLACK = 1e-3
"""Relative slack by default: equality is no violation, nor is the ripple of interpolation."""
POSITION_SLACK = 1e-5
"""Relative slack of positions: a joint ends where it ends, wherever its 0 is."""
DECELERATION = "deceleration"
"""Quantity of violations where a joint slows down, if that has limits of its own; both numbers are above 0."""
_ROUNDING = 60 * 2.0**-52
"""Times a position, over the cube of a piece's length: the jerk that the rounding of positions at its ends makes."""
_MERGED_S = 9e-6
"""Times a change of jerk, over a piece's length: the jerk where points less than 1 us apart became one, which moves the
change by as much: a quintic's jerk at one of its ends is 9 times a wrong acceleration there over its length.
"""
_PLATEAU = 1e-7
"""Relative difference from the worst value beyond which other pieces are not searched: hundreds lie on a plateau."""


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
    deceleration: np.ndarray | None = None
    """Instead of `acceleration` while a joint slows down; None or infinite: the same."""

    def of(self, quantity: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Lowest and highest value `[D]` of "position", "velocity", "acceleration" or "jerk"; None if off.

        Accelerations within them are so whether a joint speeds up or slows down.
        """
        if quantity == "position":
            return self.position_min, self.position_max
        largest = getattr(self, quantity)
        if quantity == "acceleration" and self.deceleration is not None:
            largest = self.deceleration if largest is None else np.minimum(largest, self.deceleration)
        return None if largest is None else -largest, largest

    @cached_property
    def forward(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Least and greatest acceleration `[D]` of joints that go forward; None where both are the same."""
        if self.deceleration is None:
            return None
        most = np.full(len(self.deceleration), np.inf) if self.acceleration is None else self.acceleration
        return -np.where(np.isfinite(self.deceleration), self.deceleration, most), most

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
        if (low is None or (low <= position).all()) and (high is None or (position <= high).all()):
            return self
        return replace(
            self,
            position_min=None if low is None else np.minimum(low, position),
            position_max=None if high is None else np.maximum(high, position),
        )


@dataclass(frozen=True)
class Violation:
    """Where a joint exceeds a limit most."""

    joint: int
    quantity: str
    time: float
    """When, s from the motion's start."""
    value: float
    bound: float
    """The limit itself, below 0 where it is the lower one."""

    @property
    def excess(self) -> float:
        """See `relative_excess`."""
        return relative_excess(self.quantity, self.value, self.bound)

    @property
    def order(self) -> int:
        """Of the derivative that exceeds its limit."""
        return QUANTITIES.index("acceleration" if self.quantity == DECELERATION else self.quantity)

    @property
    def slowing_down(self) -> Violation:
        """A negative acceleration of a joint that goes forward, as a deceleration."""
        return replace(self, quantity=DECELERATION, value=-self.value, bound=-self.bound)

    def told(self, joint_name: str, place: str, unit: str = "") -> str:
        """In words; see `told_excess`."""
        return told_excess(self.quantity, joint_name, self.value, self.bound, place, unit)


def relative_excess(quantity: str, value: float, bound: float) -> float:
    """By how much a value exceeds a limit, relative to it; for positions, whose 0 is anywhere, in rad or m."""
    beyond = abs(value - bound)
    if quantity == "position":
        return beyond
    return beyond / abs(bound) if bound else float("inf")


def shown_excess(quantity: str, value: float, bound: float, unit: str = "") -> str:
    """`relative_excess` in words: in percent, or for positions in their unit."""
    excess = relative_excess(quantity, value, bound)
    return f"{excess:.3g} {unit}".rstrip() if quantity == "position" else f"{100 * excess:.3g} %"


def told_excess(quantity: str, joint: str, value: float, bound: float, place: str, unit: str = "") -> str:
    """In words: what exceeds its limit, by how much, and where."""
    values = f"{value:.5g} of {bound:g} {unit}".rstrip()
    return f"{quantity} of {joint} exceeds its limit by {shown_excess(quantity, value, bound, unit)} {place} ({values})"


def worst_violation(motion: Motion, limits: Limits) -> Violation | None:
    """The one of `worst_violations` with the largest excess, None if there is none."""
    return max(worst_violations(motion, limits), key=lambda found: found.excess, default=None)


def worst_violations(motion: Motion, limits: Limits, *, of_points: bool = False) -> list[Violation]:
    """Where each joint exceeds the limits of each quantity most, by the exact extremes of the motion's pieces.

    The start state is where the robot is rather than part of the plan: the first piece may begin outside the limits.

    Args:
        motion: what is judged.
        limits: of its joints.
        of_points: whether the motion was made from the points of a message: what these cannot say of the jerk between
            points a few microseconds apart is no violation.

    """
    if limits.slackened is None:
        return []
    lows, highs = limits.slackened
    if surely_keeps(motion, lows, highs):
        return []
    found = []
    for order, quantity in enumerate(QUANTITIES):
        bounds = limits.of(quantity)
        if all(bound is None for bound in bounds):
            continue
        if quantity == "acceleration" and limits.forward is not None:
            sides = tuple(side * (1 + limits.slack) for side in limits.forward)
            beyond = _beyond(forward(motion, bounds[1]), order, limits.forward, sides)
            found += [one if one.value > 0 else one.slowing_down for one in beyond]
        else:
            found += _beyond(motion, order, bounds, (lows[order], highs[order]), of_points)
    return found


def _beyond(
    motion: Motion,
    order: int,
    bounds: tuple[np.ndarray | None, np.ndarray | None],
    sides: tuple[np.ndarray, np.ndarray],
    of_points: bool = False,
) -> list[Violation]:
    """Where each joint is furthest beyond the bounds of a derivative `[D]`, which with their slack are `sides`."""
    control = bernstein(motion.coefficients, motion.steps, order)  # [N, n + 1, D]
    near = (control.max(axis=(0, 1)) > sides[1]) | (control.min(axis=(0, 1)) < sides[0])
    found = []
    for joint in np.flatnonzero(near):
        unknown = np.zeros(len(control))
        if of_points and QUANTITIES[order] == "jerk":
            rounding = _ROUNDING * np.abs(motion.coefficients[:, 0, joint]) / motion.steps**3
            unknown = rounding + _MERGED_S * sides[1][joint] / motion.steps
        worst = [
            _worst(
                motion, control[:, :, joint], order, int(joint), sign, float(bound[joint]), float(side[joint]), unknown
            )
            for sign, bound, side in zip((-1.0, 1.0), bounds, sides, strict=True)
            if bound is not None
        ]
        beyond = [one for one in worst if one is not None]
        found += [max(beyond, key=lambda one: one.excess)] if beyond else []
    return found


def _worst(
    motion: Motion,
    control: np.ndarray,
    order: int,
    joint: int,
    sign: float,
    bound: float,
    slackened: float,
    unknown: np.ndarray,
) -> Violation | None:
    """The value of a derivative of a joint that is furthest beyond a bound with its slack; `sign` 1: the highest.

    By as much as is `unknown` in a piece, `[N]`, it may be beyond.
    """
    reach = (sign * control).max(axis=1) - unknown  # each piece's values are at most this
    worst: Violation | None = None
    for piece in np.argsort(-reach):
        if reach[piece] <= (sign * slackened if worst is None else sign * worst.value + _PLATEAU * abs(worst.value)):
            break
        times, values = extremes_of_piece(motion.coefficients[piece, :, joint], float(motion.steps[piece]), order)
        values = values - sign * unknown[piece]
        k = int((sign * values).argmax())
        may_begin_there = piece == 0 and order < 3
        allowed = max(sign * slackened, sign * float(control[0, 0])) if may_begin_there else sign * slackened
        if sign * values[k] > allowed and (worst is None or sign * values[k] > sign * worst.value):
            time = float(motion.knots[piece] + times[k])
            worst = Violation(joint, QUANTITIES[order], time, float(values[k]), bound)
    return worst
