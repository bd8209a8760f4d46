"""The command at any time, for robots that are driven without a trajectory controller. Knows no ROS."""

from __future__ import annotations

import threading

import numpy as np

from ..execution.motion import State, resting
from ..execution.tolerances import MOMENT_S
from .reference import PlannedMotion

_KEPT_NS = 1_000_000_000
"""Largest age of a time that may be sampled."""


class SampledCommand:
    """The motions that were commanded lately, each in execution from its start until that of the next one.

    One thread takes motions, any other may sample: it reads a tuple that is replaced as a whole, without a lock once
    there is a motion.
    """

    def __init__(self) -> None:
        self._motions: tuple[PlannedMotion, ...] = ()
        self._changing = threading.Lock()
        self.newest: tuple[int, State] | None = None
        """The latest sampled time, ns, and the command then; None: nothing was sampled."""

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
        motions = self._motions
        planned = next((one for one in reversed(motions) if one.start_ns <= time_ns), motions[0])
        state = planned.state_at(time_ns)
        if self.newest is None or time_ns > self.newest[0]:
            self.newest = time_ns, state
        return state
