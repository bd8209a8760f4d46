"""The exact extremes of a motion, and whether it keeps limits, between its points as well."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.polynomial.polynomial import polyder

from . import native
from .motion import Motion
from .polynomials import SIZE, extremes_of_piece, roots_within
from .tolerances import ROUNDING, STANDS_RAD_S

QUANTITIES = ("position", "velocity", "acceleration", "jerk")
"""The quantities that have limits, by order of derivative."""
RELATIVE_SLACK = 1e-3
"""Default tolerance of limits, relative: neither equality nor the ripple of interpolation is a violation."""
POSITION_SLACK = 1e-5
"""Tolerance of position limits, relative: it is small, since the 0 of a joint is arbitrary."""
POSITION_ROUNDING = 1e-7
"""Excess of a position limit, rad or m, that is no violation: no encoder resolves a tenth of a micrometre."""
DECELERATION = "deceleration"
"""Name of violations by a joint that slows down, if there are limits of deceleration; both numbers are positive."""
_ROUNDED_JERK = 60 * 2.0**-52
"""Jerk that rounding of positions causes, as a multiple of the position divided by the cube of a segment's duration."""
_MERGED_S = 18e-6
"""Largest error of the jerk, as a multiple of the largest jerk divided by a segment's duration, where two points less
than 1 us apart have been merged. Merging shifts a change of jerk, of at most twice the largest jerk, by up to 1 us. The
product of the two is the error of the acceleration at the end of a segment, and 9 times that, divided by the duration,
the error of a quintic's jerk.
"""
OUTWARD = np.array([-1.0, 1.0])[:, None, None]
"""Directions beyond lower and upper limits."""
LONGEST_BRAKE_S = 30.0
"""Longest brake, s: a longer one shows that the limits are not those of a robot."""


@dataclass(frozen=True)
class Limits:
    """Limits of each joint, `[D]`: rad, rad/s, rad/s^2, rad/s^3. None or an infinite value means no limit."""

    position_min: np.ndarray | None = None
    position_max: np.ndarray | None = None
    velocity: np.ndarray | None = None
    acceleration: np.ndarray | None = None
    jerk: np.ndarray | None = None
    slack: float = RELATIVE_SLACK
    """Tolerance, relative; for positions at most POSITION_SLACK."""
    deceleration: np.ndarray | None = None
    """Limit in place of `acceleration` while a joint slows down. None or infinite: `acceleration`."""
    joint_names: tuple[str, ...] = ()
    """Joint names for messages."""

    def range_of(self, quantity: str) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the lowest and highest value `[D]` of "position", "velocity", "acceleration" or "jerk"; None if
        unlimited.

        Those of accelerations hold both for speeding up and for slowing down.
        """
        if quantity == "position":
            return self.position_min, self.position_max
        largest = getattr(self, quantity)
        if quantity == "acceleration" and self.deceleration is not None:
            largest = self.deceleration if largest is None else np.minimum(largest, self.deceleration)
        return None if largest is None else -largest, largest

    @cached_property
    def forward(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return least and greatest acceleration `[D]` of joints that go forward; None if they differ in sign alone."""
        if self.deceleration is None:
            return None
        most = np.full(len(self.deceleration), np.inf) if self.acceleration is None else self.acceleration
        return -np.where(np.isfinite(self.deceleration), self.deceleration, most), most

    @cached_property
    def sides(self) -> np.ndarray | None:
        """Least and greatest values, `[2, 4, D]`, infinite where unlimited; None without limits."""
        bounds = [self.range_of(quantity) for quantity in QUANTITIES]
        dof = next((len(bound) for pair in bounds for bound in pair if bound is not None), None)
        if dof is None:
            return None
        return np.array([
            [np.full(dof, off) if pair[side] is None else pair[side] for pair in bounds]
            for side, off in enumerate((-np.inf, np.inf))
        ])  # fmt: skip

    @cached_property
    def slackened(self) -> np.ndarray | None:
        """The same with tolerance."""
        if self.sides is None:
            return None
        # The tolerance does not depend on where the 0 of a joint is.
        relative = np.array([min(self.slack, POSITION_SLACK), *[self.slack] * 3])[:, None]
        rounding = np.array([POSITION_ROUNDING, 0.0, 0.0, 0.0])[:, None]
        return self.sides + (relative * _finite(np.abs(self.sides)) + rounding) * OUTWARD

    def raised_to(self, motion: Motion) -> Limits:
        """Return the same limits with velocities, accelerations and jerks raised to those of a motion."""
        largest = np.abs(extremes(motion)).max(axis=0)
        orders = {"velocity": 1, "acceleration": 2, "deceleration": 2, "jerk": 3}
        given = {name: getattr(self, name) for name in orders}
        raised = {name: np.maximum(most, largest[orders[name]]) for name, most in given.items() if most is not None}
        return replace(self, **raised)

    def containing(self, least: np.ndarray | None, most: np.ndarray | None) -> Limits:
        """Return the same limits with positions widened to contain others, `[D]`; None: they need not be wider."""
        low, high = self.position_min, self.position_max
        below = low is not None and least is not None and np.count_nonzero(least < low)
        above = high is not None and most is not None and np.count_nonzero(most > high)
        if not below and not above:
            return self
        low = low if low is None or least is None else np.minimum(low, least)
        return replace(
            self,
            position_min=low,
            position_max=high if high is None or most is None else np.maximum(high, most),
        )


