"""The robot's clock, estimated from stamps: commands and measurements are compared by it. Knows no ROS."""

from __future__ import annotations

STEP_NS = 5_000_000
"""Smallest jump of a clock, ns, that shows that it was set."""
_DRIFT = 1e-4
"""Largest drift of two clocks, by which the shortest transport that was seen may be shorter by now."""
_SURE_NS = 40_000_000
"""Time, ns, in which stamps must agree on another offset. Those that were held up arrive faster than they were made."""
_LATE_NS = 300_000_000
"""The same for stamps that are late: on a busy machine, many are late one by one."""


class Stamps:
    """Estimates by how much a sender's clock is ahead of the steady one, from the stamp that came soonest."""

    def __init__(self) -> None:
        self.ahead_ns: int | None = None
        """Time by which the clock is ahead, less the shortest transport, ns; None if unknown."""
        self.is_alone = False
        """Whether the last stamp contradicts those before it."""
        self._arrived_ns, self._other = 0, (0, 0)
        """Arrival of the last stamp that agreed, ns; arrival, and time ahead, of the first in a row that does not."""

    def take(self, stamp_ns: int, arrived_ns: int, lead_ns: int) -> bool:
        """Take a stamp, which may be late by a lead, and its arrival by the steady clock; return whether it agrees."""
        ahead_ns, best_ns = stamp_ns - arrived_ns, self.ahead_ns
        is_other = best_ns is None or not best_ns - max(lead_ns, STEP_NS) <= ahead_ns <= best_ns + STEP_NS
        if is_other and not (self.is_alone and abs(ahead_ns - self._other[1]) <= STEP_NS):
            self._other = arrived_ns, ahead_ns
        sure_ns = _SURE_NS if best_ns is None or ahead_ns > best_ns else _LATE_NS
        self.is_alone = is_other and arrived_ns - self._other[0] < sure_ns
        if not self.is_alone:
            least_ns = ahead_ns if is_other else best_ns - round(_DRIFT * (arrived_ns - self._arrived_ns))
            self.ahead_ns, self._arrived_ns = max(least_ns, ahead_ns), arrived_ns
        return not self.is_alone


class RobotClock:
    """Converts times of the node's clock and of the robot's to the time of motions, in which everything but stamps is.

    That time is the robot's, as if its clock had never been set: it goes on with the steady clock, and follows drift.
    The robot's clock is ahead of the node's at least by as much as its stamps are, and behind by what reports (not
    joint states: drivers may be slow) are late beyond a lead, which may be transport.
    """

    def __init__(self) -> None:
        self.reports, self.states = Stamps(), Stamps()
        self._source = self.states  # Joint states count until reports arrive.
        self.lead_ns = self.steps = self.set_ns = 0
        """Lead time of messages, ns; how often a clock was set; how far the robot's is ahead of motions' time, ns."""
        self._is_set = False
        """Whether the node's clock was set, until a stamp tells whether the robot's was, too."""
        self._node_ns = self._robot_ns = self._latest_ns = 0
        """How far both clocks are ahead of the steady one, 0 if unknown, and the latest time that was read, ns."""

    @property
    def offset_ns(self) -> int | None:
        """Time by which the robot's clock is ahead of the node's, less the transport, ns; None if unknown."""
        return None if self._source.ahead_ns is None else self._source.ahead_ns - self._node_ns

    @property
    def unsure_ns(self) -> int:
        """Largest time, ns, by which the robot's clock may be behind its estimate."""
        return min(max(self._robot_ns - self._node_ns - (self.offset_ns or 0), 0), self.lead_ns)

    @property
    def is_doubted(self) -> bool:
        """Return whether a clock was, or may have been, set, and the robot's time is not known yet."""
        return self._is_set or self.reports.is_alone  # Joint states may be late one by one.

    def read(self, node_ns: int, steady_ns: int) -> int:
        """Return the time of motions, ns, given the node's clock and the steady one; it never goes back."""
        by_ns, known = node_ns - steady_ns - self._node_ns, self._node_ns != 0
        self._node_ns += by_ns
        if known and abs(by_ns) > STEP_NS:
            self.steps, self._is_set = self.steps + 1, self._source.ahead_ns is not None
        if not self.is_doubted:
            by_ns, self._robot_ns = self._estimated() - self._robot_ns, self._estimated()
            self.set_ns += by_ns if known and abs(by_ns) > STEP_NS else 0
        self._latest_ns = max(self._latest_ns, self.at(steady_ns))
        return self._latest_ns

    def at(self, steady_ns: int) -> int:
        """Return the time of motions, ns, at a time of the steady clock."""
        return steady_ns + self._robot_ns - self.set_ns

    def of_node(self, stamp_ns: int) -> int:
        """Convert a time of the node's clock, ns; 0, which means now, stays."""
        return stamp_ns and self.at(stamp_ns - self._node_ns)

    def to_node(self, time_ns: int) -> int:
        """Convert a time to the node's clock, ns."""
        return time_ns + self._node_ns - self.at(0)

    def of_states(self, stamp_ns: int) -> int:
        """Convert the stamp of a joint state, ns; 0 if it says nothing: it counts as measured when it arrived."""
        return 0 if self._is_set or self.states.is_alone or not stamp_ns else stamp_ns - self.set_ns

    def take(self, stamps: Stamps, stamp_ns: int, arrived_ns: int) -> None:
        """Take a stamp of `reports` or `states`, ns, and when it arrived by the steady clock."""
        before_ns = stamps.ahead_ns
        agrees = self._node_ns and stamps.take(stamp_ns, arrived_ns, self.lead_ns)  # Simulated time is not read here.
        if agrees and (stamps is self.reports or self._source is self.states):
            self._source, self._is_set = stamps, False
            self.steps += before_ns is not None and abs(stamps.ahead_ns - before_ns) > STEP_NS

    def was_set(self, by_ns: int) -> None:
        """Take by how much the robot's clock was set, ns, as its motion shows: before stamps agree, and exactly."""
        if self.is_doubted and abs(by_ns) > STEP_NS:
            for stamps in (self.reports, self.states):
                stamps.ahead_ns, stamps.is_alone = stamps.ahead_ns and stamps.ahead_ns + by_ns, False
            self.steps, self._is_set, self._robot_ns = self.steps + 1, False, self._estimated()
        self.set_ns += by_ns

    def _estimated(self) -> int:
        node, ahead = self._node_ns, self._source.ahead_ns
        known = node if ahead is None else ahead
        return max(known, node if self._source is self.states else min(node, known + self.lead_ns))
