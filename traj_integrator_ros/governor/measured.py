"""The robot's latest joint state, and whether a motion may begin there. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import MOST_KEPT, NANOSECOND_S, whole_ns
from ..requests.joint_order import named_joints, values_of_joints
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .believed import Believed
from .robot_clock import STEP_NS

REORDER_WINDOW_S = 0.1
"""Time, s, by which a stamp may be older than the newest one and still belong to a late message; beyond, the clock has
jumped back. A stamp that is ahead of the node's clock by more than this comes from another clock.
"""
_REORDER_WINDOW_NS = whole_ns(REORDER_WINDOW_S)
_FEWEST = 3
"""Smallest number of joint states whose steps are compared with each other."""
_FASTER = 2.0
"""Factor by which a step of a joint may be faster than the steps beside it."""
_OVERDUE_NS = 10_000_000
"""Time, ns, by which joint states may be late because a thread waits for its turn."""
_OVERDUE_PERIODS = 2
"""Number of their usual periods after which joint states are overdue."""
_LATELY_NS = 200_000_000
"""Time over which the speed of joints is measured, ns."""


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
        self._state: MeasuredState | None = None
        self.jumped_back = False
        """True after a clock has jumped back, until the next state arrives."""
        self.refused: Rejected | None = None
        """Why joints of the last message were refused; None if none was."""
        self.doubted: Rejected | None = None
        """Why the last message was not believed (see `Believed`); None if it was."""
        self.recent: deque[MeasuredState] = deque(maxlen=MOST_KEPT)
        """The accepted joint states, the oldest first."""
        self._forget()

    def _forget(self) -> None:
        dof = len(self._joint_names)
        self._position, self._velocity = np.zeros(dof), np.zeros(dof)
        self._stamps_ns, self._received_ns = np.zeros(dof, np.int64), np.zeros(dof, np.int64)
        self._known = np.zeros(dof, bool)
        self._arrived_ns = 0
        """When the newest joint state arrived, ns; 0 if none has."""

    def update(
        self,
        names: Sequence[str],
        position: np.ndarray,
        velocity: np.ndarray,
        stamp_ns: int,
        now_ns: int,
        publisher: int = 0,
    ) -> bool:
        """Take the joints of a joint state.

        Args:
            names: joints of the message, in any order; joints that the node does not have are ignored.
            position: one value for each name, rad; a joint with NaN is not taken.
            velocity: one value for each name, rad/s. Empty means 0, and so does NaN, with which ros2_control fills
                in velocities that a joint lacks.
            stamp_ns: when it was measured; 0 means now.
            now_ns: the node's clock.
            publisher: identity of its publisher; 0 if it is unknown.

        Returns:
            Whether a joint was taken; `refused` says why others were not. False for a message about other joints only.

        Raises:
            Rejected: duplicate_joint, joint_count, not_finite or clock_jumped_back. The stored state is kept, unless
                the clock jumped.

        """
        self.check_clock(now_ns)
        if not len(names):
            raise Rejected(RejectionReason.JOINT_COUNT, "joint_states.name: expected names of joints, got none")
        columns, joints = named_joints(tuple(names), self._joint_names, "joint_states.name")
        self.refused = None
        if not len(joints):
            return False
        position = values_of_joints("joint_states.position", position, columns, len(names), optional=False, nan=True)
        velocity = values_of_joints("joint_states.velocity", velocity, columns, len(names), optional=True, nan=True)
        stamp = stamp_ns if stamp_ns else now_ns
        if stamp_ns and stamp < (newest := max(self._stamps_ns[joints].tolist())):  # 0 for unknown joints
            self._reject_older(stamp, newest)
        taken, unknown = joints, np.isnan(position)
        if np.count_nonzero(unknown):
            taken, position, velocity = joints[~unknown], position[~unknown], velocity[~unknown]
        self.doubted = self.believed.take(taken, position, stamp, now_ns, publisher) if len(taken) else None
        if self.doubted is not None:
            return False
        if len(taken):
            self._position[taken] = position
            self._velocity[taken] = np.where(np.isnan(velocity), 0.0, velocity)
            self._stamps_ns[taken], self._received_ns[taken] = stamp, now_ns
            self._known[taken], self._arrived_ns = True, now_ns
            self.jumped_back = False
            if np.count_nonzero(self._known) == len(self._known):
                self._state = self._merged()
                self.recent.append(self._state)
        if len(taken) < len(joints):
            lacking = [self._joint_names[joint] for joint in joints[unknown].tolist()]
            self.refused = Rejected(
                RejectionReason.NOT_FINITE,
                f"joint_states.position: expected finite numbers, got nan for {shown_names(lacking)}",
            )
        return bool(len(taken))

    def _merged(self) -> MeasuredState:
        received_ns, stamps_ns = self._received_ns.copy(), self._stamps_ns.copy()
        ahead = stamps_ns > received_ns + _REORDER_WINDOW_NS
        stamps_ns[ahead] = received_ns[ahead]
        newest_ns = max(stamps_ns.tolist())
        return MeasuredState(self._position.copy(), self._velocity.copy(), newest_ns, stamps_ns, received_ns)

    def latest(self, now_ns: int, timeout_s: float) -> MeasuredState:
        """Return the stored state.

        Args:
            now_ns: the node's clock.
            timeout_s: the oldest that is acceptable of any joint, s; 0 accepts any age.

        Raises:
            Rejected: no_joint_state, clock_jumped_back (no state since the jump), contradictory_state or state_too_old.

        """
        self.check_clock(now_ns)
        self.believed.require_agreement(now_ns)
        if self._state is None:
            if self.jumped_back:
                raise Rejected(
                    RejectionReason.CLOCK_JUMPED_BACK, "start: the clock jumped back, and no joint state arrived since"
                )
            unknown = [name for name, known in zip(self._joint_names, self._known, strict=True) if not known]
            lacking = "none arrived" if not self._known.any() else f"none of {shown_names(unknown)} arrived"
            raise Rejected(
                RejectionReason.NO_JOINT_STATE,
                f"start: empty, so the latest joint state is needed, but {lacking} on joint_states",
            )
        if timeout_s > 0 and (age := self.age_s(now_ns)) is not None and age > timeout_s:
            joint = self.oldest(now_ns)
            raise Rejected(
                RejectionReason.STATE_TOO_OLD,
                f"start: the latest joint state{f' of {joint}' if joint else ''} is {age:.3f} s old, expected at most "
                f"{timeout_s:g} s (parameter state_timeout)",
            )
        return self._state

    def known(self, now_ns: int, timeout_s: float) -> MeasuredState | None:
        """Return the stored state, or None where `latest` raises."""
        try:
            return self.latest(now_ns, timeout_s)
        except Rejected:
            return None

    def lately(self) -> list[MeasuredState]:
        """Return the states of the last 0.2 s, the oldest first."""
        newest = self.recent[-1].stamp_ns if self.recent else 0
        return [one for one in self.recent if newest - one.stamp_ns <= _LATELY_NS] if newest else []

    def speed(self) -> np.ndarray | None:
        """Return recent speeds of joints, rad/s, `[dof]`, from their positions; None if unknown.

        Measured velocities may be noise, or missing: they count only for a joint that was measured just once.
        """
        lately = self.lately()
        if not lately or (newest := lately[-1].stamp_ns) - lately[0].stamp_ns < _LATELY_NS // 4:
            return None
        half = len(lately) // 2
        before, after = (
            np.mean([(one.position, (one.stamps_ns - newest) * NANOSECOND_S) for one in part], axis=0)
            for part in (lately[:half], lately[half:])
        )
        moved, lasted = np.abs(after - before)
        return np.where(lasted > 0, moved / np.where(lasted > 0, lasted, 1.0), np.abs(lately[-1].velocity))

    def age_s(self, now_ns: int) -> float | None:
        """Return the age of the oldest joint, s, by its stamp or its arrival (the earlier one); None without a state.

        The arrival counts because stamps that run ahead of this clock would never age.
        """
        return None if self._state is None else float(self._ages_s(now_ns).max())

    def overdue_s(self, now_ns: int) -> float:
        """Return the time since the last joint state, s, if that is longer than a few usual periods; 0: it is not."""
        quiet_ns = now_ns - self._arrived_ns
        return quiet_ns * NANOSECOND_S * (quiet_ns > _OVERDUE_NS + _OVERDUE_PERIODS * self.believed.period_ns)

    def oldest(self, now_ns: int) -> str:
        """Return the joint whose state is the oldest; empty if all are equally old."""
        if self._state is None or np.ptp(ages := self._ages_s(now_ns)) == 0:
            return ""
        return self._joint_names[int(ages.argmax())]

    def _ages_s(self, now_ns: int) -> np.ndarray:
        return (now_ns - np.minimum(self._stamps_ns, self._received_ns)) * NANOSECOND_S

    def check_clock(self, now_ns: int) -> None:
        """Drop the state if the clock is earlier now than when the state arrived."""
        if now_ns + STEP_NS < self._arrived_ns:
            self.drop_for_jump()

    def drop_for_jump(self) -> None:
        """Forget the states because a clock has jumped back."""
        self._state = None
        self._forget()
        self.recent.clear()
        self.believed.forget()
        self.jumped_back = True

    def _reject_older(self, stamp_ns: int, newest_ns: int) -> None:
        back_s = (newest_ns - stamp_ns) * NANOSECOND_S
        consequence = "ignored as late"
        if back_s > REORDER_WINDOW_S:
            self.drop_for_jump()
            consequence = "the state held is dropped"
        raise Rejected(
            RejectionReason.CLOCK_JUMPED_BACK,
            f"joint_states.header.stamp: {back_s:.3f} s before the newest one; {consequence}",
        )


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


def commanded_to_each(commanded: Callable[[int], State | None], times_ns: np.ndarray) -> State | None:
    """Return the command of each joint at its own time, ns, `[dof]`; NaN where no command is known.

    Args:
        commanded: returns the state that was commanded at a time, ns; None if it is unknown.
        times_ns: when each joint was measured.

    Returns:
        The state; None if no command is known at any of these times.

    """
    states = {time_ns: commanded(time_ns) for time_ns in set(times_ns.tolist())}
    if not any(states.values()):
        return None
    found = np.full((3, len(times_ns)), np.nan)
    for joint, time_ns in enumerate(times_ns.tolist()):
        if (state := states[time_ns]) is not None:
            found[:, joint] = [part[joint] for part in state.known]
    return State(*found)
