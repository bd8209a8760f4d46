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
        self.known_ns: int | None = None
        """Last known value of `ahead_ns`, also after `forget`."""
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

    @property
    def is_ahead(self) -> bool:
        """Return whether the last stamp is further ahead than those before it, which no transport explains."""
        return self._alone is not None and self.known_ns is not None and self._alone[1] > self.known_ns

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
        self.known_ns = self.ahead_ns

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
    """Converts times of the node's clock and of the robot's to the time of motions, which no clock that is set changes.

    That time is the robot's, as if its clock had never been set: it goes on with the steady clock, and follows the
    drift of the robot's. Everything but stamps is in it.

    No stamp arrives before it was made. So if stamps are ahead of the node's clock, the robot's clock is ahead at least
    by that. If all stamps are late, the cause may be transport or a clock that is behind. Lateness up to the lead time
    of messages counts as transport, and only the rest as an offset; the clock may be behind by `unsure_ns` more.

    Reports of the controller go before joint states. Joint states alone never show that a clock is behind, since
    drivers may be slow. When a clock is set, stamps are not converted until later ones show which clock it was.

    Until `read` is called, all clocks are the same.
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
        self.set_ns = 0
        """Time by which the robot's clock was set, ns: by so much it is ahead of the time of motions."""
        self._latest_ns = self._since_ns = 0
        """The latest time that was read, ns, and when `is_unsure` became true, ns, by the steady clock."""

    @property
    def offset_ns(self) -> int | None:
        """Time by which the robot's clock is ahead of the node's, less the transport, ns; None if unknown."""
        ahead = self._source.ahead_ns
        return None if ahead is None or not self._node_ns else ahead - self._node_ns

    @property
    def unsure_ns(self) -> int:
        """Largest time, ns, by which the robot's clock may be behind its estimate."""
        offset = self.offset_ns
        return 0 if offset is None else min(max(self._robot_ns - self._node_ns - offset, 0), self.lead_ns)

    @property
    def is_doubted(self) -> bool:
        """Return whether a clock was, or may have been, set, and the robot's time is not known yet."""
        return self.is_unsure or (self.has_reports and self.reports.is_alone)

    @property
    def _source(self) -> Stamps:
        return self.reports if self.has_reports else self.states

    def read(self, node_ns: int, steady_ns: int) -> int:
        """Return the time of motions, ns, given the node's clock and the steady one; it never goes back."""
        ahead_ns = node_ns - steady_ns
        if self._node_ns and abs(ahead_ns - self._node_ns) > STEP_NS:
            self.is_unsure, self._since_ns = self._source.known_ns is not None, steady_ns
            self.reports.forget()
            self.states.forget()
            self.steps += 1
            if not self.is_unsure:  # Nobody says that the robot has another clock than the node.
                self.set_ns += ahead_ns - self._node_ns
        self._node_ns = ahead_ns
        if not self.is_unsure:
            self._robot_ns = self._estimated()
        self._latest_ns = max(self._latest_ns, self.at(steady_ns))
        return self._latest_ns

    def at(self, steady_ns: int) -> int:
        """Return the time of motions, ns, at a time of the steady clock."""
        return steady_ns + self._robot_ns - self.set_ns

    def of_node(self, stamp_ns: int) -> int:
        """Convert a time of the node's clock, ns; 0, which means now, stays."""
        return stamp_ns and stamp_ns + self.at(0) - self._node_ns

    def to_node(self, time_ns: int) -> int:
        """Convert a time to the node's clock, ns."""
        return time_ns + self._node_ns - self.at(0)

    def of_robot(self, stamp_ns: int) -> int:
        """Convert a stamp of the robot's clock, ns; 0, which means now, stays."""
        return stamp_ns and stamp_ns - self.set_ns

    def to_robot(self, time_ns: int) -> int:
        """Convert a time to the robot's clock, ns."""
        return time_ns + self.set_ns

    def of_states(self, stamp_ns: int) -> int:
        """Convert the stamp of a joint state, ns: drivers may have a clock of their own. 0: now, or it says nothing."""
        known = stamp_ns and not self.has_lost_states and not self.states.is_ahead
        return self.of_robot(stamp_ns + self._behind_ns()[0]) if known else 0

    @property
    def has_lost_states(self) -> bool:
        """Return whether stamps of joint states say nothing: after a clock was set, the second one tells."""
        return self.is_unsure and self.states.ahead_ns is None and self.states.known_ns is not None

    def take(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> None:
        """Take a stamp of `reports` or `states`, ns, and when it arrived by the steady clock."""
        if not self._node_ns or (self.is_unsure and arrived_ns <= self._since_ns):
            return
        was_ns, had_reports, is_counted = self._robot_ns, self.has_reports, self.is_unsure
        self.has_reports |= stamps is self.reports
        known_ns = self._source.known_ns
        stamps.take(stamp_ns, arrived_ns)
        if (ahead_ns := self._source.ahead_ns) is None:
            return
        self.is_unsure = False
        self._robot_ns = self._estimated()
        # Joint states may be late: only reports tell how far a clock was set that is behind the node's.
        by_ns = ahead_ns - known_ns if had_reports and known_ns is not None else self._robot_ns - was_ns
        if abs(by_ns) > STEP_NS:
            self.set_ns += by_ns
            self.steps += known_ns is not None and not is_counted

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
