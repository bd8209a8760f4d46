"""The command at any time, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from ..execution.motion import State, resting
from ..execution.tolerances import MOMENT_S
from .reference import PlannedMotion

_KEPT_NS = 1_000_000_000
"""Largest age, ns, of a time that may be sampled."""
_LATE_NS = 8_000_000
"""Time beyond the usual interval, ns, after which a sample counts as late, if it also exceeds `_LATE_PERIODS`."""
_LATE_PERIODS = 3
"""Multiple of the usual interval after which a sample counts as late, if it also exceeds `_LATE_NS`."""
_LEARNED = 0.1
"""Weight of the newest interval between samples in the usual one."""


class Sample(NamedTuple):
    """A command that was sampled."""

    time_ns: int
    state: State
    waited_ns: int
    """Time, ns, for which motions had waited by then."""


class SampledCommand:
    """The motions that were commanded lately, each in execution from its start until the start of the next one.

    One thread adds motions, and another one may sample. When the loop that samples is held up, motions wait for it, and
    the next sample goes on from the last one. The thread that adds motions finds that out by `look`.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._motions: tuple[PlannedMotion, ...] = ()
        self._newest: Sample | None = None
        self._usual_ns = 0.0
        """Usual interval between samples, ns; 0 if unknown."""
        self._waited_ns, self._looked_ns = 0, 0
        """Time, ns, for which motions have waited, and the part of it that `look` has returned."""

    def __bool__(self) -> bool:
        return bool(self._motions)

    def hold(self, position: np.ndarray, since_ns: int) -> None:
        """Command a position, rad, `[dof]`, from a time on, unless another thread has just begun a motion."""
        with self._changing:
            self._motions = self._motions or (PlannedMotion(since_ns, resting(position, MOMENT_S)),)

    def take(self, planned: PlannedMotion, now_ns: int) -> None:
        """Command a motion from its start on. It was made for where motions were at the last `look`."""
        with self._changing:
            before = [one for one in self._motions if one.start_ns < planned.start_ns]
            old = sum(one.start_ns < now_ns - _KEPT_NS for one in before[1:])
            since_ns = self._waited_ns - self._looked_ns
            self._motions = (*before[old:], planned._replace(start_ns=planned.start_ns + since_ns))

    def at(self, time_ns: int) -> State:
        """Return the command at a time, ns; before the first motion, its beginning."""
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
        """Return the newest sample, and how long motions have waited before and after it since the last look, ns."""
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
