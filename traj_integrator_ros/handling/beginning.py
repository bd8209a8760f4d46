"""Where and when motions begin: what the controller does now, and where the robot is measured. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..execution.limits import Bounds
from ..execution.motion import State, resting
from ..execution.reaching import fastest_stop
from .courses import Course
from .measured import JointStates, MeasuredState
from .parameters import NodeParameters
from .plan import Plan
from .present import Present
from .published import PublishedMotion
from .rejection import Rejected, RejectionReason, all_finite
from .ways import Way

_NANOSECOND_S = 1e-9
_MOMENT_S = 1e-3
_QUINTIC_PEAKS = (1.88, 5.78, 4 * 60.0)
"""Largest velocity, acceleration and (four times the) jerk of a quintic between rests, over a way of 1 in 1 s."""
_QUINTIC_MOVING = 0.4
"""Share of the way that a joint goes during a quintic, by which it asks for less because it ends as fast as that."""
_BRIDGED_AGAIN = 8
_FURTHEST_RAD = 0.5
"""Furthest that a robot which something else moves is assumed to go on, rad or m."""
_LONGEST_OUTLOOK_S = 0.5
"""Longest time over which a measured velocity is used to bound how far the robot may have moved."""
_SHORTEST_REST_S = 1e-6
"""A step with less time left counts as over: points closer together than this are of no use to a controller."""


class Beginning:
    """Finds the present command, and refuses to begin where the robot is not.

    Args:
        parameters: the node's configuration.
        bounds: of stops, and of the controller's way to the first point.
        joint_states: the latest joint states.
        published: the last published motion.
        refuse: called with violations that the node may let through.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        bounds: Bounds,
        joint_states: JointStates,
        published: PublishedMotion,
        refuse: Callable[[Rejected], None],
    ) -> None:
        self._parameters, self._bounds = parameters, bounds
        self._joint_states, self._published = joint_states, published
        self._refuse = refuse

    def present(self, plan: Plan, now_ns: int) -> Present:
        """What the controller does from now on; where nobody knows, it is at the measured state a little later.

        Raises:
            Rejected: no_joint_state, state_too_old, clock_jumped_back, controller_unavailable or deviation.

        """
        present = self._published.present.at(now_ns)
        if present is not None:
            self._require_states(now_ns)
            return present
        try:
            measured = self._joint_states.latest(now_ns, self._parameters.state_timeout)
            position, velocity = measured.position, measured.velocity
        except Rejected:
            if plan.start is None or not all_finite(plan.start.position):
                raise
            position, velocity = plan.start.position, np.zeros_like(plan.start.position)
        if np.abs(velocity).max() <= self._parameters.publish_rest_tolerance:
            velocity = np.zeros_like(velocity)
        known_ns = now_ns + round(self._bridge_time(position, velocity) * 1e9)
        if not velocity.any():
            motion = resting(position, _MOMENT_S)
        else:  # something else moves it: as if it went on until the controller is there, and then stopped
            further = velocity * ((known_ns - now_ns) * _NANOSECOND_S)
            self._require_near(velocity, further)
            motion = fastest_stop(State(position + further, velocity), self._bounds)
        return Present(Course(known_ns, motion), False, known_ns)

    def _require_near(self, velocity: np.ndarray, further: np.ndarray) -> None:
        """Refuse to meet a robot far from where it is: it may as well stop, or only come back to what it is commanded.

        Raises:
            Rejected: deviation.

        """
        joint = int(np.abs(further).argmax())
        if abs(further[joint]) > _FURTHEST_RAD:
            raise Rejected(
                RejectionReason.DEVIATION,
                f"{self._parameters.joint_names[joint]} moves at {velocity[joint]:.3g}, and the node did not command "
                f"it; the controller could meet it {abs(further[joint]):.3g} further, expected at most "
                f"{_FURTHEST_RAD:g}: once it is slower",
            )

    def _bridge_time(self, position: np.ndarray, velocity: np.ndarray) -> float:
        """Time in which the controller comes to where joints are then, s: enough for a quintic from where it may be.

        It begins with twice the acceleration, as if its last command were a cycle older, when the message is there.
        """
        time, left_at = self._parameters.publish_bridge_time, self._published.present.left_at
        bounds, lead = self._bounds, self._parameters.publish_lead_time
        if left_at is None:
            return time
        gap = np.abs(position - left_at)
        for _ in range(_BRIDGED_AGAIN):  # until then, moving joints go on
            way = gap + np.abs(velocity) * (time - _QUINTIC_MOVING * max(time - lead, 0.0))
            parts = zip(_QUINTIC_PEAKS, bounds.rates, (1, 2, 3), strict=True)
            needed = [float(((peak * way / bound) ** (1 / order)).max()) for peak, bound, order in parts]
            time = max(time, max(needed) + lead)
        return time

    def to_stop(self, now_ns: int) -> Present | None:
        """What is to be stopped: also a motion of another one; None: nothing is known to move."""
        try:
            return self._published.present.at(now_ns)
        except Rejected:
            reference = self._published.present.moving_reference()
            if reference is None or self._published.present.is_silent(now_ns):
                return None
            stamp_ns, state = reference
            motion = fastest_stop(state, self._bounds)
            return Present(Course(stamp_ns, motion), False, now_ns)

    def _require_states(self, now_ns: int) -> None:
        """Refuse to go on where joint states were received, but are too old."""
        if self._joint_states.age_s(now_ns) is not None or self._joint_states.jumped_back:
            self._joint_states.latest(now_ns, self._parameters.state_timeout)

    def check_place(self, way: Way, present: Present, join_ns: int, now_ns: int) -> None:
        """Refuse to begin away from the robot, where its command is away from it.

        Raises:
            Rejected: deviation.

        """
        allowed = self._parameters.supervision_deviation
        bridges = present.known_from_ns > now_ns  # from the measured state
        if present.follows or bridges or allowed <= 0 or self._joint_states.age_s(now_ns) is None:
            return
        measured = self.measured(now_ns)
        if measured is None:
            return
        gap = np.abs(
            self.turned(measured.position, present.course.motion.begin.position) - present.course.motion.begin.position
        )
        if gap.max() <= allowed:
            return
        planned = way.course.state_at(max(join_ns, way.course.valid_from_ns)).position
        apart = np.abs(self.turned(measured.position, planned) - planned)
        joint = int(apart.argmax())
        if apart[joint] > allowed:
            raise Rejected(
                RejectionReason.DEVIATION,
                f"{self._parameters.joint_names[int(gap.argmax())]} is {gap.max():.4g} away from its command, and the "
                f"plan of {self._parameters.joint_names[joint]} begins {apart[joint]:.4g} away from it; expected at "
                f"most {allowed:g} (parameter supervision.deviation)",
            )
        self._published.guard.allow(gap)

    def turned(self, position: np.ndarray, near: np.ndarray) -> np.ndarray:
        """Positions, those of continuous joints turned next to others."""
        turning = self._parameters.continuous
        if not turning.any():
            return position
        return position + np.where(turning, 2 * np.pi * np.rint((near - position) / (2 * np.pi)), 0.0)

    def check_start(self, plan: Plan, now_ns: int) -> None:
        """Refuse a plan whose start is not where the robot is, or may be by then.

        Raises:
            Rejected: start_mismatch.

        """
        tolerance = self._parameters.limits_start_deviation
        measured = self.measured(now_ns)
        if plan.start is None or measured is None or tolerance <= 0:
            return
        position = plan.start.position
        until = ((plan.origin_ns or now_ns) - measured.stamp_ns) * _NANOSECOND_S
        reach = np.abs(measured.velocity) * min(max(until, 0.0), _LONGEST_OUTLOOK_S)
        beyond = np.abs(position - self.turned(measured.position, position)) - reach
        joint = int(beyond.argmax())
        if beyond[joint] > tolerance:
            finding = Rejected(
                RejectionReason.START_MISMATCH,
                f"start.position of {self._parameters.joint_names[joint]}: expected within {tolerance:g} "
                f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
                f"got {position[joint]:.6g}",
            )
            self._refuse(finding)

    def measured(self, now_ns: int) -> MeasuredState | None:
        """The measured state; None: none is known, or it is too old."""
        try:
            return self._joint_states.latest(now_ns, self._parameters.state_timeout)
        except Rejected:
            return None


