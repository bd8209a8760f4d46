"""The command at any time, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading

import numpy as np

from ..execution.motion import State, resting
from ..execution.tolerances import MOMENT_S
from .reference import PlannedMotion

_KEPT_NS = 1_000_000_000
"""Largest age of a time that may be sampled."""
_LATE_NS, _LATE_PERIODS, _LEARNED = 8_000_000, 3, 0.1
"""A sample is late by more than this beyond the usual time since the one before, and more than so many times that; and
the weight of the newest one in the usual time.
"""


class SampledCommand:
    """The motions that were commanded lately, each in execution from its start until that of the next one.

    One thread takes motions, any other may sample: it reads a tuple that is replaced as a whole, without a lock once
    there is a motion. Where the loop that samples is held up, motions wait for it: the next sample goes on from the
    last one.
    """

    def __init__(self) -> None:
        self._motions: tuple[PlannedMotion, ...] = ()
        self._changing = threading.Lock()
        self.newest: tuple[int, State] | None = None
        """The latest sampled time, ns, and the command then; None: nothing was sampled."""
        self._usual_ns = 0.0
        """Usual time from one sample to the next; 0: not known."""
        self._waited_ns = 0
        """Time for which motions have waited since the latest sample."""
        self.held_up_ns = 0
        """Time for which motions have waited since the last look at it."""

    def __bool__(self) -> bool:
        return bool(self._motions)

    def hold(self, position: np.ndarray, since_ns: int) -> None:
        """Command a position, rad `[dof]`, from a time on, unless another thread has just begun a motion."""
        with self._changing:
            self._motions = self._motions or (PlannedMotion(since_ns, resting(position, MOMENT_S)),)

    def take(self, planned: PlannedMotion, now_ns: int) -> None:
        """Command a motion from its start on."""
        with self._changing:
            before = [one for one in self._motions if one.start_ns < planned.start_ns]
            old = sum(one.start_ns < now_ns - _KEPT_NS for one in before[1:])
            self._motions = (*before[old:], planned)

    def at(self, time_ns: int) -> State:
        """The command at a time, ns; before the first motion, that begins it."""
        self.wait(time_ns)
        motions = self._motions
        planned = next((one for one in reversed(motions) if one.start_ns <= time_ns), motions[0])
        state = planned.state_at(time_ns)
        if self.newest is None or time_ns > self.newest[0]:
            if self.newest is not None and not self._waited_ns:
                period_ns = time_ns - self.newest[0]
                self._usual_ns += (_LEARNED if self._usual_ns else 1.0) * (period_ns - self._usual_ns)
            self.newest, self._waited_ns = (time_ns, state), 0
        return state

    def wait(self, now_ns: int) -> None:
        """Let motions wait if the next sample is late."""
        since_ns = 0 if self.newest is None else now_ns - self.newest[0]
        if self._usual_ns <= 0 or since_ns <= max(self._usual_ns + _LATE_NS, _LATE_PERIODS * self._usual_ns):
            return
        with self._changing:
            by_ns = round(now_ns - self.newest[0] - self._usual_ns) - self._waited_ns
            self._motions = tuple(one._replace(start_ns=one.start_ns + by_ns) for one in self._motions)
            self._waited_ns += by_ns
            self.held_up_ns += by_ns

    def look(self) -> int:
        """The time, ns, for which motions have waited since the last look."""
        with self._changing:
            by_ns, self.held_up_ns = self.held_up_ns, 0
        return by_ns
