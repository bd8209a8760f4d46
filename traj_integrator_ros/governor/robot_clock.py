"""The robot's clock, by which all commands and measurements are compared, from its stamps. Knows no ROS."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from ..execution.tolerances import NANOSECOND_S

STEP_NS = 5_000_000
"""A clock that jumps by more than this has been set."""
_WINDOW_NS = 10_000_000_000
"""Time over which the shortest transport counts: in longer ones, clocks drift by a millisecond."""
_JITTER_NS = 4_000_000
"""Largest jitter of the time between two stamps; at most a quarter of it."""
_IN_A_ROW = 9
"""Number of stamps in a row by which a sender is known: its period is the median of the times between them, so that
four may be late. If more stamps in a row are late by more than a step, a clock was set.
"""


class Slack(NamedTuple):
    """Times by which a joint state may have been measured later or earlier than it seems, s."""

    late: float = 0.0
    early: float = 0.0


class Step(NamedTuple):
    """Times by which the robot's clock was set."""

    read_ns: int
    """Change in readings: smaller if a part of it may as well be transport."""
    stamps_ns: int
    """Change in its stamps."""


class Stamps:
    """Least time by which a sender's clock is ahead of the steady one: by the stamp that came soonest.

    A clock that was set back looks like a late sender, but the stamps of a late sender are whole periods apart. Two
    stamps in a row that agree are believed. A single one is not, nor are stamps that were held up and arrive at once.
    """

    def __init__(self) -> None:
        self._soonest: deque[tuple[int, int]] = deque()
        """Arrival of a stamp, and its lead, ns: the furthest ahead, then the furthest after it."""
        self._gaps: deque[int] = deque(maxlen=_IN_A_ROW)
        self._stamp_ns = self._late = 0
        self._alone: tuple[int, int] | None = None
        """The last stamp, as in `_soonest`, if it does not agree with those before it."""

    @property
    def ahead_ns(self) -> int | None:
        """Lead of the clock, less the shortest transport, ns; None: not known."""
        return self._soonest[0][1] if self._soonest else None

    @property
    def is_alone(self) -> bool:
        """Return whether the last stamp does not agree with those before it."""
        return self._alone is not None

    def forget(self) -> None:
        """Begin again, because a clock was set."""
        self._soonest.clear()
        self._late, self._alone = 0, None

    def take(self, stamp_ns: int, arrived_ns: int) -> None:
        """Take a stamp, ns, with its arrival by the steady clock."""
        one, best, alone = (arrived_ns, stamp_ns - arrived_ns), self.ahead_ns, self._alone
        gap, self._stamp_ns, self._alone = stamp_ns - self._stamp_ns, stamp_ns, None
        if best is not None and abs(one[1] - best) <= STEP_NS:
            self._gaps.append(gap)
            self._late = 0
            self._keep(one)
        elif alone is not None and abs(one[1] - alone[1]) <= STEP_NS and _are_apart(alone, one):
            self.forget()
            self._keep(alone)
            self._keep(one)
        elif best is not None and one[1] < best and self._late < _IN_A_ROW and self._is_whole(gap):
            self._late += 1
        else:
            self._alone = one

    def _keep(self, one: tuple[int, int]) -> None:
        soonest = self._soonest
        while soonest and soonest[-1][1] <= one[1]:
            soonest.pop()
        soonest.append(one)
        while one[0] - soonest[0][0] > _WINDOW_NS:
            soonest.popleft()

    def _is_whole(self, gap_ns: int) -> bool:
        """Return whether a time between two stamps is one or more periods."""
        period = max(median(self._gaps), 1) if self._gaps else 1
        periods = round(gap_ns / period)
        return periods > 0 and abs(gap_ns - periods * period) <= min(period / 4, _JITTER_NS)


def _are_apart(one: tuple[int, int], later: tuple[int, int]) -> bool:
    """Return whether two stamps arrived about as far apart as they were made: not at once, after a delay."""
    arrived_ns = later[0] - one[0]
    return 2 * arrived_ns >= arrived_ns + later[1] - one[1]


