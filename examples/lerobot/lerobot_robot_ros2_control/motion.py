"""What an arm behind the node and servos behind the executor have in common; without ROS and LeRobot."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np

from .pace import Pace

SECOND_NS = 1_000_000_000
_WARNING_S = 2.0
_ENDS, _FINE = 32, 4
"""Number of periods in which an arm comes to rest, and of places in each at which it is looked where it is then."""
_PASSES = 0.02
"""Part of the largest step by which an arm may pass the last action and return: a spline does so, too."""
_LOG = logging.getLogger(__name__)


class Committed(Protocol):
    """The motion in execution at the times of a chunk."""

    position: np.ndarray
    """`[rows, joints]`, rad."""
    velocity: np.ndarray


class Motion(ABC):
    """Takes actions one by one, or as chunks.

    Args:
        period_s: time between two actions, s.
        delay: periods by which single actions are executed later, as `Pace` says.

    """

    def __init__(self, period_s: float, delay: float) -> None:
        self.period_s = period_s
        self.pace = Pace(round(period_s * SECOND_NS), delay)
        self.rejected = 0
        """Number of chunks and actions that were not executed; a warning says why."""
        self._warned_s: dict[str, float] = {}
        self._ending: tuple[np.ndarray, int] | None = None
        """The chunk that ends at the last action, until it is seen whether the arm passes that."""

    def send(self, position: np.ndarray) -> None:
        """Execute one action, a position `[joints]`, rad, a period after the one before."""
        before, self._ending = self.pace.early + self.pace.late, None
        chunk = self.pace.chunk(position, self.now_ns(), lambda time_ns, rows: self.committed(time_ns, rows).position)
        self._execute(*chunk)
        if self.pace.early + self.pace.late > before:
            self._warn(
                "pace",
                f"expected an action every {self.period_s:.3g} s; {self.pace.early} came too early and replaced the "
                f"one before, {self.pace.late} came after a gap",
            )

    def end(self) -> None:
        """Rest at the last action if the next one is late; to be called several times in a period.

        An arm that is too fast to stop there passes it, as little as its limits allow, and stays: it does not swing.
        """
        ending, self._ending = self._ending, None
        if ending is not None:
            if (rows := self._without_return(*ending)) is not None:
                self._execute(rows, ending[1], self.period_s / _FINE)
        elif chunk := self.pace.end(self.now_ns()):
            self._ending = chunk
            self._execute(*chunk)

    def send_chunk(self, positions: np.ndarray, stamp_ns: int) -> None:
        """Execute a chunk `[actions, joints]`, rad, whose first action is reached one period after the stamp."""
        self.pace.missed_ns = self._ending = None
        self._execute(positions, stamp_ns)

    def close(self) -> None:
        """Let the robot brake, and disconnect."""
        self.pace.missed_ns = self._ending = None
        self._close()

    @abstractmethod
    def now_ns(self) -> int:
        """Time by the clock of stamps, ns."""

    @abstractmethod
    def _close(self) -> None:
        """Let the robot brake, and disconnect."""

    @abstractmethod
    def _execute(self, positions: np.ndarray, stamp_ns: int, period_s: float = 0.0) -> None:
        """Execute a chunk, as `send_chunk` says, with other periods than those of actions if they are not 0."""

    @abstractmethod
    def committed(self, stamp_ns: int, rows: int, period_s: float = 0.0) -> Committed:
        """Return the motion in execution at a time, and at each period after it; 0: that of actions."""

    def _without_return(self, rows: np.ndarray, begin_ns: int) -> np.ndarray | None:
        """Return the motion in execution without the way back of joints that pass the last of rows; None: none does."""
        last, room = rows[-1], _PASSES * np.abs(np.diff(rows, axis=0)).max(axis=0)
        step_s = self.period_s / _FINE
        found = self.committed(begin_ns, _ENDS * _FINE + 1, step_s)
        now = int(np.ceil((self.now_ns() - begin_ns) / (step_s * SECOND_NS)))
        ahead = (found.position - last) * np.sign(found.velocity[now])
        ahead[:now] = -np.inf
        passes = ahead.max(axis=0) > room
        if not passes.any() or (np.abs(ahead[-1]) > room).any():
            return None
        until = np.where(passes, ahead.argmax(axis=0), len(ahead))
        each = np.minimum(np.arange(len(ahead))[:, None], until)
        return np.take_along_axis(found.position, each, axis=0)[1:]

    def _refuse(self, reason: str, text: str) -> None:
        self.rejected += 1
        self._warn(reason, text)

    def _warn(self, kind: str, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._warned_s.get(kind, -np.inf) >= _WARNING_S:
            self._warned_s[kind] = now_s
            _LOG.warning("%s", text)
