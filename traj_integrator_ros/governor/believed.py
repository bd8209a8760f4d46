"""Whether a measured position may be believed: whether the joint can have come there. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..requests.plan import turned
from ..requests.rejection import Rejected, RejectionReason

_FASTER = 1.5
"""Factor on the limit of velocity: a joint is believed to move as fast as that."""
_LEAST = 0.015
"""Step, as a share of the joint's range (at most 1 rad or m), that is always believed: so small a one never brakes."""
_ENDED_NS = SECOND_NS
"""Time, ns, after which a silent publisher has ended, and for which nothing begins after a contradiction."""
_AGREES_NS = 500_000_000
"""Time, ns, within which a second state confirms a doubted one: within a second, a joint can come almost anywhere."""
_PERIOD = 0.02
"""Weight of the newest interval in the mean interval between states: states without stamps may arrive together."""


class Believed:
    """Decides for each joint state whether it is possible after the last one that was believed.

    An impossible state is doubted. If the next one agrees with it, the joint has jumped, and both are believed, unless
    they contradict what is still there: the joint's publisher, if they are another one's, or the place that was
    believed, if the joint has been back there. A joint's publisher has ended when it has been silent for 1 s while
    another one sends.
    """

    def __init__(self, joint_names: Sequence[str]) -> None:
        self._joint_names, dof = joint_names, len(joint_names)
        self._speed, self._least, self._turning = np.full(dof, np.inf), np.full(dof, np.inf), np.zeros(dof, bool)
        self.forget()

    def configure(self, velocity: np.ndarray, size: np.ndarray, turning: np.ndarray) -> None:
        """Take limits of velocity, rad/s, ranges of joints (at most 1 rad or m), and which are continuous, `[dof]`."""
        self._speed, self._least, self._turning = _FASTER * velocity, _LEAST * size, turning

    def forget(self) -> None:
        """Forget all states, so that the next ones are believed at once."""
        dof = len(self._joint_names)
        self._position, self._other = np.full((2, dof), np.nan)
        """The last positions that were believed, and the last that were doubted or left by a jump, rad, `[dof]`."""
        self._stamps_ns, self._other_ns, self._publisher = np.zeros((3, dof), np.int64)
        self._heard_ns = np.full(dof, -_ENDED_NS)
        """When a state of each joint's publisher was believed last, ns."""
        self.period_ns, self._came_back = np.zeros(dof), False
        """Joints' usual times from one state to the next, ns, and whether joints came back from the other position."""
        self._doubted_ns = self._contradicted_ns = -_ENDED_NS
        self._told = ""
        self.begins_anew = False
        """True if a publisher has ended and another one goes on, until somebody sets it to False."""

    def doubts(self, now_ns: int) -> bool:
        """Return whether a state was doubted within the last 0.5 s."""
        return now_ns - self._doubted_ns < _AGREES_NS

    def take(
        self, joints: np.ndarray, position: np.ndarray, stamp_ns: int, now_ns: int, publisher: int = 0
    ) -> Rejected | None:
        """Take the positions of some joints, rad; returns the reason if they are not believed, otherwise None.

        A `publisher` of 0 is unknown.
        """
        gaps_ns, doubts = stamp_ns - self._stamps_ns[joints], self.doubts(now_ns)
        far = self._is_far(joints, position, self._position, gaps_ns)
        nearer = np.nansum(self._away(joints, position, self._position) - self._away(joints, position, self._other))
        others, is_there = self._publisher[joints] != publisher, now_ns - self._heard_ns[joints] < _ENDED_NS
        if far.any():
            other_far = self._is_far(joints, position, self._other, stamp_ns - self._other_ns[joints])
            agrees = doubts and nearer > 0 and not other_far[far].any()
            contradicts = agrees and bool((is_there & (others | self._came_back))[far].any())
            if contradicts or not agrees:
                self._came_back &= agrees
                self._doubted_ns = now_ns
                self._contradicted_ns = now_ns if contradicts else self._contradicted_ns
                self._other[joints], self._other_ns[joints] = position, stamp_ns
                joint = int(far.argmax())
                name, last = self._joint_names[joints[joint]], self._position[joints[joint]]
                self._told = f"{name} is at {last:.4g}, and at {position[joint]:.4g}"
                return self._rejected(contradicts)
            self._other[joints], self._other_ns[joints] = self._position[joints], self._stamps_ns[joints]
            self._came_back = True
        else:
            gaps_ns = np.minimum(gaps_ns, SECOND_NS) * (self._stamps_ns[joints] > 0)
            weight = np.where(self.period_ns[joints] > 0, _PERIOD, 1.0)
            self.period_ns[joints] += weight * (gaps_ns - self.period_ns[joints])
            self._came_back |= doubts and bool(nearer < 0)  # Otherwise it moves on from where it has jumped to.
        self._position[joints], self._stamps_ns[joints] = position, stamp_ns
        goes_on = joints[~(others & is_there)]
        self.begins_anew |= bool((others & ~is_there & (self._publisher[joints] != 0)).any())
        self._publisher[goes_on], self._heard_ns[goes_on] = publisher, now_ns
        return None

    def contradiction(self, now_ns: int, *, settled: bool = False) -> Rejected | None:
        """Return why nothing may begin: joint states contradict each other or, with `settled`, jumped within 1 s."""
        contradicts = now_ns - self._contradicted_ns < _ENDED_NS
        jumped = settled and now_ns - self._doubted_ns < _ENDED_NS
        return self._rejected(contradicts) if contradicts or jumped else None

    def _rejected(self, contradicts: bool) -> Rejected:
        what = "has two publishers" if contradicts else "jumped"
        text = f"joint_states {what}: {self._told}, further apart than {_FASTER:g} times limits.velocity allows"
        return Rejected(RejectionReason.CONTRADICTORY_STATE, text)

    def _is_far(self, joints: np.ndarray, position: np.ndarray, last: np.ndarray, gaps_ns: np.ndarray) -> np.ndarray:
        """Return which joints cannot have come here from `last` within `gaps_ns`; joints without a `last` can."""
        lasted_s = np.maximum(np.maximum(gaps_ns, self.period_ns[joints]), 1) * NANOSECOND_S
        return self._away(joints, position, last) > np.maximum(self._speed[joints] * lasted_s, self._least[joints])

    def _away(self, joints: np.ndarray, position: np.ndarray, last: np.ndarray) -> np.ndarray:
        """Return how far joints are from `last`, rad; NaN for those without."""
        before = last[joints]
        return np.abs(turned(position, before, self._turning[joints]) - before)