class RobotClock:
    """Reads the robot's clock: the node's, and the offset between the two as far as it is certain.

    No stamp arrives before it was made: the robot's clock is ahead by that at least. Where all stamps are late, that is
    transport up to the lead of a message, and only what is beyond it is an offset; by the rest, `unsure_ns`, the clock
    may be behind. Reports of the controller go before joint states, which do not say that a clock is behind, since
    drivers may be slow. Where a clock is set, nothing changes until stamps that arrive later say which one it was.

    Until `read` is called, everything is by one clock.
    """

    def __init__(self) -> None:
        self.lead_ns = 0
        """Lead of messages: see above."""
        self.reports, self.states = Stamps(), Stamps()
        self.has_reports = False
        """True if reports have arrived."""
        self.steps = 0
        """Number of times that a clock was set."""
        self.is_unsure = False
        """True if the node's clock was set, and it is not known whether the robot's was."""
        self._node_ns = self._robot_ns = 0
        """Lead of both clocks over the steady clock; 0: not known."""
        self._since_ns = 0
        """Time at which it became unsure, by the steady clock."""

    @property
    def offset_ns(self) -> int | None:
        """Lead of the robot's clock over the node's, less the transport, ns; None: not known."""
        ahead = self._source.ahead_ns
        return None if ahead is None or not self._node_ns else ahead - self._node_ns

    @property
    def applied_ns(self) -> int:
        """The certain part of the offset: the time that is read, less the node's."""
        return self._robot_ns - self._node_ns

    @property
    def unsure_ns(self) -> int:
        """Largest time by which the robot's clock may be behind its reading."""
        return 0 if (offset := self.offset_ns) is None else min(max(self.applied_ns - offset, 0), self.lead_ns)

    @property
    def is_doubted(self) -> bool:
        """Return whether a clock was, or may have been, set, and the robot's time is not known yet."""
        return self.is_unsure or (self.has_reports and self.reports.is_alone)

    @property
    def _source(self) -> Stamps:
        return self.reports if self.has_reports else self.states

    def read(self, node_ns: int, steady_ns: int) -> int:
        """The robot's time, ns, from the node's clock and the steady one."""
        ahead = node_ns - steady_ns
        if self._node_ns and abs(ahead - self._node_ns) > STEP_NS:
            self.reports.forget()
            self.states.forget()
            self.is_unsure, self._since_ns = True, steady_ns
            self.steps += 1
        self._node_ns = ahead
        if not self.is_unsure:
            self._robot_ns = self._estimated()
        return self.at(steady_ns)

    def at(self, steady_ns: int) -> int:
        """The robot's time, ns, at a time of the steady clock."""
        return steady_ns + self._robot_ns

    def take(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> Step | None:
        """Take a stamp of `reports` or `states`, ns, and when it arrived by the steady clock.

        Returns:
            By how much the clock was set, where that is seen now.

        """
        if not self._node_ns or (self.is_unsure and arrived_ns <= self._since_ns):
            return None
        source, before_ns, was_ns = self._source, self._source.ahead_ns, self._robot_ns
        self.has_reports |= stamps is self.reports
        stamps.take(stamp_ns, arrived_ns)
        if (ahead_ns := self._source.ahead_ns) is None:
            return None
        self.is_unsure = False
        self._robot_ns = self._estimated()
        read_ns = self._robot_ns - was_ns
        is_same = self._source is source and before_ns is not None
        step = Step(read_ns, ahead_ns - before_ns if is_same and self.has_reports else read_ns)
        if max(map(abs, step)) <= STEP_NS:
            return None
        self.steps += before_ns is not None
        return step

    def measured_ns(self, stamp_ns: int) -> int:
        """When a joint state with a stamp was measured, by this clock: drivers may have a clock of their own."""
        return stamp_ns + self._behind_ns()[0] if stamp_ns else 0

    def slack(self) -> Slack:
        """Slack of joint states: their shift may be a slow driver, the rest of the offset another clock."""
        shift_ns, lead_ns = self._behind_ns()
        return Slack(max(shift_ns, 0) * NANOSECOND_S, lead_ns * NANOSECOND_S)

    def _behind_ns(self) -> tuple[int, int]:
        """Time by which the clock of joint states is behind its reading, beyond a lead and within it, ns."""
        ahead = self.states.ahead_ns
        if ahead is None or not self._node_ns:
            return 0, 0
        behind = self._robot_ns - ahead
        within = min(max(behind, 0), self.lead_ns)
        return behind - within, within

    def _estimated(self) -> int:
        ahead = self._source.ahead_ns
        if ahead is None:
            return self._node_ns
        estimated = max(self._node_ns, ahead)
        return min(estimated, ahead + self.lead_ns) if self.has_reports else estimated
