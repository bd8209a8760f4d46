"""The robot's latest joint state, and whether a motion may begin there. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import MOST_KEPT, NANOSECOND_S, whole_ns
from ..requests.joint_order import named_joints, values_of_joints
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .believed import Believed
from .robot_clock import STEP_NS

REORDER_WINDOW_S = 0.1
"""Time, s, by which a stamp may be older than the newest one and still belong to a late message; beyond, the clock has
jumped back. A stamp that is ahead of the node's clock by more than this comes from another clock.
"""
_FEWEST = 3
"""Smallest number of joint states whose steps are compared with each other."""
_FASTER = 2.0
"""Factor by which a step of a joint may be faster than the steps beside it."""
_OVERDUE_NS = 10_000_000
"""Time, ns, by which joint states may be late because a thread waits for its turn."""
_OVERDUE_PERIODS = 2
"""Number of their usual periods after which joint states are overdue."""
_LATELY_S = 0.2
"""Time over which the speed of joints is measured, s, and in which velocities explain where joints are."""


class MeasuredState(NamedTuple):
    """One state of all joints in the node's order, float64 `[dof]`, SI units."""

    position: np.ndarray
    velocity: np.ndarray
    stamp_ns: int
    """Time, ns, at which the joint measured last was measured."""
    stamps_ns: np.ndarray
    """When each joint was measured, ns, int64 `[dof]`, by the node's clock: joints may have different publishers.
    Without a stamp, or with one that is far ahead of the clock, it is the time of arrival.
    """
    received_ns: np.ndarray
    """When the state of each joint arrived, ns, int64 `[dof]`."""


