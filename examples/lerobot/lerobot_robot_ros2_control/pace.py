"""Times at which a policy's single actions are due, and the chunks that carry them; without ROS and LeRobot."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np

_ROWS = 4
"""Number of known actions in a chunk: a spline through fewer ones does not know how the arm was meant to move."""
_GAIN = 0.2
"""Part of the distance from `delay` that one action corrects: it evens out jitter, and follows a loop that drifts."""
_MISSED = 0.4
"""Part of a period after which the next action counts as late: loops jitter by less."""
_RESTS = 3
"""Number of rows after the last action with which a motion ends there: it may be due before they arrive."""


class Pace:
    """Makes one motion of actions that come one by one, about one period apart; one thread may send, another one `end`.

    An action is due one period after the one before. It is sent as a chunk that begins with the actions before and goes
    on at the same pace for one more period, so that the arm does not slow down before the next one. If that is late,
    `end` leads to rest at the last action. Times follow the loop that sends: its periods are never exactly those of the
    policy. An action that jumps begins another motion, to which the arm is blended as to a new chunk: no limits allow
    a motion through it and those before. One that jumps farther than a chunk may begin from the arm is reached by
    several chunks.

    Args:
        period_ns: time between two actions, ns.
        delay: number of periods by which actions are executed later than the policy means. From 1 on, the motion passes
            through known actions; with less, it follows the policy sooner and needs more corrections.
        acceleration: the largest one, rad/s^2, `[joints]`: an action that would need more is a jump.
        reach: how far from the arm a chunk may begin, rad.

    """

    def __init__(
        self, period_ns: int, delay: float, acceleration: np.ndarray | float = np.inf, reach: float = np.inf
    ) -> None:
        self.period_ns, self.delay_ns, self._reach = period_ns, round(delay * period_ns), reach
        self._most_off = acceleration * (period_ns * 1e-9) ** 2
        self.early = self.late = 0
        """Number of actions that came before the previous one was due, and of those that came after a gap."""
        self._due_ns: int | None = None
        self.missed_ns: int | None = None
        """When the next action counts as late; None: none is expected."""
        self._lock = threading.Lock()
        self._rows = np.empty((0, 0))
        self._action = np.empty(0)
        self._jumped: np.ndarray | bool = False

    def chunk(
        self, action: np.ndarray, now_ns: int, committed: Callable[[int, int], np.ndarray]
    ) -> tuple[np.ndarray, int]:
        """The chunk for an action.

        Args:
            action: positions `[joints]`, rad.
            now_ns: time of arrival.
            committed: returns the commands at a time and at each period after it, `[rows, joints]`, of a time and a
                number of rows; called if no action precedes this one.

        Returns:
            Positions `[_ROWS + 1, joints]`, each reached one period after the one before, of which the last but one is
            the action, or on the way to it, and the begin of the first period.

        """
        with self._lock:
            rows, begin_ns = self._next(action, now_ns, committed)
            self.missed_ns = now_ns + round((1 + _MISSED) * self.period_ns)
            return rows, begin_ns

    def end(self, now_ns: int) -> tuple[np.ndarray, int] | None:
        """Return the chunk that is only the last action, once, if the next action is late; otherwise None.

        Several times, if the last action is farther than a chunk may begin.
        """
        if self.missed_ns is None or now_ns < self.missed_ns or not self._lock.acquire(blocking=False):
            return None  # The next action has just come if the lock is held.
        try:
            off = self._action - self._rows[-1]
            self._rows[-1] += np.clip(off, -self._reach, self._reach)
            self.missed_ns = now_ns + self.period_ns if (np.abs(off) > self._reach).any() else None
            goal = np.tile(self._rows[-1], (_ROWS + _RESTS, 1))  # one position: as fast as limits allow
            return goal, max(self._due_ns, now_ns) - _ROWS * self.period_ns
        finally:
            self._lock.release()

    def _next(
        self, action: np.ndarray, now_ns: int, committed: Callable[[int, int], np.ndarray]
    ) -> tuple[np.ndarray, int]:
        period_ns, soonest_ns = self.period_ns, now_ns + self.delay_ns
        if self._due_ns is None or now_ns > self._due_ns:
            self.late += self._due_ns is not None
            self._rows = committed(soonest_ns - (_ROWS - 2) * period_ns, _ROWS - 1)
            self._due_ns = soonest_ns
        behind_ns, rows = self._due_ns - soonest_ns, self._rows
        if behind_ns > period_ns:
            self.early += 1
            rows = rows[:-1]
        else:
            self._due_ns += period_ns - round(_GAIN * behind_ns)
        self._action, before = action, rows[-1] - rows[-2]
        off = action - rows[-1] - before  # from where the motion would go on
        jumps = np.abs(off) > self._most_off
        far = jumps & (np.abs(off) > self._reach)
        action = np.where(far, rows[-1] + before + np.clip(off, -self._reach, self._reach), action)
        # After one jump the motion goes on as before, after two in a row as from one to the other.
        line = action - np.where(self._jumped, before + off, before) * np.arange(len(rows), 0, -1)[:, None]
        self._rows, self._jumped = np.vstack([np.where(jumps, line, rows), action])[-_ROWS:], jumps & ~far
        if far.any():
            self._rows[:] = action  # one position: as fast as limits allow, and not beyond it
        return np.vstack([self._rows, 2 * action - self._rows[-2]]), self._due_ns - _ROWS * period_ns