@dataclass(frozen=True)
class Violation:
    """The place where a joint exceeds a limit most."""

    joint: int
    quantity: str
    time: float
    """Time of the excess, s from the motion's start."""
    value: float
    bound: float
    """The limit; a lower limit of a rate is negative."""

    @property
    def excess(self) -> float:
        """Excess over the limit, relative to it; that of positions, whose 0 is arbitrary, in rad."""
        beyond = abs(self.value - self.bound)
        if self.quantity == "position":
            return beyond
        return beyond / abs(self.bound) if self.bound else float("inf")

    @property
    def order(self) -> int:
        """Order of the derivative that exceeds its limit."""
        return QUANTITIES.index("acceleration" if self.quantity == DECELERATION else self.quantity)

    @property
    def slowing_down(self) -> Violation:
        """Return the violation as one of deceleration: the joint goes forward, and its acceleration is negative."""
        return replace(self, quantity=DECELERATION, value=-self.value, bound=-self.bound)

    def shown(self, unit: str = "") -> str:
        """Format the excess: in percent, or for positions in their unit."""
        return f"{self.excess:.3g} {unit}".rstrip() if self.quantity == "position" else f"{100 * self.excess:.3g} %"

    def describe(self, joint_name: str, place: str, unit: str = "") -> str:
        """Describe the violation by quantity, joint, excess and place."""
        values = f"{self.value:.5g} of {self.bound:g} {unit}".rstrip()
        return f"{self.quantity} of {joint_name} exceeds its limit by {self.shown(unit)} {place} ({values})"


def extremes(motion: Motion) -> np.ndarray:
    """Return least and greatest position, velocity, acceleration and jerk of each joint, exact, `[2, 4, D]`."""
    return _ranges_of(motion, 1)[0]


def extremes_of_pieces(motion: Motion) -> np.ndarray:
    """Return the same of each segment, `[2, N, 4, D]`."""
    return np.moveaxis(_ranges_of(motion, len(motion.coefficients)), 1, 0)


def _ranges_of(motion: Motion, parts: int) -> np.ndarray:
    ranges = np.empty((parts, 2, len(QUANTITIES), motion.dof))
    ranges[:, 0], ranges[:, 1] = np.inf, -np.inf
    native.widen(motion.coefficients, motion.knots, ranges)
    return ranges


def keeps(motion: Motion, ranges: np.ndarray) -> bool:
    """Return whether all derivatives stay within ranges `[2, 4, D]`; fast if they stay well within."""
    return not native.widen(motion.coefficients, motion.knots, ranges[None].copy())


def forward(motion: Motion, either: np.ndarray) -> Motion:
    """Return the motion with all velocities made positive, so that negative accelerations slow joints down.

    Positions are meaningless in it. Where a joint hardly moves, its velocity and acceleration are 0.

    Args:
        motion: any.
        either: acceleration, rad/s^2, `[D]`, that is allowed both for speeding up and for slowing down; segments within
            it are left as they are.

    """
    (least, most), knots = extremes_of_pieces(motion)[:, :, 1:3], [motion.knots]
    turns = (least[:, 0] < 0) & (most[:, 0] > 0) & (np.maximum(most, -least)[:, 1] > either)
    for piece, joint in zip(*np.nonzero(turns), strict=True):
        span = float(motion.steps[piece])
        velocity = polyder(motion.coefficients[piece, :, joint])
        inside = roots_within(velocity * span ** np.arange(len(velocity)), ROUNDING)
        knots.append(motion.knots[piece] + inside * span)
    cut = motion.at_knots(np.unique(np.concatenate(knots)))
    (least, most), h = extremes_of_pieces(cut)[:, :, 1], cut.steps[:, None]
    way = (cut.coefficients[:, 1:] * h[..., None] ** np.arange(1, SIZE)[:, None]).sum(axis=1)
    sign = np.where(np.maximum(most, -least) > STANDS_RAD_S, np.sign(way), 0.0)
    return Motion(cut.knots, cut.coefficients * sign[:, None])


def worst_violation(motion: Motion, limits: Limits) -> Violation | None:
    """Return the one of `worst_violations` with the largest excess; None if there is none."""
    return max(worst_violations(motion, limits), key=lambda found: found.excess, default=None)


