"""The clock of motions, which a speed slider, a pause or a protective stop holds back. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import MOST_KEPT, SECOND_NS

SAME_RATE = 1e-3
"""Smallest difference of two rates that counts: sliders have steps of 0.01."""
_AGREES_NS = 50_000
"""Largest difference between expected and reported time, ns, that is ignored: 0.05 mrad at 1 rad/s."""
NEAR_NS = 20_000_000
"""Largest distance, ns, of a motion from where the rates predict it: controllers enter messages late."""
_ENTERS_S = 3e-3
"""Time, s, from making a motion until the controller begins it, besides the way of the message."""

Sought = Callable[[int, int], "int | None"]
"""Called with a time of this clock and a distance from it, ns; returns when, within that, the motion is as reported."""


class _Known(NamedTuple):
    """From a time of the robot's clock on, this clock advances at a rate, until the next one is known."""

    robot_ns: int
    motion_ns: int
    rate: float = 1.0


class MotionClock:
    """Converts times of the robot's clock to the clock by which motions are executed.

    Motions, and plans relative to them, begin by this clock; all other times are the robot's. As long as no rate but 1
    has been reported, both clocks are the same.
    """

    def __init__(self) -> None:
        self._known = [_Known(0, 0)]
        self._reported_ns = 0

    @property
    def rate(self) -> float:
        """Seconds by which this clock advances in a second of the robot's clock."""
        return self._known[-1].rate

    @property
    def is_scaled(self) -> bool:
        """True if motions are executed more slowly than planned: messages then begin when they arrive."""
        return self.rate != 1.0

    def at(self, robot_ns: int) -> int:
        """Return the time of this clock at a time of the robot's clock, ns."""
        known = self._known[-1]
        if robot_ns < known.robot_ns:
            known = self._known[max(bisect_right(self._known, robot_ns, key=lambda one: one.robot_ns) - 1, 0)]
        since_ns = robot_ns - known.robot_ns
        return known.motion_ns + since_ns - round((1.0 - known.rate) * since_ns)

    def behind_ns(self, robot_ns: int) -> int:
        """Return by how much this clock is behind the robot's, ns."""
        return robot_ns - self.at(robot_ns)

    def lasts_s(self, motion_s: float) -> float:
        """Return how long a part of a motion takes at the present rate, s: infinitely long while the motion waits."""
        if motion_s <= 0 or not self.is_scaled:
            return motion_s
        return motion_s / self.rate if self.rate else np.inf

    def begins_ns(self, now_ns: int, way_s: float) -> int:
        """Return the time of this clock, ns, at which a message begins that needs a time, s, on its way."""
        return self.at(now_ns) + round(self.rate * (_ENTERS_S + way_s) * SECOND_NS)

    def follow(self, robot_ns: int, rate: float, seen: Sought, *, is_lost: bool = False) -> bool:
        """Take a report: the rate from `robot_ns` on, and the motion's state; return whether past times changed.

        `is_lost` says that the motion is not where it was expected, although the rate is unchanged: somebody has moved
        the slider and moved it back between two reports.
        """
        rate = 1.0 if abs(rate - 1.0) <= SAME_RATE else max(rate, 0.0)
        before_ns, self._reported_ns = min(self._reported_ns or robot_ns, robot_ns), robot_ns
        if rate == self.rate and len(self._known) == 1 and not is_lost:
            return False
        begun_ns, span_ns = self.at(before_ns), robot_ns - before_ns
        # The rate has changed somewhere between the two reports.
        expected_ns = begun_ns + round((rate + self.rate) / 2 * span_ns)
        found_ns = seen(expected_ns, span_ns + NEAR_NS)
        found_ns = expected_ns if found_ns is None else found_ns
        if rate == self.rate == 1.0:  # No motion is ahead of its own times: the stamp is that of an earlier cycle.
            found_ns = min(found_ns, max(robot_ns, expected_ns))
        if abs(rate - self.rate) <= SAME_RATE and abs(found_ns - expected_ns) <= _AGREES_NS:
            return False
        if span_ns:
            self._keep(_Known(before_ns, begun_ns, (found_ns - begun_ns) / span_ns))
        self._keep(_Known(robot_ns, found_ns, rate))
        return True

    def _keep(self, one: _Known) -> None:
        while len(self._known) > 1 and self._known[-1].robot_ns >= one.robot_ns:
            self._known.pop()
        self._known.append(one)
        del self._known[:-MOST_KEPT]
