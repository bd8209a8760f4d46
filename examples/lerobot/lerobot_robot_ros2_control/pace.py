"""Due times of a policy's single actions, and the chunks that carry them. Knows no ROS and no LeRobot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Pace:
    """Makes one motion of actions that come one by one, about one period after each other.

    An action is due one period after the one before, so it does not matter when within its period it comes. Each goes
    out as a chunk that begins with the one before and goes on at the same pace for one period more, so the arm moves on
    until an action that is late.

    Args:
        period_ns: of the actions.
        delay: how many periods later than the policy means actions are executed. With 2, the motion passes through
            actions that are known; with fewer, it follows the policy sooner and corrects itself more.

    """

    def __init__(self, period_ns: int, delay: int) -> None:
        self.period_ns, self.delay = period_ns, delay
        self.early = self.late = 0
        """Numbers of actions that replaced the previous one, at most two periods early, and of those after a gap."""
        self._due_ns: int | None = None
        self._before = self._last = np.zeros(0)

    def chunk(self, action: np.ndarray, now_ns: int, committed: Callable[[int], np.ndarray]) -> tuple[np.ndarray, int]:
        """The chunk for an action.

        Args:
            action: positions `[joints]`, rad.
            now_ns: when it comes.
            committed: what is commanded at a time, `[joints]`; asked where no action leads to this one.

        Returns:
            Positions `[3, joints]`, each one reached a period after the one before, and when the first period begins.

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
