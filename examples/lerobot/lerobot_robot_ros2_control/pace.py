"""Times at which a policy's single actions are due, and the chunks that carry them; without ROS and LeRobot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Pace:
    """Makes one motion of actions that come one by one, about one period apart.

    An action is due one period after the one before, whenever it comes within its period. It is sent as a chunk that
    begins with the action before and goes on at the same pace for one more period, so that the arm moves on if the next
    action is late.

    Args:
        period_ns: time between two actions, ns.
        delay: number of periods by which actions are executed later than the policy means. With 2, the motion passes
            through known actions; with fewer, it follows the policy sooner and needs more corrections.

    """

    def __init__(self, period_ns: int, delay: int) -> None:
        self.period_ns, self.delay = period_ns, delay
        self.early = self.late = 0
        """Number of actions that came before the previous one was due, and of those that came after a gap."""
        self._due_ns: int | None = None
        self._before = self._last = np.zeros(0)

    def chunk(self, action: np.ndarray, now_ns: int, committed: Callable[[int], np.ndarray]) -> tuple[np.ndarray, int]:
        """The chunk for an action.

        Args:
            action: positions `[joints]`, rad.
            now_ns: time of arrival.
            committed: returns the command at a time, `[joints]`; called if no action precedes this one.

        Returns:
            Positions `[3, joints]`, each reached one period after the one before, and the begin of the first period.

        """
        period_ns, soonest_ns = self.period_ns, now_ns + self.delay * self.period_ns
        if self._due_ns is None or now_ns > self._due_ns:
            self.late += self._due_ns is not None
            self._last, self._due_ns = committed(soonest_ns), soonest_ns
        if self._due_ns > soonest_ns + period_ns:
            self.early += 1
        else:
            self._before, self._due_ns = self._last, self._due_ns + period_ns
        self._last = action
        return np.array([self._before, action, 2 * action - self._before]), self._due_ns - 2 * period_ns
