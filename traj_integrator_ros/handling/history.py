"""What was commanded and measured lately, by the clock. Knows no ROS."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque

import numpy as np

from .courses import Course

KEPT_S = 30.0
_MOST_COMMANDED, _MOST_MEASURED = 2048, 4096
_LONGEST_GAP_NS = 200_000_000
"""Between two joint states that are further apart, nothing is said about where the robot was."""


class History:
    """The motions that were published, and the joint states, of the last 30 s or the last 4096 joint states."""

    def __init__(self) -> None:
        self._commanded: deque[tuple[int, Course | None]] = deque(maxlen=_MOST_COMMANDED)
        """From when on it is in execution, ns, and the motion; None: not known what is."""
        self._measured: deque[tuple[int, np.ndarray, np.ndarray]] = deque(maxlen=_MOST_MEASURED)

    def published(self, course: Course, from_ns: int) -> None:
        """Take note of a motion that is in execution from a time on."""
        while self._commanded and self._commanded[-1][0] >= from_ns:
            self._commanded.pop()
        self._commanded.append((from_ns, course))
        while len(self._commanded) > 1 and (from_ns - self._commanded[1][0]) * 1e-9 > KEPT_S:
            self._commanded.popleft()

    def dropped(self) -> None:
        """Take note that the controller does not execute the newest motion any more; since when, is not known."""
        if self._commanded:
            self._commanded[-1] = (self._commanded[-1][0], None)

    def measured(self, stamp_ns: int, position: np.ndarray, velocity: np.ndarray) -> None:
        """Take note of a joint state `[dof]`."""
        self._measured.append((stamp_ns, position, velocity))

    def clear(self) -> None:
        """Forget everything."""
        self._commanded.clear()
        self._measured.clear()

    def commanded_at(self, times_ns: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
        """Commanded positions and velocities `[N, dof]` at times `[N]`; NaN where they are not known."""
        position, velocity = np.full((2, len(times_ns), dof), np.nan)
        begins = [begin for begin, _ in self._commanded]
        for row, time_ns in enumerate(times_ns.tolist()):
            index = bisect_right(begins, time_ns) - 1
            course = self._commanded[index][1] if index >= 0 else None
            if course is not None:
                state = course.state_at(time_ns)
                position[row], velocity[row] = state.position, state.velocity
        return position, velocity

    def measured_at(self, times_ns: np.ndarray, dof: int) -> tuple[np.ndarray, np.ndarray]:
        """Measured positions and velocities `[N, dof]` at times `[N]`, linear between joint states; NaN elsewhere."""
        position, velocity = np.full((2, len(times_ns), dof), np.nan)
        stamps = [stamp for stamp, _, _ in self._measured]
        for row, time_ns in enumerate(times_ns.tolist()):
            index = bisect_right(stamps, time_ns)
            if not 0 < index < len(stamps):
                if stamps and time_ns == stamps[-1]:
                    position[row], velocity[row] = self._measured[-1][1:]
                continue
            (before_ns, p0, v0), (after_ns, p1, v1) = self._measured[index - 1], self._measured[index]
            if after_ns - before_ns > _LONGEST_GAP_NS:
                continue
            share = (time_ns - before_ns) / (after_ns - before_ns)
            position[row], velocity[row] = p0 + share * (p1 - p0), v0 + share * (v1 - v0)
        return position, velocity