def worst_violations(motion: Motion, limits: Limits, *, of_points: bool = False) -> list[Violation]:
    """Return where each joint exceeds each limit most, from the exact extremes of the motion's segments.

    The start state is that of the robot and no part of the plan: the first segment may begin outside of the limits.

    Args:
        motion: to be checked.
        limits: of its joints.
        of_points: whether the motion was made from the points of a message. The jerk between points a few microseconds
            apart, which these cannot represent, is no violation then.

    """
    allowed = limits.slackened
    if allowed is None or keeps(motion, allowed):
        return []
    found: dict[tuple[int, int], Violation] = {}
    of_all = extremes_of_pieces(motion)
    for order, quantity in enumerate(QUANTITIES):
        judged, bounds, sides, of_pieces = motion, limits.range_of(quantity), allowed[:, order], of_all[:, :, order]
        if forwards := quantity == "acceleration" and limits.forward is not None:
            judged, bounds = forward(motion, bounds[1]), limits.forward
            sides = [side * (1 + limits.slack) for side in bounds]
            of_pieces = extremes_of_pieces(judged)[:, :, order]
        unknown = np.zeros((len(judged.steps), judged.dof))
        if of_points and quantity == "jerk":
            unknown += _ROUNDED_JERK * np.abs(judged.coefficients[:, 0]) / judged.steps[:, None] ** 3
            unknown += _MERGED_S * sides[1] / judged.steps[:, None]
        for side, sign in enumerate((-1.0, 1.0)):
            values, most = sign * of_pieces[side] - unknown, np.tile(sign * sides[side], (len(unknown), 1))
            if order < 3:  # a motion may begin beyond a limit
                most[0] = np.maximum(most[0], sign * judged.coefficients[0, order] * (order or 1))
            beyond = np.where(values > most, values, -np.inf)
            for joint in np.flatnonzero(beyond.max(axis=0) > -np.inf).tolist():
                piece = int(beyond[:, joint].argmax())
                at, reached = extremes_of_piece(judged.coefficients[piece, :, joint], float(judged.steps[piece]), order)
                time = float(judged.knots[piece] + at[(sign * reached).argmax()])
                value = float(sign * beyond[piece, joint])
                one = Violation(joint, quantity, time, value, float(bounds[side][joint]))
                one = one.slowing_down if forwards and value <= 0 else one
                if (order, joint) not in found or one.excess > found[order, joint].excess:
                    found[order, joint] = one
    return list(found.values())


def find_motion_violation(motion: Motion, limits: Limits, *, steps: bool = True) -> str:
    """Describe where a motion exceeds its limits, between its points as well; empty if it does not.

    A joint that begins outside of a limit, because the robot is there, may return within the first segment. The jerk of
    held accelerations is their change from step to step, divided by the step, as in the rows of the map.

    Args:
        motion: to be commanded.
        limits: of its joints.
        steps: whether changes of held accelerations are checked, which requires the plan's own knots.

    """
    found, step = worst_violation(motion, limits), None
    if steps and limits.jerk is not None and not motion.with_accelerations:
        step = _step_beyond(motion, limits)
    if found is None and step is None:
        return ""
    worst = max((one for one in (found, step) if one is not None), key=lambda one: one.excess)
    place = f"in a step of acceleration at {worst.time:.3f} s" if worst is step else f"at {worst.time:.3f} s"
    if worst.time > motion.plan_until:
        place += f", while braking from the end of the plan at {motion.plan_until:.3f} s"
    return worst.describe(limits.joint_names[worst.joint], place)


def _step_beyond(motion: Motion, limits: Limits) -> Violation | None:
    """Return where held accelerations exceed the limit of jerk most; None if they keep it."""
    held = motion.knots[:-1] < motion.plan_until - ROUNDING
    accelerations = 2 * motion.coefficients[held, 2]
    if len(accelerations) < 2:
        return None
    jerk = np.diff(accelerations, axis=0) / np.diff(motion.knots[1 : len(accelerations) + 1])[:, None]
    beyond = excess(np.abs(jerk), limits.jerk, limits.slack)
    step, joint = (int(i) for i in np.unravel_index(int(beyond.argmax()), beyond.shape))
    if not beyond[step, joint] > 0:
        return None
    value = float(jerk[step, joint])
    bound = float(np.copysign(limits.jerk[joint], value))
    return Violation(joint, "jerk", float(motion.knots[step + 1]), value, bound)


def excess(value: np.ndarray | float, highest: np.ndarray | float, slack: float = RELATIVE_SLACK) -> np.ndarray | float:
    """Return the excess over a limit (infinite: none) beyond a relative tolerance; 0 or less if the limit is kept."""
    return value - highest - slack * _finite(np.abs(highest))


def _finite(size: np.ndarray | float) -> np.ndarray:
    """Return sizes of limits, 0 where there is none: 0 times infinity would be NaN."""
    return np.where(np.isfinite(size), size, 0.0)
