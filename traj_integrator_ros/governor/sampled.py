"""The command at any time, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading
from typing import NamedTuple

from ..execution.motion import State
from .reference import PlannedMotion

_KEPT = 32
"""Number of motions that are kept: samples of times that are over need them."""
_LATE_NS = 8_000_000
"""Time beyond the usual interval, ns, after which a sample counts as late, if it also exceeds `_LATE_PERIODS`."""
_LATE_PERIODS = 3
"""Multiple of the usual interval after which a sample counts as late, if it also exceeds `_LATE_NS`."""
_LEARNED = 0.1
"""Weight of the newest interval between samples in the usual one."""


class Sample(NamedTuple):
    """A command that was sampled."""

    time_ns: int
    motion_ns: int
    """The time of motions then, ns: as long as a sample is late, motions wait for it."""
    state: State


class SampledCommand:
    """The motions that were commanded lately, each in execution from its start until the start of the next one.

    One thread begins motions, and another one may sample. When the loop that samples is held up, the time of motions
    stands, and the next sample goes on from the last one.
    """

    def __init__(self) -> None:
        self._changing = threading.Lock()
        self._motions: tuple[PlannedMotion, ...] = ()
        self._newest: Sample | None = None
        self._usual_ns = 0.0
        """Usual interval between samples, ns; 0 if unknown."""

    def __bool__(self) -> bool:
        return bool(self._motions)

    def begin(self, planned: PlannedMotion, *, is_first: bool = False) -> None:
        """Command a motion from its start on; one that can only be the first, unless another thread has begun one."""
        with self._changing:
            if not (is_first and self._motions):
                before = [one for one in self._motions if one.start_ns < planned.start_ns]
                self._motions = (*before[1 - _KEPT :], planned)

    def at(self, time_ns: int) -> State:
        """Return the command at a time, ns; before the first motion, its beginning."""
        with self._changing:
            newest, motion_ns = self._newest, self._motion_ns(time_ns)
            planned = next((one for one in reversed(self._motions) if one.start_ns <= motion_ns), self._motions[0])
            sample = Sample(time_ns, motion_ns, planned.state_at(motion_ns))
            if newest is None or time_ns > newest.time_ns:
                self._newest, since_ns = sample, 0 if newest is None else time_ns - newest.time_ns
                if newest is not None and since_ns == motion_ns - newest.motion_ns:  # Otherwise, it was late.
                    self._usual_ns += (_LEARNED if self._usual_ns else 1.0) * (since_ns - self._usual_ns)
        return sample.state

    def look(self, now_ns: int) -> tuple[Sample | None, int]:
        """Return the newest sample, and the time of motions now, ns."""
        with self._changing:
            return self._newest, self._motion_ns(now_ns)

    def _motion_ns(self, time_ns: int) -> int:
        """Return the time of motions, ns: a usual interval after the newest sample, if the next one is late."""
        if self._newest is None:
            return time_ns
        since_ns, usual_ns = time_ns - self._newest.time_ns, self._usual_ns
        is_late = 0 < usual_ns and since_ns > max(usual_ns + _LATE_NS, _LATE_PERIODS * usual_ns)
        return self._newest.motion_ns + (round(usual_ns) if is_late else since_ns)
