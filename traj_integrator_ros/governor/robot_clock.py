"""The robot's clock, by which all commands and measurements are compared, from its stamps. Knows no ROS."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..execution.tolerances import NANOSECOND_S

STEP_NS = 5_000_000
"""A clock that jumps by more than this has been set; less is followed like drift."""
_LATE_NS = 500_000_000
"""Stamps that are late for longer than this are those of a clock that was set back."""
_WINDOW_NS = 10_000_000_000
"""Time over which the shortest transport counts: in longer ones, clocks drift by a millisecond."""


class Slack(NamedTuple):
    """Times by which a joint state may have been measured later or earlier than it seems, s."""

    late: float = 0.0
    early: float = 0.0


class Stamps:
    """Least time by which a sender's clock is ahead of the steady one: by the stamp that came soonest.

    A clock that was set shows in two stamps in a row that agree with each other alone, unless they were held up and
    arrive at once. Stamps that do not go back, and only come later than usual, are late, for half a second.
    """

    def __init__(self) -> None:
        self._soonest: deque[tuple[int, int]] = deque()
        """Arrival of a stamp, and its lead, ns: the furthest ahead, then the furthest after it."""
        self._stamp_ns = self._late_ns = 0
        """The last stamp, and the arrival of the first one that was late; 0: none is."""
        self.was_late = False
        """True if those that are believed were late at first: perhaps it takes longer now, and no clock was set."""
        self.alone: tuple[int, int] | None = None
        """The last stamp, as in `_soonest`, if it does not agree with those before it."""

    @property
    def ahead_ns(self) -> int | None:
        """Lead of the clock, less the shortest transport, ns; None: not known."""
        return self._soonest[0][1] if self._soonest else None

    def take(self, stamp_ns: int, arrived_ns: int) -> bool:
        """Take a stamp, ns, with its arrival by the steady clock; returns whether it agrees with one before it."""
        lead_ns, best, alone = stamp_ns - arrived_ns, self.ahead_ns, self.alone
        gap_ns, self._stamp_ns, self.alone = stamp_ns - self._stamp_ns, stamp_ns, None
        if best is None or abs(lead_ns - best) > STEP_NS:
            if alone is None or abs(lead_ns - alone[1]) > STEP_NS or 2 * (arrived_ns - alone[0]) < gap_ns:
                is_late = best is not None and lead_ns < best and gap_ns > 0
                self._late_ns = (self._late_ns or arrived_ns) if is_late else 0
                if not is_late or arrived_ns - self._late_ns > _LATE_NS:
                    self.alone = arrived_ns, lead_ns
                return False
            self._soonest, self.was_late = deque([alone]), self._late_ns > 0
        self._late_ns = 0
        while self._soonest and self._soonest[-1][1] <= lead_ns:
            self._soonest.pop()
        self._soonest.append((arrived_ns, lead_ns))
        while arrived_ns - self._soonest[0][0] > _WINDOW_NS:
            self._soonest.popleft()
        return True


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
        self.steps = 0
        """Number of times that a clock was set."""
        self._node_ns = self._robot_ns = 0
        """Lead of both clocks over the steady clock; 0: not known."""
        self._since_ns: int | None = None
        """Time at which the node's clock was set, if it is not known whether the robot's was, by the steady clock."""

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
        return self._since_ns is not None or self.reports.alone is not None

    @property
    def _source(self) -> Stamps:
        return self.states if self.reports.ahead_ns is None else self.reports

    def read(self, node_ns: int, steady_ns: int) -> int:
        """The robot's time, ns, from the node's clock and the steady one."""
        ahead_ns = node_ns - steady_ns
        if self._source.ahead_ns is not None and abs(ahead_ns - self._node_ns) > STEP_NS:
            self._since_ns = steady_ns
        self._node_ns = ahead_ns
        if self._since_ns is None:
            self._robot_ns = self._estimated()
        return self.at(steady_ns)

    def at(self, steady_ns: int) -> int:
        """The robot's time, ns, at a time of the steady clock."""
        return steady_ns + self._robot_ns

    def take(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> int | None:
        """Take a stamp of `reports` or `states`, ns, and when it arrived by the steady clock.

        Returns:
            By how much the robot's stamps were set, ns, where it is seen now that a clock was set (0: the node's).

        """
        if not self._node_ns or (self._since_ns is not None and arrived_ns <= self._since_ns):
            return None
        source, before_ns, was_ns = self._source, self._source.ahead_ns, self._robot_ns
        if not stamps.take(stamp_ns, arrived_ns) or stamps is not self._source:
            return None
        is_set, self._since_ns, self._robot_ns = self._since_ns is not None, None, self._estimated()
        read_ns = self._robot_ns - was_ns
        set_by_ns = source.ahead_ns - before_ns if source is self.reports else read_ns
        least_ns = self.lead_ns if stamps.was_late else STEP_NS
        if not is_set and abs(read_ns) <= least_ns and abs(set_by_ns) <= max(self.lead_ns, STEP_NS):
            return None
        self.steps += before_ns is not None
        return set_by_ns

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
        return min(estimated, ahead + self.lead_ns) if self._source is self.reports else estimated
