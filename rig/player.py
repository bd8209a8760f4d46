"""The player of a controller and its arm, cycle by cycle, whoever keeps the time and carries the messages."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from kit.arm import Robot
from kit.controller import SECOND

from .judge import Judged


class Row(NamedTuple):
    """One cycle: its time, the command for its end (position, velocity, acceleration), and what became of it then."""

    time: float
    command: np.ndarray
    place: np.ndarray
    speed: np.ndarray
    off: bool
    """True if there was no controller."""
    force: float
    """Force of a contact, N."""


class Player(Judged):
    """Lets a robot's time pass from a time on, ns: in each cycle what is due happens, and the command is recorded."""

    def __init__(self, robot: Robot, begin_ns: int) -> None:
        super().__init__(SECOND // robot.period)
        self.robot, self.rows, self._played = robot, [], (np.empty(0), np.empty(0))
        self._ns = self._begin_ns = begin_ns
        self._ahead_ns = 0
        """Time by which the controller's clock is ahead, ns."""
        self._numbers, self._events = itertools.count(), []

    @property
    def now(self) -> float:
        """The time, s from the beginning."""
        return (self._ns - self._begin_ns) / SECOND

    @property
    def place(self) -> np.ndarray:
        """The present command, rad."""
        return self.robot.commanded.position.copy()

    def go(self, seconds: float, every: float = 0.0, send: Callable[[], object] | None = None) -> None:
        """Let time pass, and call `send` periodically."""
        end_ns, next_ns = self._ns + round(seconds * SECOND), self._ns
        while self._ns < end_ns:
            if send is not None and self._ns >= next_ns:
                send()
                next_ns += round(every * SECOND)
            self._cycle()

    def played(self) -> tuple[np.ndarray, np.ndarray]:
        """Times, s, and commanded positions of each cycle, at its end."""
        if len(self._played[0]) != len(self.rows):
            times = np.array([row.time for row in self.rows]) + self.robot.period / SECOND
            self._played = times, np.array([row.command[0] for row in self.rows])
        return self._played

    def _cycle(self) -> None:
        self._do_due()
        time, off = (self._ns - self._begin_ns) / SECOND, self.robot.off
        command = self.robot.update(self._ns + self._ahead_ns)
        self.rows.append(Row(time, command, *self.robot.output(), off, self.robot.contact))
        self._ns += self.robot.period

    def _do_due(self) -> None:
        while self._events and self._events[0][0] <= self._ns:
            at_ns, _, what, *given = heapq.heappop(self._events)
            what(at_ns, *given)

    def _later(self, at_ns: int, what: Callable[..., None], *given: object) -> None:
        """Call a function in the cycle after a time, ns, with that time and what is given."""
        heapq.heappush(self._events, (at_ns, next(self._numbers), what, *given))

    def _repeat(self, what: Callable[[int], None], period_ns: int, after_ns: int = 0) -> None:
        """Call a function periodically, from a time after now on, ns."""
        number = next(self._numbers)  # of all that is due at the same time, what was registered first is done first

        def again(at_ns: int) -> None:
            what(at_ns)
            heapq.heappush(self._events, (at_ns + period_ns, number, again))

        heapq.heappush(self._events, (self._ns + after_ns, number, again))
