"""What a motion reaches, and whether it keeps its limits, everywhere and not only at its points."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from . import native
from .motion import Motion
from .polynomials import bernstein, extremes_of_piece, roots_within, taylor_shift

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
"""By order of derivative."""
RELATIVE_SLACK = 1e-3
"""Relative slack by default: equality is no violation, nor is the ripple of interpolation."""
POSITION_SLACK = 1e-5
"""Relative slack of positions: a joint ends where it ends, wherever its 0 is."""
DECELERATION = "deceleration"
"""Quantity of violations where a joint slows down, if that has limits of its own; both numbers are above 0."""
_ROUNDING = 60 * 2.0**-52
"""Times a position, over the cube of a piece's length: the jerk that the rounding of positions at its ends makes."""
_MERGED_S = 18e-6
"""Times the largest jerk, over a piece's length: the jerk where points less than 1 us apart became one, which moves a
change of jerk, of twice as much, by as long: a quintic's jerk is 9 times a wrong acceleration at its end, over its
length.
"""
_AT_END = 1e-9
"""Share of a piece within which a velocity that is 0 is so at its end."""
_RESTS = 1e-6
"""rad/s; up to here a velocity is rounding and has no direction."""
_SIGNS = (-1.0, 1.0)
"""Of the lower and the upper bound."""
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


def extremes(motion: Motion) -> np.ndarray:
    """Least and greatest position, velocity, acceleration and jerk of each joint: `[2, 4, D]`, exact up to rounding."""
    result = np.empty((2, len(QUANTITIES), motion.dof))
    native.extremes(motion.coefficients, motion.knots, result)
    return result


def surely_keeps(motion: Motion, lows: np.ndarray, highs: np.ndarray) -> bool:
    """Whether a motion stays within bounds `[4, D]` of its derivatives, in few operations; in close cases False."""
    return native.surely_keeps(motion.coefficients, motion.knots, lows, highs)


def forward(motion: Motion, either: np.ndarray) -> Motion:
    """The motion with every velocity turned to be positive: it speeds up at positive accelerations, and slows down at
    negative ones. Positions are meaningless; where a joint hardly moves it has neither.

    Args:
        motion: any.
        either: rad/s^2, `[D]`; whether joints speed up or slow down does not matter up to here, and is not looked for.

    """
    knots = [motion.knots]
    control = bernstein(motion.coefficients, motion.steps, 1)
    turns = (control.min(axis=1) < 0) & (control.max(axis=1) > 0)
    turns &= np.abs(bernstein(motion.coefficients, motion.steps, 2)).max(axis=1) > either
    for piece, joint in zip(*np.nonzero(turns), strict=True):
        span = float(motion.steps[piece])
        velocity = np.polynomial.polynomial.polyder(motion.coefficients[piece, :, joint])
        inside = roots_within(velocity * span ** np.arange(len(velocity)), _AT_END)
        knots.append(motion.knots[piece] + inside * span)
    cut = np.unique(np.concatenate(knots))
    piece = np.clip(np.searchsorted(motion.knots, cut[:-1], side="right") - 1, 0, len(motion.steps) - 1)
    shifts = taylor_shift(cut[:-1] - motion.knots[piece], motion.degree)
    coefficients = shifts @ motion.coefficients[piece]
    control = bernstein(coefficients, np.diff(cut), 1)
    sign = np.where(np.abs(control).max(axis=1) > _RESTS, np.sign(control.sum(axis=1)), 0.0)
    return Motion(cut, coefficients * sign[:, None])


def worst_violation(motion: Motion, limits: Limits) -> Violation | None:
    """The one of `worst_violations` with the largest excess, None if there is none."""
    worst: Violation | None = None
    for suspect in sorted(_suspects(motion, limits, of_points=False), key=lambda suspect: -suspect.most):
        if worst is not None and suspect.most <= worst.excess * (1 + _PLATEAU):
            break
        found = suspect.violation()
        if found is not None and (worst is None or found.excess > worst.excess):
            worst = found
    return worst


