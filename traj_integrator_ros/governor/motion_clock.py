"""The clock of motions, which a speed slider, a pause or a protective stop holds back. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import MOST_KEPT, NANOSECOND_S, SECOND_NS

SAME_RATE = 1e-3
"""Smallest difference of two rates that counts: sliders have steps of 0.01."""
_AGREES_NS = 50_000
"""Largest difference between expected and reported time, ns, that is ignored: 0.05 mrad at 1 rad/s."""
_NEAR_NS = 20_000_000
"""Largest distance, ns, of a motion from where the rates predict it: controllers enter messages late."""
_UNSETTLED_NS = SECOND_NS
"""Time after a change of the rate, ns, in which joints are compared with reported motions, not with predictions."""
_ENTERS_S = 3e-3
"""Assumed time, s, from making a motion until the controller begins it, before such a time is measured."""
_ENTERS_LATEST_S = 0.05
"""Longest such time that is learned, s."""
_LEARNED = 0.2
"""Weight of the newest such time in the mean."""

Sought = Callable[[int, int], "int | None"]
"""Called with a time of this clock and a distance from it, ns; returns when, within that, the motion is as reported."""


class _Known(NamedTuple):
    robot_ns: int
    motion_ns: int


class MotionClock:
    """Converts times of the robot's clock to the clock by which motions are executed.

    Each report gives an offset and a rate from its time on. Motions, and plans relative to them, begin by this clock;
    all other times are the robot's. As long as no rate but 1 has been reported, both clocks are the same.
    """

    def __init__(self) -> None:
        self.rate = 1.0
        """Seconds by which this clock advances in a second of the robot's clock."""
        self._known: list[_Known] = []
        """Corresponding times of both clocks: linear in between, at `rate` after the last, at 1 before the first."""
        self._reported_ns = self._changed_ns = 0
        self.enters_s = _ENTERS_S
        """Mean time, s, from making a motion that begins on arrival until the controller begins it."""
        self._begins: _Known | None = None
        """When the last such motion was made, and its start by this clock; None once its start has been reported."""

    @property
    def is_scaled(self) -> bool:
        """True if motions are executed more slowly than planned: messages then begin when they arrive."""
        return self.rate != 1.0

    def is_settled(self, robot_ns: int) -> bool:
        """Return whether the rate is 1, and has been for a while."""
        return not self.is_scaled and not 0 <= robot_ns - self._changed_ns < _UNSETTLED_NS

    def at(self, robot_ns: int) -> int:
        """Return the time of this clock at a time of the robot's clock, ns."""
        if not self._known:
            return robot_ns
        begin = self._known[-1]
        if robot_ns >= begin.robot_ns:
            return begin.motion_ns + round(self.rate * (robot_ns - begin.robot_ns))
        index = bisect_right(self._known, robot_ns, key=lambda one: one.robot_ns)
        if index == 0:
            return self._known[0].motion_ns + robot_ns - self._known[0].robot_ns
        begin, end = self._known[index - 1 : index + 1]
        share = (robot_ns - begin.robot_ns) / (end.robot_ns - begin.robot_ns)
        return begin.motion_ns + round(share * (end.motion_ns - begin.motion_ns))

    def at_times(self, robot_ns: np.ndarray) -> np.ndarray:
        """Return the times of this clock at times `[N]` of the robot's clock, ns, int64."""
        return np.array([self.at(time_ns) for time_ns in robot_ns.tolist()], np.int64)

    def behind_ns(self, robot_ns: int) -> int:
        """Return by how much this clock is behind the robot's, ns."""
        return robot_ns - self.at(robot_ns)

    def lasts_s(self, motion_s: float) -> float:
        """Return how long a part of a motion takes at the present rate, s: infinitely long while the motion waits."""
        if motion_s <= 0 or not self.is_scaled:
            return motion_s
        return motion_s / self.rate if self.rate else np.inf

    def begins_ns(self, now_ns: int) -> int:
        """Return the time of this clock, ns, at which a message that is sent now will begin."""
        return self.at(now_ns) + round(self.rate * self.enters_s * SECOND_NS)

    def begins(self, made_ns: int, motion_ns: int) -> None:
        """Record that a motion was made at a time of the robot's clock, to begin at a time of this clock on arrival."""
        self._begins = _Known(made_ns, motion_ns)

    def follow(self, robot_ns: int, rate: float, seen: Sought, *, is_lost: bool = False) -> bool:
        """Take a report: the rate from `robot_ns` on, and the motion's state; return whether past times changed.

        `is_lost` says that the motion is not where it was expected, although the rate is unchanged: somebody has moved
        the slider and moved it back between two reports.
        """
        rate = 1.0 if abs(rate - 1.0) <= SAME_RATE else max(rate, 0.0)
        before_ns, self._reported_ns = self._reported_ns, robot_ns
        if rate == self.rate and not self._known and not is_lost:
            return False
        changes = abs(rate - self.rate) > SAME_RATE
        before_ns = before_ns if before_ns and before_ns < robot_ns else robot_ns
        begun_ns, span_ns = self.at(before_ns), robot_ns - before_ns
        # The rate has changed somewhere between the two reports.
        expected_ns = begun_ns + round((rate + self.rate) / 2 * span_ns)
        found_ns = seen(expected_ns, span_ns + _NEAR_NS)
        found_ns = expected_ns if found_ns is None else found_ns
        if rate == self.rate == 1.0:  # No motion is ahead of its own times: the stamp is that of an earlier cycle.
            found_ns = min(found_ns, max(robot_ns, expected_ns))
        self._learn(robot_ns, found_ns, changes)
        corrected = abs(found_ns - expected_ns) > _AGREES_NS
        if changes or corrected:
            self._changed_ns = robot_ns
            self._keep(_Known(before_ns, begun_ns))
            self._keep(_Known(robot_ns, found_ns))
        self.rate = rate
        return changes or corrected

    def _learn(self, robot_ns: int, motion_ns: int, changes: bool) -> None:
        """Learn from a report how long the last motion that begins on arrival took to begin."""
        begins = self._begins
        if begins is None or motion_ns < begins.motion_ns:
            return
        self._begins = None
        if not changes and self.rate > 0:
            since_s = (motion_ns - begins.motion_ns) * NANOSECOND_S / self.rate
            took_s = (robot_ns - begins.robot_ns) * NANOSECOND_S - since_s
            self.enters_s += _LEARNED * (min(max(took_s, 0.0), _ENTERS_LATEST_S) - self.enters_s)

    def _keep(self, one: _Known) -> None:
        if not self._known or one.robot_ns > self._known[-1].robot_ns:
            self._known.append(one)
            del self._known[:-MOST_KEPT]