def schedule(plan: Plan, earliest_ns: int, now_ns: int, longest_wait: float) -> tuple[float, int]:
    """How long a plan waits from the earliest start on, s, and how many of its steps are over then.

    Args:
        plan: with an origin.
        earliest_ns: the earliest time at which a motion can start.
        now_ns: the node's clock.
        longest_wait: longest time from now until the plan begins, s.

    Raises:
        Rejected: stale_sequence, if all steps are over at the start; future_sequence.

    """
    into = (earliest_ns - plan.origin_ns) * _NANOSECOND_S
    if into < 0:
        ahead = (plan.origin_ns - now_ns) * _NANOSECOND_S
        if ahead > longest_wait:
            raise Rejected(
                RejectionReason.FUTURE_SEQUENCE,
                f"header.stamp: expected at most {longest_wait:g} s ahead of the node's clock (parameter "
                f"publish.longest_wait), got {ahead:.3f} s",
            )
        return -into, 0
    dropped = int(np.searchsorted(plan.ends, into + _SHORTEST_REST_S, side="right"))
    if dropped == len(plan.steps):
        raise Rejected(
            RejectionReason.STALE_SEQUENCE,
            f"header.stamp: all {dropped} steps are over; the first began {(now_ns - plan.origin_ns) * 1e-9:.3f} s ago "
            f"and the last ended {into - plan.duration:.3f} s before a trajectory can start "
            f"(in {(earliest_ns - now_ns) * 1e-9:.3f} s, parameter publish.lead_time)",
        )
    return 0.0, dropped
