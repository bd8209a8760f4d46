"""Whether the robot follows its command, and until when it is braked where it does not. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

from ..execution.motion import State

LONGEST_LAG_S = 0.12
"""Joints may be where the command was up to so long ago."""
_SAMPLES = 13
_APART_NS, _AHEAD_NS = 10_000_000, 3_000_000
_EVERY_NS = 3_500_000
"""A robot that reports at 1 kHz is compared every 4 ms: that is more often than anybody looks."""
_FORGETTING = 0.995
_MOVES = 1e-4
"""Variance of velocity, (rad/s)^2, below which nothing is said about the lag."""
_RESTS = 0.02
"""rad/s; measured velocities up to this count as rest."""
_REST_S = 0.1
_STAYS_S = 1.0
"""A robot that stood still comes back to a command that is held by then, if it does."""


class Guard:
    """Compares the robot with its command, and decides when it is braked because it does not follow, and until when.

    A joint deviates by its distance from the range of positions that were commanded within the last 0.12 s. So a lag is
    no deviation, and neither needs it to be known. A deviation is held against the robot until its command and its
    joints rest. Where it begins away from its command, which a plan may do that leads back to it, that distance is
    allowed, and shrinks with it.
    """

    def __init__(self) -> None:
        self.deviation = np.zeros(0)
        """rad, `[dof]`, of the last measured state."""
        self.lag_s: float | None = None
        """By how much the joints lag behind their command; None: not known."""
        self.reason = ""
        """Why the robot was braked; empty: it was not, or that is over."""
        self.joint = -1
        """The joint that deviated."""
        self.stopped_until_rest = False
        self.held = False
        """Whether a stop holds on until it is released: by a call, never because something else is forgotten."""
        self.stop_waits = False
        """Whether a stop was requested that cannot be made yet."""
        self.brakes = 0
        self._allowed: np.ndarray | None = None
        self._resting_since_ns = 0
        self._past: deque[tuple[int, np.ndarray]] = deque(maxlen=_SAMPLES)
        """Commanded positions of the last 0.12 s, 10 ms apart."""
        self._compare_anew(0)

    def clear(self) -> None:
        """Forget everything but that it is held, which nothing but a release ends."""
        held = self.held
        self.__init__()
        self.held = held

    def _compare_anew(self, dof: int) -> None:
        """Forget the comparison; the lag of the joints stays what it was."""
        self.deviation, self._moments, self._weight = np.zeros(dof), np.zeros((4, dof)), 0.0
        self._compared_ns = 0
        self._past.clear()

    def is_due(self, stamp_ns: int) -> bool:
        """Whether a state measured then is to be compared: of those that come faster than every 4 ms, most are not."""
        return not 0 <= stamp_ns - self._compared_ns < _EVERY_NS

    def take(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        stamp_ns: int,
        commanded: Callable[[int], State | None],
    ) -> None:
        """Compare a measured state `[dof]` with what was commanded before its stamp.

        Args:
            position: rad.
            velocity: rad/s.
            stamp_ns: when it was measured.
            commanded: state commanded at a time, ns; None: not known.

        """
        if len(self.deviation) != len(position):
            self._compare_anew(len(position))
        self._compared_ns = stamp_ns
        self._compare(position, stamp_ns, commanded)
        if np.abs(velocity).max() > _RESTS:
            self._resting_since_ns = stamp_ns
        if self._allowed is not None:
            self._allowed = np.minimum(self._allowed, self.deviation)

    def _compare(self, position: np.ndarray, stamp_ns: int, commanded: Callable[[int], State | None]) -> None:
        past, now = self._past, commanded(stamp_ns)
        if now is None:
            past.clear()
            self.deviation = np.zeros_like(self.deviation)
            return
        if not past or stamp_ns - past[-1][0] >= 2 * _APART_NS:
            past.clear()
            for back in range(_SAMPLES - 2, 0, -1):
                state = commanded(stamp_ns - back * _APART_NS)
                if state is not None:
                    past.append((stamp_ns - back * _APART_NS, state.position))
        ahead = commanded(stamp_ns + _AHEAD_NS) or now
        since_ns = stamp_ns - round(LONGEST_LAG_S * 1e9)
        known = np.stack([now.position, ahead.position, *(at for time_ns, at in past if time_ns >= since_ns)])
        low, high = known.min(axis=0), known.max(axis=0)
        self.deviation = np.maximum(np.maximum(position - high, low - position), 0.0)
        if len(known) >= _SAMPLES - 1:
            self._estimate_lag(now.velocity, now.position - position)
        if not past or stamp_ns - past[-1][0] >= _APART_NS:
            past.append((stamp_ns, now.position))

    def _estimate_lag(self, velocity: np.ndarray, error: np.ndarray) -> None:
        """By linear regression of the error on the velocity, old values forgotten; a droop does not count."""
        self._moments = self._moments * _FORGETTING + np.stack([velocity, error, velocity**2, velocity * error])
        self._weight = self._weight * _FORGETTING + 1.0
        v, e, vv, ve = self._moments / self._weight
        variance = float((vv - v * v).sum())
        if variance > _MOVES and self._weight > 10:
            self.lag_s = max(float((ve - v * e).sum()) / variance, 0.0)

    def exceeded(self, allowed: float) -> int | None:
        """The joint that deviates most beyond the allowance, rad; None: none does."""
        if allowed <= 0 or not len(self.deviation):
            return None
        more = (
            np.zeros_like(self.deviation)
            if self._allowed is None
            else np.where(self._allowed > allowed, self._allowed + allowed / 2, 0.0)
        )
        beyond = self.deviation - np.maximum(allowed, more)
        joint = int(beyond.argmax())
        return joint if beyond[joint] > 0 else None

    def allow(self, gap: np.ndarray) -> None:
        """Begin this far from the command, rad, `[dof]`."""
        self._allowed = gap.copy()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Allow, within, what is then allowed no more."""
        before = self._allowed
        try:
            yield
        finally:
            self._allowed = before

    def brake(self, reason: str, joint: int = -1) -> None:
        """The robot is braked for a reason."""
        self.reason, self.joint = reason, joint
        self.brakes += 1

    def rests(self, now_ns: int, away: bool = False) -> bool:
        """Whether the joints have been at rest for a moment; `away` from their command, for so long that they stay."""
        return (now_ns - self._resting_since_ns) * 1e-9 >= (_STAYS_S if away else _REST_S)

    def recover(self) -> None:
        """The robot rests: the next sequence may begin where it is."""
        self.reason, self.joint = "", -1
        self._allowed = None
        self._compare_anew(len(self.deviation))
