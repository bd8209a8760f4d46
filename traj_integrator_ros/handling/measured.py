"""Where the robot is: its latest joint state, and what may begin there. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .joint_order import find_columns, values_of_joints
from .parameters import NodeParameters
from .plan import Plan, turned
from .rejection import Rejected, RejectionReason

REORDER_WINDOW_S = 0.1
"""A stamp older than the newest by less than this is a late message; by more, the clock has jumped back."""
_MOST_KEPT = 4096
_LONGEST_OUTLOOK_S = 0.5
"""Longest time over which a measured velocity is used to bound how far the robot may have moved."""


class MeasuredState(NamedTuple):
    """One joint state in the node's joint order, float64 `[dof]`, SI units."""

    position: np.ndarray
    velocity: np.ndarray
    stamp_ns: int
    """When it was measured, or for a message without a stamp, when it arrived; ns of the node's clock."""
    received_ns: int


class JointStates:
    """Keeps the latest joint state, in the node's joint order, and knows how old it is.

    All times are nanoseconds of the node's clock. A clock that jumps back (simulation reset, restarted bag) makes the
    stored state meaningless: it is dropped, and so is the message that revealed the jump; the next one is taken.
    """

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        self._state: MeasuredState | None = None
        self.jumped_back = False
        """Whether a clock has jumped back and no state has arrived since."""
        self.recent: deque[MeasuredState] = deque(maxlen=_MOST_KEPT)
        """Those that were taken, the oldest first."""

    def update(
        self, names: Sequence[str], position: np.ndarray, velocity: np.ndarray, stamp_ns: int, now_ns: int
    ) -> bool:
        """Take a joint state.

        Args:
            names: joints of the message, in any order; joints that the node does not have are ignored.
            position: one value for each name, rad.
            velocity: one value for each name, rad/s; empty, or NaN as ros2_control fills in for a joint without one,
                for 0.
            stamp_ns: when it was measured; 0 means now.
            now_ns: the node's clock.

        Returns:
            Whether the state was taken; False for a message about other joints only, such as a gripper's.

        Raises:
            Rejected: joint_missing, duplicate_joint, joint_count, not_finite or clock_jumped_back. The stored state is
                kept, unless the clock jumped.

        """
        self.check_clock(now_ns)
        columns = find_columns(tuple(names), self._joint_names, "joint_states.name")
        if columns is None:
            return False
        position = values_of_joints("joint_states.position", position, columns, len(names), optional=False)
        velocity = np.where(np.isnan(velocity), 0.0, velocity)
        velocity = values_of_joints("joint_states.velocity", velocity, columns, len(names), optional=True)
        stamp = stamp_ns if stamp_ns else now_ns
        if self._state is not None and stamp_ns and stamp < self._state.stamp_ns:
            self._reject_older(stamp)
        self._state = MeasuredState(position, velocity, stamp, now_ns)
        self.recent.append(self._state)
        self.jumped_back = False
        return True

    def latest(self, now_ns: int, timeout_s: float) -> MeasuredState:
        """Return the stored state.

        Args:
            now_ns: the node's clock.
            timeout_s: the oldest that is acceptable, s; 0 accepts any age.

        Raises:
            Rejected: no_joint_state, clock_jumped_back (no state since the jump) or state_too_old.

        """
        self.check_clock(now_ns)
        if self._state is None:
            if self.jumped_back:
                raise Rejected(
                    RejectionReason.CLOCK_JUMPED_BACK, "start: the clock jumped back, and no joint state arrived since"
                )
            raise Rejected(
                RejectionReason.NO_JOINT_STATE,
                "start: empty, so the latest joint state is needed, but none with all joints arrived on joint_states",
            )
        age = self.age_s(now_ns)
        if timeout_s > 0 and age is not None and age > timeout_s:
            raise Rejected(
                RejectionReason.STATE_TOO_OLD,
                f"start: the latest joint state is {age:.3f} s old, expected at most {timeout_s:g} s "
                "(parameter state_timeout)",
            )
        return self._state

    def known(self, now_ns: int, timeout_s: float) -> MeasuredState | None:
        """The same, or None instead of errors."""
        try:
            return self.latest(now_ns, timeout_s)
        except Rejected:
            return None

    def age_s(self, now_ns: int) -> float | None:
        """Age of the stored state, s, by its stamp or its arrival, whichever is longer ago; None without a state.

        The arrival counts because stamps may run ahead of this clock and would then never age.
        """
        if self._state is None:
            return None
        return (now_ns - min(self._state.stamp_ns, self._state.received_ns)) * 1e-9

    def check_clock(self, now_ns: int) -> None:
        """Drop the state if the node's clock is now earlier than when the state arrived."""
        if self._state is not None and now_ns < self._state.received_ns:
            self.drop_for_jump()

    def drop_for_jump(self) -> None:
        """Forget the states because a clock has jumped back."""
        self._state = None
        self.recent.clear()
        self.jumped_back = True

    def _reject_older(self, stamp_ns: int) -> None:
        assert self._state is not None
        back_s = (self._state.stamp_ns - stamp_ns) * 1e-9
        consequence = "ignored as late"
        if back_s > REORDER_WINDOW_S:
            self.drop_for_jump()
            consequence = "the state held is dropped"
        raise Rejected(
            RejectionReason.CLOCK_JUMPED_BACK,
            f"joint_states.header.stamp: {back_s:.3f} s before the newest one; {consequence}",
        )


def check_start(plan: Plan, measured: MeasuredState, parameters: NodeParameters, now_ns: int) -> None:
    """Refuse a plan with a start that is not where the robot is, or may be by then.

    Raises:
        Rejected: start_mismatch.

    """
    tolerance, position = parameters.limits_start_deviation, plan.start.position
    if tolerance <= 0:
        return
    until = ((plan.origin_ns or now_ns) - measured.stamp_ns) * 1e-9
    reach = np.abs(measured.velocity) * min(max(until, 0.0), _LONGEST_OUTLOOK_S)
    beyond = np.abs(position - turned(measured.position, position, parameters.continuous)) - reach
    joint = int(beyond.argmax())
    if beyond[joint] > tolerance:
        raise Rejected(
            RejectionReason.START_MISMATCH,
            f"start.position of {parameters.joint_names[joint]}: expected within {tolerance:g} "
            f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
            f"got {position[joint]:.6g}",
        )


def check_place(
    commanded: np.ndarray, planned: np.ndarray, measured: MeasuredState, parameters: NodeParameters
) -> np.ndarray | None:
    """How far the robot is from its command, rad, `[dof]`, where that is more than is allowed; None: it is not.

    Args:
        commanded: position `[dof]`.
        planned: where the plan begins, `[dof]`.
        measured: where the robot is.
        parameters: with the tolerances.

    Raises:
        Rejected: deviation, if the plan does not begin where the robot is, either.

    """
    names, allowed = parameters.joint_names, parameters.supervision_deviation
    gap, apart = (
        np.abs(turned(measured.position, place, parameters.continuous) - place) for place in (commanded, planned)
    )
    if gap.max() <= allowed:
        return None
    joint = int(apart.argmax())
    if apart[joint] > allowed:
        raise Rejected(
            RejectionReason.DEVIATION,
            f"{names[int(gap.argmax())]} is {gap.max():.4g} away from its command, and the plan of {names[joint]} "
            f"begins {apart[joint]:.4g} away from it; expected at most {allowed:g} (parameter supervision.deviation)",
        )
    return gap