def worst_violations(motion: Motion, limits: Limits, *, of_points: bool = False) -> list[Violation]:
    """Where each joint exceeds the limits of each quantity most, by the exact extremes of the motion's pieces.

    The start state is where the robot is rather than part of the plan: the first piece may begin outside the limits.

    Args:
        motion: what is judged.
        limits: of its joints.
        of_points: whether the motion was made from the points of a message: what these cannot say of the jerk between
            points a few microseconds apart is no violation.

    """
    found: dict[tuple[int, int], Violation] = {}
    for suspect in _suspects(motion, limits, of_points):
        one, place = suspect.violation(), (suspect.order, suspect.joint)
        if one is not None and (place not in found or one.excess > found[place].excess):
            found[place] = one
    return list(found.values())


def _suspects(motion: Motion, limits: Limits, of_points: bool) -> Iterator[_Suspect]:
    if limits.slackened is None:
        return
    lows, highs = limits.slackened
    if surely_keeps(motion, lows, highs):
        return
    of_motion = extremes(motion)
    for order, quantity in enumerate(QUANTITIES):
        judged, reached, bounds, sides = motion, of_motion, limits.of(quantity), (lows[order], highs[order])
        if forwards := quantity == "acceleration" and limits.forward is not None:
            judged, bounds = forward(motion, bounds[1]), limits.forward
            reached, sides = extremes(judged), tuple(side * (1 + limits.slack) for side in bounds)
        beyond = np.stack([reached[0, order] < sides[0], reached[1, order] > sides[1]])
        if not beyond.any():
            continue
        control = bernstein(judged.coefficients, judged.steps, order)  # [N, n + 1, D]
        unknown = np.zeros((len(control), motion.dof))
        if of_points and quantity == "jerk":
            rounding = _ROUNDING * np.abs(judged.coefficients[:, 0]) / judged.steps[:, None] ** 3
            unknown = rounding + _MERGED_S * sides[1] / judged.steps[:, None]
        reaches = (
            -control.min(axis=1) - unknown,
            control.max(axis=1) - unknown,
        )  # each piece's values are at most this
        for joint, side in np.argwhere(beyond.T).tolist():
            bound, slackened = float(bounds[side][joint]), float(sides[side][joint])
            excess = relative_excess(quantity, float(reached[side, order, joint]), bound)
            of_pieces = (reaches[side][:, joint], unknown[:, joint])
            yield _Suspect(excess, judged, order, joint, _SIGNS[side], bound, slackened, *of_pieces, forwards)


@dataclass(frozen=True)
class _Suspect:
    """A bound of a derivative of a joint that may be exceeded."""

    most: float
    """Excess, at most."""
    motion: Motion
    order: int
    joint: int
    sign: float
    """1: the bound is the highest value."""
    bound: float
    slackened: float
    """The bound with its slack."""
    reach: np.ndarray
    """`[N]`; each piece's values, times the sign, are at most this."""
    unknown: np.ndarray
    """`[N]`; by as much the values may be beyond."""
    forwards: bool
    """Whether velocities were turned to be positive."""

    def violation(self) -> Violation | None:
        """The value that is furthest beyond the bound with its slack."""
        motion, order, joint, sign, slackened = self.motion, self.order, self.joint, self.sign, self.slackened
        worst: Violation | None = None
        for piece in np.argsort(-self.reach):
            least = sign * slackened if worst is None else sign * worst.value + _PLATEAU * abs(worst.value)
            if self.reach[piece] <= least:
                break
            coefficients = motion.coefficients[piece, :, joint]
            times, values = extremes_of_piece(coefficients, float(motion.steps[piece]), order)
            values = values - sign * self.unknown[piece]
            k = int((sign * values).argmax())
            allowed = sign * slackened
            if piece == 0 and order < 3:  # it may begin there
                allowed = max(allowed, sign * float(motion.coefficients[0, order, joint]) * (order or 1))
            if sign * values[k] > allowed and (worst is None or sign * values[k] > sign * worst.value):
                time = float(motion.knots[piece] + times[k])
                worst = Violation(joint, QUANTITIES[order], time, float(values[k]), self.bound)
        return worst.slowing_down if worst is not None and self.forwards and worst.value <= 0 else worst
