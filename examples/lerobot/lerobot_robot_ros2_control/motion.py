"""What an arm behind the node and servos behind the executor have in common; without ROS and LeRobot."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import TypeVar

import numpy as np

from traj_integrator_ros.execution.committed import Committed

from .pace import Pace

Rows = TypeVar("Rows")
"""An array or a tensor."""
SECOND_NS = 1_000_000_000
_WARNING_S = 2.0
_LOG = logging.getLogger(__name__)


def left_over(actions: Rows, passed: float) -> Rows:
    """Return what is left of a chunk `[actions, joints]` after a number of periods, on parabolas through three actions.

    Observations are not whole periods apart. Lines between two actions would cut curves short, by up to an eighth of
    the acceleration, and the chunk that begins with them would jump back to what the policy means.
    """
    rows, part = actions[int(passed) :], passed % 1
    ends = (1 - part) * (2 - part) / 2 * rows[:-2] - part * (1 - part) / 2 * rows[2:]
    return ends + part * (2 - part) * rows[1:-1]


class Motion(ABC):
    """Takes actions one by one, or as chunks.

    Args:
        period_s: time between two actions, s.
        delay: periods by which single actions are executed later, as `Pace` says.
        acceleration: the largest one, as `Pace` says.
        reach: how far from the arm a chunk may begin, rad.

    """

    def __init__(self, period_s: float, delay: float, acceleration: np.ndarray, reach: float = np.inf) -> None:
        self.period_s = period_s
        self.pace = Pace(round(period_s * SECOND_NS), delay, acceleration, reach)
        self.rejected = 0
        """Number of chunks and actions that were not executed; a warning says why."""
        self._warned_s: dict[str, float] = {}

    def send(self, position: np.ndarray) -> None:
        """Execute one action, a position `[joints]`, rad, a period after the one before."""
        before = self.pace.early + self.pace.late
        chunk = self.pace.chunk(position, self.now_ns(), lambda time_ns, rows: self._committed(time_ns, rows).position)
        self._execute(*chunk)
        if self.pace.early + self.pace.late > before:
            self._warn(
                "pace",
                f"expected an action every {self.period_s:.3g} s; {self.pace.early} came too early and replaced the "
                f"one before, {self.pace.late} came after a gap",
            )

    def end(self) -> None:
        """End at the last action if the next one is late; to be called several times in a period."""
        if chunk := self.pace.end(self.now_ns()):
            self._execute(*chunk)

    def send_chunk(self, positions: np.ndarray, stamp_ns: int) -> None:
        """Execute a chunk `[actions, joints]`, rad, whose first action is reached one period after the stamp."""
        self.pace.missed_ns = None
        self._execute(positions, stamp_ns)

    def prefix(self, stamp_ns: int, actions: int, inference_s: float) -> np.ndarray:
        """Return the actions with which a chunk of this stamp must begin, since they can no longer change.

        Args:
            stamp_ns: stamp of the observation.
            actions: length of the chunk.
            inference_s: time that the policy will need, s.

        Returns:
            Positions `[fixed, joints]`, rad, the frozen prefix of real-time chunking; at most `actions` rows.

        """
        found = self._committed(stamp_ns, actions + 1)
        fixed = found.committed + int(np.ceil(inference_s / self.period_s))
        return found.position[1 : min(fixed, actions + 1)]

    def close(self) -> None:
        """Let the robot brake, and disconnect."""
        self.pace.missed_ns = None
        self._close()

    @abstractmethod
    def now_ns(self) -> int:
        """Time by the clock of stamps, ns."""

    @abstractmethod
    def _close(self) -> None:
        """Let the robot brake, and disconnect."""

    @abstractmethod
    def _execute(self, positions: np.ndarray, stamp_ns: int) -> None:
        """Execute a chunk, as `send_chunk` says."""

    @abstractmethod
    def _committed(self, stamp_ns: int, rows: int) -> Committed:
        """Return the motion in execution at a time, and at each period after it."""

    def _refuse(self, reason: str, text: str) -> None:
        self.rejected += 1
        self._warn(reason, text)

    def _warn(self, kind: str, text: str) -> None:
        now_s = time.monotonic()
        if now_s - self._warned_s.get(kind, -np.inf) >= _WARNING_S:
            self._warned_s[kind] = now_s
            _LOG.warning("%s", text)
