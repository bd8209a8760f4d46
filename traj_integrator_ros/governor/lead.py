"""Time from now until plans are taken up: by then, they are computed and have reached the controller. Knows no ROS."""

from __future__ import annotations

from collections import deque

import numpy as np

from ..execution.tolerances import MOST_KEPT, whole_ns
from ..parameters.parameters import NodeParameters

_WINDOW_NS = 60_000_000_000
"""Time over which values count, ns."""
_PERCENT = 99
"""Share of nearly all values: waiting for the largest would be waiting for an event of once a minute."""
_COUNTED_NS = 500_000_000
"""Time between two evaluations of all values, ns."""
_LONGEST_TRANSPORT_S = 0.2
"""Longest transport of a usable connection to a controller, s; an older stamp comes from another clock."""


class Lately:
    """The largest value of the last minute, disregarding one in a hundred."""

    def __init__(self) -> None:
        self._values: deque[tuple[int, float]] = deque(maxlen=MOST_KEPT)
        self._counted_ns = 0
        self.value = 0.0
        """The present value; 0: there is none."""

    def take(self, now_ns: int, value: float) -> None:
        """Take a value, with the time at which it was found, ns."""
        if self._values and now_ns < self._values[-1][0]:  # the clock was set back
            self._values.clear()
        self._values.append((now_ns, value))
        if 0 <= now_ns - self._counted_ns < _COUNTED_NS and len(self._values) > 1:
            return
        self._counted_ns = now_ns
        while now_ns - self._values[0][0] > _WINDOW_NS:
            self._values.popleft()
        self.value = float(np.percentile([value for _, value in self._values], _PERCENT))


class Lead:
    """The time from now until a new plan is taken up.

    It is `publish.lead_time`. With `publish.lead_time_auto`, it is what computing and transport together took lately,
    where that is more, and at most `publish.longest_wait`. The way to the controller is taken to be as long as the way
    back from it, and longer where its reports show that trajectories come too late.
    """

    def __init__(self) -> None:
        self._least = self._most = 0.0
        self._is_auto = False
        self._computing, self._transport = Lately(), Lately()

    def configure(self, parameters: NodeParameters) -> None:
        """Take the parameters."""
        self._least, self._most = parameters.publish_lead_time, parameters.publish_longest_wait
        self._is_auto = parameters.publish_lead_time_auto

    @property
    def seconds(self) -> float:
        """The lead, s."""
        needed = self._computing.value + self._transport.value if self._is_auto else 0.0
        return max(self._least, min(needed, self._most))

    @property
    def ns(self) -> int:
        """The lead, ns."""
        return whole_ns(self.seconds)

    @property
    def transport_ns(self) -> int:
        """Age up to which a stamp may be late because of transport, ns; beyond it, its clock is behind."""
        return whole_ns(max(self._least, _LONGEST_TRANSPORT_S if self._is_auto else 0.0))

    def computed(self, now_ns: int, seconds: float) -> None:
        """Take how long a plan took from its arrival until its trajectory was published."""
        self._computing.take(now_ns, seconds)

    def reported(self, now_ns: int, age: float) -> None:
        """Take the age of a report of the controller, s, when it arrived."""
        self._transport.take(now_ns, age)

    def missed(self, now_ns: int, age: float) -> None:
        """Take the age of a trajectory, s, that the controller does not execute although it is due."""
        if age <= _LONGEST_TRANSPORT_S:  # beyond it, the message was lost
            self._transport.take(now_ns, age)
