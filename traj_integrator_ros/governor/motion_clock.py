"""Time in the motion in execution, where a speed slider, a pause or a protective stop holds it back. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import MOST_KEPT, NANOSECOND_S, SECOND_NS

SAME_RATE = 1e-3
"""Rates that differ by less count as equal: sliders have steps of a percent."""
_AGREES_NS = 50_000
"""Time, ns, within which a report says nothing new: the command moves 0.05 mrad in it at 1 rad/s."""
_NEAR_NS = 20_000_000
"""Time, ns, around where a motion must be by the rates, in which it is sought: messages are taken late."""
_UNSETTLED_NS = SECOND_NS
"""Time after a change of the rate, ns, in which motions are compared as they were reported, not as expected."""
_ENTERS_S, _ENTERS_LATEST_S, _LEARNED = 3e-3, 0.05, 0.2
"""Time from a motion's making until a controller begins it, at first and at most; and the weight of the newest one."""

Sought = Callable[[int, int], "int | None"]
"""Called with a time in the motion, and a distance from it, ns; returns when the motion is as reported."""


class _Known(NamedTuple):
    robot_ns: int
    motion_ns: int


class MotionClock:
    """Reads the time in the motion from the robot's clock: one offset and one rate from each report on.

    Motions and plans that are placed among them begin by this clock, everything else is by the robot's. As long as no
    rate other than 1 is reported, both are the same.
    """

    def __init__(self) -> None:
        self.rate = 1.0
        """Advance in a second of the robot's clock."""
        self._known: list[_Known] = []
        """Between two of them it is linear, after the last one it advances at `rate`, before the first at 1."""
        self._reported_ns = self._changed_ns = 0
        self.enters_s = _ENTERS_S
        """Time from a motion's making until the controller begins it, s, if it begins on arrival."""
        self._begins: _Known | None = None
        """Time of making of the last such motion, and its start by this clock, until that has been reported."""

    @property
    def is_scaled(self) -> bool:
        """True if motions are executed more slowly than planned: their messages begin when they arrive."""
        return self.rate != 1.0

    def is_settled(self, robot_ns: int) -> bool:
        """Return whether the rate is 1, and has been for a while."""
        return not self.is_scaled and not 0 <= robot_ns - self._changed_ns < _UNSETTLED_NS

    def at(self, robot_ns: int) -> int:
        """Time in the motion at a time of the robot's clock, ns."""
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
        """The same for times `[N]`, int64."""
        return np.array([self.at(time_ns) for time_ns in robot_ns.tolist()], np.int64)

    def behind_ns(self, robot_ns: int) -> int:
        """Time by which it is behind the robot's clock."""
        return robot_ns - self.at(robot_ns)

    def lasts_s(self, motion_s: float) -> float:
        """Duration of a time of the motion at the present rate, s: infinite while it waits."""
        if motion_s <= 0 or not self.is_scaled:
            return motion_s
        return motion_s / self.rate if self.rate else np.inf

    def begins_ns(self, now_ns: int) -> int:
        """Place of the command in its motion, by this clock, when a message sent now will have arrived."""
        return self.at(now_ns) + round(self.rate * self.enters_s * SECOND_NS)

    def begins(self, made_ns: int, motion_ns: int) -> None:
        """A motion was made at a time of the robot's clock that begins by this clock as soon as it arrives."""
        self._begins = _Known(made_ns, motion_ns)

    def follow(self, robot_ns: int, rate: float, seen: Sought, *, is_lost: bool = False) -> bool:
        """Take a report: the rate from then on, and where the motion is; return whether the past was another one.

        `is_lost`: the motion is not where it must be; a slider that was moved and moved back is in no report.
        """
        rate = 1.0 if abs(rate - 1.0) <= SAME_RATE else max(rate, 0.0)
        before_ns, self._reported_ns = self._reported_ns, robot_ns
        if rate == self.rate and not self._known and not is_lost:
            return False
        changes = abs(rate - self.rate) > SAME_RATE
        before_ns = before_ns if before_ns and before_ns < robot_ns else robot_ns
        begun_ns, span_ns = self.at(before_ns), robot_ns - before_ns
        # Where the rate changes, somewhere between the two reports.
        expected_ns = begun_ns + round((rate + self.rate) / 2 * span_ns)
        found_ns = seen(expected_ns, span_ns + _NEAR_NS)
        found_ns = expected_ns if found_ns is None else found_ns
        self._learn(robot_ns, found_ns, changes)
        corrected = abs(found_ns - expected_ns) > _AGREES_NS
        if changes or corrected:
            self._changed_ns = robot_ns
            self._keep(_Known(before_ns, begun_ns))
            self._keep(_Known(robot_ns, found_ns))
        self.rate = rate
        return changes or corrected

    def _learn(self, robot_ns: int, motion_ns: int, changes: bool) -> None:
        """Learn how long the last motion that begins on arrival took to begin."""
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

    def set_clock(self, by_ns: int) -> None:
        """The robot's clock was set."""
        self._known = [_Known(*(time_ns + by_ns for time_ns in one)) for one in self._known]
        self._reported_ns = self._reported_ns and self._reported_ns + by_ns
