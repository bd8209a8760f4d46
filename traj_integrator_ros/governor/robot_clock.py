"""The robot's clock, estimated from stamps: commands and measurements are compared by it. Knows no ROS."""

from __future__ import annotations

from collections import deque
from statistics import median
from typing import NamedTuple

from ..execution.tolerances import NANOSECOND_S

STEP_NS = 5_000_000
"""Smallest jump of a clock, ns, that shows that it was set."""
_WINDOW_NS = 10_000_000_000
"""Time, ns, over which the shortest transport is sought: over longer times, clocks drift by a millisecond."""
_JITTER_NS = 4_000_000
"""Largest jitter of the interval between two stamps, ns, but never more than a quarter of the period."""
_IN_A_ROW = 9
"""Number of stamps in a row from which a sender's period is taken. It is the median of the intervals, so four of them
may be late. If more than nine in a row are late by more than `STEP_NS`, a clock was set.
"""


class Slack(NamedTuple):
    """Times, s, by which a joint state may have been measured later or earlier than its stamp says."""

    late: float = 0.0
    early: float = 0.0


class Step(NamedTuple):
    """How far the robot's clock was set, ns."""

    read_ns: int
    """Change of the estimated time: smaller than that of the stamps if a part of it may be transport."""
    stamps_ns: int
    """Change of the stamps."""


class Stamps:
    """Estimates by how much a sender's clock is ahead of the steady one, from the stamp that came soonest.

    A clock that was set back looks like a sender that is late, but the stamps of a late sender stay whole periods
    apart. A new offset is accepted when two stamps in a row agree on it. A single stamp is not enough, and neither are
    stamps that were held up on their way and arrive together.
    """

    def __init__(self) -> None:
        self._soonest: deque[tuple[int, int]] = deque()
        """Arrivals of stamps, and how far each is ahead, ns: the furthest ahead, then the furthest after it, ..."""
        self._gaps: deque[int] = deque(maxlen=_IN_A_ROW)
        self._stamp_ns = self._late = 0
        self._alone: tuple[int, int] | None = None
        """The last stamp, in the form of `_soonest`, if it contradicts those before it; otherwise None."""

    @property
    def ahead_ns(self) -> int | None:
        """Time by which the clock is ahead, less the shortest transport, ns; None if unknown."""
        return self._soonest[0][1] if self._soonest else None

    @property
    def is_alone(self) -> bool:
        """Return whether the last stamp contradicts those before it."""
        return self._alone is not None

    def forget(self) -> None:
        """Forget all stamps, because a clock was set."""
        self._soonest.clear()
        self._late, self._alone = 0, None

    def take(self, stamp_ns: int, arrived_ns: int) -> None:
        """Take a stamp and its arrival by the steady clock, ns."""
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
        """Return whether an interval between two stamps is a whole number of periods."""
        period = max(median(self._gaps), 1) if self._gaps else 1
        periods = round(gap_ns / period)
        return periods > 0 and abs(gap_ns - periods * period) <= min(period / 4, _JITTER_NS)


def _are_apart(one: tuple[int, int], later: tuple[int, int]) -> bool:
    """Return whether two stamps arrived about as far apart as they were made, and not together after a delay."""
    arrived_ns = later[0] - one[0]
    return 2 * arrived_ns >= arrived_ns + later[1] - one[1]


class RobotClock:
    """Estimates the robot's clock: the node's clock and the offset between the two, as far as that is certain.

    No stamp arrives before it was made. So if stamps are ahead of the node's clock, the robot's clock is ahead at least
    by that. If all stamps are late, the cause may be transport or a clock that is behind. Lateness up to the lead time
    of messages counts as transport, and only the rest as an offset; the clock may be behind by `unsure_ns` more.

    Reports of the controller go before joint states. Joint states alone never show that a clock is behind, since
    drivers may be slow. When a clock is set, nothing changes until later stamps show which clock it was.

    Until `read` is called, robot and node have the same clock.
    """

    def __init__(self) -> None:
        self.lead_ns = 0
        """Lead time of messages, ns."""
        self.reports, self.states = Stamps(), Stamps()
        self.has_reports = False
        """True once reports have arrived."""
        self.steps = 0
        """Number of times that a clock was set."""
        self.is_unsure = False
        """True after the node's clock was set, until it is known whether the robot's was."""
        self._node_ns = self._robot_ns = 0
        """Times by which the node's and the robot's clock are ahead of the steady clock, ns; 0 if unknown."""
        self._since_ns = 0
        """When `is_unsure` became true, ns, by the steady clock."""

    @property
    def offset_ns(self) -> int | None:
        """Time by which the robot's clock is ahead of the node's, less the transport, ns; None if unknown."""
        ahead = self._source.ahead_ns
        return None if ahead is None or not self._node_ns else ahead - self._node_ns

    @property
    def applied_ns(self) -> int:
        """The certain part of the offset, ns: the estimated time less the node's."""
        return self._robot_ns - self._node_ns

    @property
    def unsure_ns(self) -> int:
        """Largest time, ns, by which the robot's clock may be behind its estimate."""
        return 0 if (offset := self.offset_ns) is None else min(max(self.applied_ns - offset, 0), self.lead_ns)

    @property
    def is_doubted(self) -> bool:
        """Return whether a clock was, or may have been, set, and the robot's time is not known yet."""
        return self.is_unsure or (self.has_reports and self.reports.is_alone)

    @property
    def _source(self) -> Stamps:
        return self.reports if self.has_reports else self.states

    def read(self, node_ns: int, steady_ns: int) -> int:
        """Return the robot's time, ns, given the node's clock and the steady one."""
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
        """Return the robot's time, ns, at a time of the steady clock."""
        return steady_ns + self._robot_ns

    def take(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> Step | None:
        """Take a stamp of `reports` or `states`, ns, and when it arrived by the steady clock.

        Returns:
            How far the clock was set, if this stamp shows that; otherwise None.

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
        """Convert the stamp of a joint state to this clock, ns: drivers may have a clock of their own."""
        return stamp_ns + self._behind_ns()[0] if stamp_ns else 0

    def slack(self) -> Slack:
        """Return the uncertainty of joint states: they may be late by a slow driver, or early by an unknown offset."""
        shift_ns, lead_ns = self._behind_ns()
        return Slack(max(shift_ns, 0) * NANOSECOND_S, lead_ns * NANOSECOND_S)

    def _behind_ns(self) -> tuple[int, int]:
        """Return how far the clock of joint states is behind its estimate, ns: beyond a lead time, and within it."""
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