class JointStates:
    """Keeps the latest state of each joint, in the node's joint order, and its age.

    Joints may come from several publishers: a message updates those that it names. All times are nanoseconds of the
    node's clock. A clock that jumps back (simulation reset, restarted bag) makes the stored states meaningless. They
    are dropped, and so is the message that revealed the jump; the next one is accepted.
    """

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names, self.believed = joint_names, Believed(joint_names)
        self.jumped_back = False
        """True after a clock has jumped back, until the next state arrives."""
        self.refused: Rejected | None = None
        """Why joints of the last message were refused; None if none was."""
        self.doubted: Rejected | None = None
        """Why the last message was not believed (see `Believed`); None if it was."""
        self.recent: deque[MeasuredState] = deque(maxlen=MOST_KEPT)
        """The accepted states of all joints, the oldest first."""
        self._forget()

    def _forget(self) -> None:
        dof = len(self._joint_names)
        self._position, self._velocity = np.full(dof, np.nan), np.zeros(dof)
        self._stamps_ns, self._received_ns = np.zeros((2, dof), np.int64)
        self._arrived_ns = 0
        """When the newest joint state arrived, ns; 0 if none has."""
        self._assumed_ns = 0
        """When the newest one without a stamp did, ns, which then counts as its stamp."""
        self.recent.clear()
        self.believed.forget()

    def update(
        self,
        names: Sequence[str],
        position: np.ndarray,
        velocity: np.ndarray,
        stamp_ns: int,
        now_ns: int,
        publisher: int = 0,
        waited_ns: int = 0,
    ) -> bool:
        """Take the joints of a joint state, and return whether one was taken; `refused` says why others were not.

        Joints that the node does not have are ignored; those whose position is NaN are not taken. An empty velocity
        means 0, and so does NaN, with which ros2_control fills in what a joint lacks. A stamp of 0 means
        `waited_ns` ago, a publisher of 0 that it is unknown. Raises Rejected: duplicate_joint, joint_count, not_finite
        or clock_jumped_back. The stored state is kept, unless the clock jumped.
        """
        self.check_clock(now_ns)
        if not len(names):
            raise Rejected(RejectionReason.JOINT_COUNT, "joint_states.name: expected names of joints, got none")
        columns, joints = named_joints(tuple(names), self._joint_names, "joint_states.name")
        self.refused = self.doubted = None
        if not len(joints):
            return False
        position = values_of_joints("joint_states.position", position, columns, len(names), optional=False, nan=True)
        velocity = values_of_joints("joint_states.velocity", velocity, columns, len(names), optional=True, nan=True)
        stamp, newest = stamp_ns or now_ns - waited_ns, max(self._stamps_ns[joints].tolist())  # 0 for unknown joints
        if newest - whole_ns(REORDER_WINDOW_S) <= stamp < newest <= self._assumed_ns:
            stamp = newest  # A stamp that was given is not held against one that was assumed.
        if stamp < newest:
            back_s, consequence = (newest - stamp) * NANOSECOND_S, "ignored as late"
            if back_s > REORDER_WINDOW_S:
                self.drop_for_jump()
                consequence = "the state held is dropped"
            text = f"joint_states.header.stamp: {back_s:.3f} s before the newest one; {consequence}"
            raise Rejected(RejectionReason.CLOCK_JUMPED_BACK, text)
        if np.count_nonzero(unknown := np.isnan(position)):
            lacking = [self._joint_names[joint] for joint in joints[unknown].tolist()]
            text = f"joint_states.position: expected finite numbers, got nan for {shown_names(lacking)}"
            self.refused = Rejected(RejectionReason.NOT_FINITE, text)
            joints, position, velocity = joints[~unknown], position[~unknown], velocity[~unknown]
        if not len(joints):
            return False
        self.doubted = self.believed.take(joints, position, stamp, now_ns, publisher)
        if self.doubted is not None:
            return False
        self._position[joints], self._velocity[joints] = position, np.where(np.isnan(velocity), 0.0, velocity)
        self._stamps_ns[joints], self._received_ns[joints] = stamp, now_ns
        self._arrived_ns, self.jumped_back = now_ns, False
        self._assumed_ns = self._assumed_ns if stamp_ns else stamp
        if not np.count_nonzero(np.isnan(self._position)):
            received_ns = self._received_ns.copy()
            ahead = self._stamps_ns > received_ns + whole_ns(REORDER_WINDOW_S)
            stamps_ns = np.where(ahead, received_ns, self._stamps_ns)
            state = self._position.copy(), self._velocity.copy()
            self.recent.append(MeasuredState(*state, max(stamps_ns.tolist()), stamps_ns, received_ns))
        return True

    def latest(self, now_ns: int, timeout_s: float) -> MeasuredState:
        """Return the stored state, if no joint's is older than `timeout_s`; 0 accepts any age.

        Raises Rejected: no_joint_state, clock_jumped_back (no state since), contradictory_state or state_too_old.
        """
        self.check_clock(now_ns)
        if (contradictory := self.believed.contradiction(now_ns)) is not None:
            raise contradictory
        if not self.recent:
            if self.jumped_back:
                text = "start: the clock jumped back, and no joint state arrived since"
                raise Rejected(RejectionReason.CLOCK_JUMPED_BACK, text)
            unknown = np.isnan(self._position)
            names = [name for name, lacks in zip(self._joint_names, unknown, strict=True) if lacks]
            lacking = "none arrived" if unknown.all() else f"none of {shown_names(names)} arrived"
            text = f"start: empty, so the latest joint state is needed, but {lacking} on joint_states"
            raise Rejected(RejectionReason.NO_JOINT_STATE, text)
        if 0 < timeout_s < (age := self.age_s(now_ns)):
            joint = self.oldest(now_ns)
            raise Rejected(
                RejectionReason.STATE_TOO_OLD,
                f"start: the latest joint state{f' of {joint}' if joint else ''} is {age:.3f} s old, expected at most "
                f"{timeout_s:g} s (parameter state_timeout)",
            )
        return self.recent[-1]

    def known(self, now_ns: int, timeout_s: float) -> MeasuredState | None:
        """Return the stored state, or None where `latest` raises."""
        try:
            return self.latest(now_ns, timeout_s)
        except Rejected:
            return None

    def lately(self) -> list[MeasuredState]:
        """Return the states of the last 0.2 s, the oldest first."""
        since_ns = self.recent[-1].stamp_ns - whole_ns(_LATELY_S) if self.recent else 0
        return [*takewhile(lambda one: one.stamp_ns >= since_ns, reversed(self.recent))][::-1]

    def speed(self) -> np.ndarray:
        """Return recent speeds of joints, rad/s, `[dof]`, from their positions; there has to be a state.

        Measured velocities may be noise, or missing: they count only for a joint of which too few states are known.
        """
        first, last = (self.lately()[place] for place in (0, -1))
        lasted = (last.stamps_ns - first.stamps_ns) * NANOSECOND_S
        speed = np.abs(last.position - first.position) / np.maximum(lasted, NANOSECOND_S)
        return np.where(lasted < _LATELY_S / 4, np.abs(last.velocity), speed)

    def age_s(self, now_ns: int) -> float | None:
        """Return the age of the oldest joint, s, by its stamp or its arrival (the earlier one); None without a state.

        The arrival counts because stamps that run ahead of this clock would never age.
        """
        return float(self._ages_s(now_ns).max()) if self.recent else None

    def overdue_s(self, now_ns: int) -> float:
        """Return the time since the last joint state, s, if that is longer than a few usual periods; otherwise 0."""
        quiet_ns, period_ns = now_ns - self._arrived_ns, float(self.believed.period_ns.max())
        return quiet_ns * NANOSECOND_S * (quiet_ns > _OVERDUE_NS + _OVERDUE_PERIODS * (period_ns or np.inf))

    def oldest(self, now_ns: int) -> str:
        """Return the joint whose state is the oldest; empty if all are equally old."""
        ages = self._ages_s(now_ns)
        return self._joint_names[int(ages.argmax())] if self.recent and np.ptp(ages) > 0 else ""

    def _ages_s(self, now_ns: int) -> np.ndarray:
        return (now_ns - np.minimum(self._stamps_ns, self._received_ns)) * NANOSECOND_S

    def check_clock(self, now_ns: int) -> None:
        """Drop the state if the clock is earlier now than when the state arrived."""
        if now_ns + STEP_NS < self._arrived_ns:
            self.drop_for_jump()

    def drop_for_jump(self) -> None:
        """Forget the states because a clock has jumped back."""
        self._forget()
        self.jumped_back = True


def unexplained(states: Sequence[MeasuredState]) -> np.ndarray | float:
    """Return the longest step, rad, `[dof]`, that neither neighbouring steps nor measured velocities explain."""
    if len(states) < _FEWEST:
        return np.inf
    positions, velocities = (np.stack([getattr(one, name) for one in states]) for name in ("position", "velocity"))
    lasted = np.diff(np.stack([one.stamps_ns for one in states]), axis=0) * NANOSECOND_S
    steps = np.diff(positions, axis=0)
    speeds = np.pad(steps / np.maximum(lasted, NANOSECOND_S), ((1, 1), (0, 0)))
    beside = np.stack([speeds[:-2], speeds[2:], velocities[:-1], velocities[1:], np.zeros_like(steps)])
    low, high = (_FASTER * lasted * most(beside, axis=0) for most in (np.min, np.max))
    return np.maximum(steps - high, low - steps).max(axis=0)


def outside(values: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Return by how much values `[dof]` exceed the largest of others, `[n, dof]`; negative below the least."""
    return np.maximum(values - within.max(axis=0), 0.0) + np.minimum(values - within.min(axis=0), 0.0)
