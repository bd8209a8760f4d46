"""A loop that samples the command, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from .command import Command

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
    usual_ns: float = 0.0
    """Usual interval between samples, ns; 0 if unknown."""

    def motion_at(self, time_ns: int) -> int:
        """Return the time of motions, ns: a usual interval after this sample, if the next one is late."""
        since_ns = time_ns - self.time_ns
        is_late = 0 < self.usual_ns and since_ns > max(self.usual_ns + _LATE_NS, _LATE_PERIODS * self.usual_ns)
        return self.motion_ns + (round(self.usual_ns) if is_late else since_ns)


class Samples:
    """The command at the times of a loop. When that is held up, motions wait, and go on from the last sample."""

    def __init__(self, command: Command) -> None:
        self._command, self._taking = command, threading.Lock()
        self.newest: Sample | None = None

    def at(self, time_ns: int) -> State:
        """Return the command at a time, ns, in any thread; as long as nothing is commanded, the last one is held."""
        with self._taking:
            before, usual_ns = self.newest, 0.0
            motion_ns = time_ns if before is None else before.motion_at(time_ns)
            if (state := self._command.state_at(motion_ns)) is None:
                held = self._command.joint_states.latest(time_ns, 0.0) if before is None else before.state
                state = State(held.position, *np.zeros((2, len(held.position))))
            if before is None or time_ns > before.time_ns:
                if before is not None:
                    since_ns, usual_ns = time_ns - before.time_ns, before.usual_ns
                    if since_ns == motion_ns - before.motion_ns:  # Otherwise, it was late.
                        usual_ns += (_LEARNED if usual_ns else 1.0) * (since_ns - usual_ns)
                self.newest = Sample(time_ns, motion_ns, state, usual_ns)
        return state
