"""The command at any time, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from ..execution.motion import State, resting
from ..execution.tolerances import MOMENT_S
from .reference import PlannedMotion

_KEPT_NS = 1_000_000_000
"""Largest age of a time that may be sampled."""
_LATE_NS = 8_000_000
"""A sample is late by more than this beyond the usual time since the one before,"""
_LATE_PERIODS = 3
"""and more than so many times that."""
_LEARNED = 0.1
"""Weight of the newest time between two samples in the usual one."""


class Sample(NamedTuple):
    """A command that was sampled."""

    time_ns: int
    state: State
    waited_ns: int
    """Time for which motions had waited by then."""


class SampledCommand:
    """The motions that were commanded lately, each in execution from its start until that of the next one.

    One thread takes motions, another one may sample. Where the loop that samples is held up, motions wait for it: the
    next sample goes on from the last one. The thread that takes motions learns of that by `look`.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._motions: tuple[PlannedMotion, ...] = ()
        self._newest: Sample | None = None
        self._usual_ns = 0.0
        """Usual time from one sample to the next; 0: not known."""
        self._waited_ns, self._looked_ns = 0, 0
        """Time for which motions have waited, and the part of it that was looked at."""

    def __bool__(self) -> bool:
        return bool(self._motions)

    def hold(self, position: np.ndarray, since_ns: int) -> None:
        """Command a position, rad `[dof]`, from a time on, unless another thread has just begun a motion."""
        with self._changing:
            self._motions = self._motions or (PlannedMotion(since_ns, resting(position, MOMENT_S)),)

    def take(self, planned: PlannedMotion, now_ns: int) -> None:
        """Command a motion from its start on; it was made for where motions were at the last look."""
        with self._changing:
            before = [one for one in self._motions if one.start_ns < planned.start_ns]
            old = sum(one.start_ns < now_ns - _KEPT_NS for one in before[1:])
            since_ns = self._waited_ns - self._looked_ns
            self._motions = (*before[old:], planned._replace(start_ns=planned.start_ns + since_ns))

    def at(self, time_ns: int) -> State:
        """The command at a time, ns; before the first motion, that begins it."""
        with self._changing:
            self._wait(time_ns)
            motions, newest = self._motions, self._newest
            planned = next((one for one in reversed(motions) if one.start_ns <= time_ns), motions[0])
            state = planned.state_at(time_ns)
            if newest is None or time_ns > newest.time_ns:
                if newest is not None and self._waited_ns == newest.waited_ns:
                    share = _LEARNED if self._usual_ns else 1.0
                    self._usual_ns += share * (time_ns - newest.time_ns - self._usual_ns)
                self._newest = Sample(time_ns, state, self._waited_ns)
        return state

    def look(self, now_ns: int) -> tuple[Sample | None, int, int]:
        """Return the newest sample, and how long motions have waited since the last look, ns: until it, after it."""
        with self._changing:
            self._wait(now_ns)
            newest, looked_ns = self._newest, self._looked_ns
            until_ns = looked_ns if newest is None else max(newest.waited_ns, looked_ns)
            self._looked_ns = self._waited_ns
            return newest, until_ns - looked_ns, self._waited_ns - until_ns

    def _wait(self, now_ns: int) -> None:
        """Let motions wait if the next sample is late."""
        since_ns = 0 if self._newest is None else now_ns - self._newest.time_ns
        if self._usual_ns <= 0 or since_ns <= max(self._usual_ns + _LATE_NS, _LATE_PERIODS * self._usual_ns):
            return
        by_ns = round(since_ns - self._usual_ns) - (self._waited_ns - self._newest.waited_ns)
        self._motions = tuple(one._replace(start_ns=one.start_ns + by_ns) for one in self._motions)
        self._waited_ns += by_ns
