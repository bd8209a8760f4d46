"""Whether a measured position may be believed: whether the joint can have come there. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason

_FASTER = 1.5
"""Factor on the limit of velocity: a joint is believed to move as fast as that."""
_ANY_SPEED = 1e9
"""Speed, rad/s, that stands for a missing limit."""
_LEAST = 0.015
"""Step, as a share of the joint's range (at most 1 rad or m), that is always believed: so small a one never brakes."""
_REMEMBERED_NS = SECOND_NS
"""Time, ns, for which a doubted state is remembered, and for which nothing begins after a contradiction."""
_AGREES_NS = 500_000_000
"""Time, ns, within which a second state confirms a doubted one: within a second, a joint can come almost anywhere."""
_ANSWERS = 1.5
"""Periods after the last believed state within which its publisher may still contradict a doubted one: a second
publisher may be faster than the first.
"""
_AFTER = 0.75
"""Periods after the first doubt within which the same holds: before it, not every state was read."""
_PERIOD = 0.02
"""Weight of the newest interval in the mean interval between states: states without stamps may arrive together."""


class Believed:
    """Decides for each joint state whether it is possible after the last one that was believed.

    An impossible state is counted as doubted. If the next one agrees with it, the joint has jumped, and both are
    believed. If states that agree with those before go on beside it, two publishers contradict each other.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._joint_names, dof = joint_names, len(joint_names)
        self._speed, self._least = np.full((2, dof), _ANY_SPEED)
        self._turning = np.zeros(dof, bool)
        self.doubted = 0
        """Number of states that were not believed."""
        self.forget()

    def configure(self, velocity: np.ndarray, size: np.ndarray, turning: np.ndarray) -> None:
        """Take what joints can do.

        Args:
            velocity: limits, rad/s, `[dof]`.
            size: ranges of joints, at most 1 rad or m, `[dof]`.
            turning: continuous joints, bool `[dof]`, whose positions may jump by whole turns.

        """
        self._turning = turning
        self._speed, self._least = np.minimum(_FASTER * velocity, _ANY_SPEED), _LEAST * size

    def forget(self) -> None:
        """Forget all states, so that the next ones are believed at once."""
        dof = len(self._joint_names)
        self._position, self._other = np.full((2, dof), np.nan)
        """The last positions that were believed, and the last that were doubted, rad, `[dof]`; NaN if there is none."""
        self._stamps_ns, self._other_ns = np.zeros((2, dof), np.int64)
        self._period_ns, self._came_back = np.zeros(dof), False
        self._is_open = False
        """True from a doubt until the joint has jumped or moved on, and while publishers contradict each other."""
        self._doubted_ns = self._contradicted_ns = 0
        self._told = ""

    @property
    def period_ns(self) -> float:
        """Longest of the joints' usual times from one state to the next, ns; 0: not known."""
        return float(self._period_ns.max(initial=0.0))

    def doubts(self, now_ns: int) -> bool:
        """Return whether a state was doubted within the last 0.5 s."""
        return bool(self._doubted_ns) and now_ns - self._doubted_ns < _AGREES_NS

    def take(self, joints: np.ndarray, position: np.ndarray, stamp_ns: int, now_ns: int) -> Rejected | None:
        """Take the positions of some joints; returns the reason if they are not believed, otherwise None.

        Args:
            joints: their indices.
            position: rad, of each.
            stamp_ns: when they were measured.
            now_ns: the time.

        """
        gaps_ns = stamp_ns - self._stamps_ns[joints]
        far = self._is_far(joints, position, self._position, gaps_ns)
        recent = self._is_open and self.doubts(now_ns)
        if not far.any():
            known = self._period_ns[joints] > 0
            self._period_ns[joints] += np.where(known, _PERIOD, 1.0) * (
                np.minimum(gaps_ns, _REMEMBERED_NS) * (self._stamps_ns[joints] > 0) - self._period_ns[joints]
            )
            # A joint that moves on may have come from either state. If it is nearer to the doubted one, it has jumped.
            nearer = self._away(joints, position, self._other) - self._away(joints, position, self._position)
            self._came_back |= recent and bool(np.nansum(nearer) > 0)
            self._is_open = self._came_back
        elif recent and not self._is_far(joints, position, self._other, stamp_ns - self._other_ns[joints])[far].any():
            # The publisher of the states before is given the time to contradict this one.
            period_ns = self._period_ns[joints][far].max()
            waits = gaps_ns[far].min() < _ANSWERS * period_ns or now_ns - self._doubted_ns < _AFTER * period_ns
            if self._came_back or waits:
                if self._came_back:
                    self._contradicted_ns = self._doubted_ns = now_ns
                return self._doubt(joints, position, stamp_ns, far)
            self._is_open = False
        else:
            self._doubted_ns, self._came_back, self._is_open = now_ns, False, True
            self.doubted += 1
            return self._doubt(joints, position, stamp_ns, far)
        self._position[joints], self._stamps_ns[joints] = position, stamp_ns
        return None

    def require_agreement(self, now_ns: int, *, settled: bool = False) -> None:
        """Refuse to begin while joint states contradict each other or, with `settled`, within 1 s of a jump.

        Raises:
            Rejected: contradictory_state.

        """
        contradicts = self._contradicted_ns and now_ns - self._contradicted_ns < _REMEMBERED_NS
        if contradicts or (settled and self._doubted_ns and now_ns - self._doubted_ns < _REMEMBERED_NS):
            raise Rejected(RejectionReason.CONTRADICTORY_STATE, self._text(bool(contradicts)))

    def _text(self, contradicts: bool) -> str:
        what = "has two publishers" if contradicts else "jumped"
        return f"joint_states {what}: {self._told}, further apart than 1.5 times limits.velocity allows"

    def _is_far(self, joints: np.ndarray, position: np.ndarray, last: np.ndarray, gaps_ns: np.ndarray) -> np.ndarray:
        """Return which joints cannot have come here from `last` within `gaps_ns`; joints without a `last` can."""
        lasted_s = np.maximum(gaps_ns, self._period_ns[joints]) * NANOSECOND_S
        return self._away(joints, position, last) > np.maximum(self._speed[joints] * lasted_s, self._least[joints])

    def _away(self, joints: np.ndarray, position: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return how far joints are from `last`, rad; NaN for those without."""
        before = last[joints]
        return np.abs(turned(position, before, self._turning[joints]) - before)

    def _doubt(self, joints: np.ndarray, position: np.ndarray, stamp_ns: int, far: np.ndarray) -> Rejected:
        self._other[joints], self._other_ns[joints] = position, stamp_ns
        joint = int(far.argmax())
        name, last = self._joint_names[joints[joint]], self._position[joints[joint]]
        self._told = f"{name} is at {last:.4g}, and at {position[joint]:.4g}"
        return Rejected(RejectionReason.CONTRADICTORY_STATE, self._text(self._contradicted_ns > 0))
