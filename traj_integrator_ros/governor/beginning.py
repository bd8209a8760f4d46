"""Where a motion begins: what the controller does by then, or where it is brought if nobody knows. Knows no ROS."""

from __future__ import annotations

import numpy as np

from ..execution.bounds import Bounds
from ..execution.motion import Motion, State, resting
from ..execution.stopping import fastest_stop
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, RESTS, whole_ns
from ..parameters.parameters import NodeParameters
from ..requests.plan import Plan
from ..requests.rejection import Rejected, RejectionReason, all_finite
from .measured import JointStates
from .planned_motions import PlannedMotion
from .present import Present
from .published import PublishedMotion
from .supervision import Allowance

_QUINTIC_PEAKS = (1.88, 5.78, 4 * 60.0)
"""Largest velocity, acceleration and (four times the) jerk of a quintic between rests, over a way of 1 in 1 s."""
_QUINTIC_MOVING = 0.4
"""Share of the way that a joint goes during a quintic, by which it asks for less because it ends as fast as that."""
_BRIDGED_AGAIN = 8
"""How often the time is found from where the joint is at its end: it converges."""
_FURTHEST_RAD = 0.5
"""Furthest that a robot which something else moves is assumed to go on, rad or m."""


class Beginning:
    """Finds what the controller does from now on.

    Args:
        parameters: the node's configuration.
        joint_states: the latest joint states.
        published: the last published motion.
        bounds: of stops.
        allowance: by how much joints may be away from their command.

    """

    def __init__(
        self,
        parameters: NodeParameters,
        joint_states: JointStates,
        published: PublishedMotion,
        bounds: Bounds,
        allowance: Allowance,
    ) -> None:
        self._parameters, self._joint_states, self._published = parameters, joint_states, published
        self._bounds, self._allowance = bounds, allowance

    def of(self, plan: Plan, now_ns: int) -> Present:
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
            measured = None
            position, velocity = plan.start.position, np.zeros_like(plan.start.position)
        if measured is not None and not self._parameters.publish_start_moving:
            self._require_rest(velocity)
            velocity = np.zeros_like(velocity)
        if np.abs(velocity).max() <= self._parameters.publish_rest_tolerance:
            velocity = np.zeros_like(velocity)
        known_ns = now_ns + whole_ns(self._bridge_time(position, velocity))
        if not velocity.any():
            motion = resting(position, MOMENT_S)
        else:  # something else moves it: as if it went on until the controller is there, and then stopped
            further = velocity * ((known_ns - now_ns) * NANOSECOND_S)
            self._require_near(velocity, further)
            motion = fastest_stop(State(position + further, velocity), self._bounds)
        return Present(PlannedMotion(known_ns, motion), False, known_ns)

    def to_stop(self, now_ns: int) -> Present | None:
        """The motion to stop, also one of another node; None: nothing is known to move."""
        present = self._published.present
        if present.is_silent(now_ns) and (own := present.own(now_ns)):
            return own  # silence is a reason to stop, never one not to
        try:
            return present.at(now_ns, waits=False)
        except Rejected:
            reference = present.moving_reference()
            if reference is None or present.is_silent(now_ns):
                return None
            stamp_ns, (position, velocity, acceleration) = reference
            # As far as anybody knows, it goes on like that until the stop is taken up.
            lasts = (now_ns - stamp_ns) * NANOSECOND_S + self._published.lead.seconds + MOMENT_S
            motion = Motion(np.array([0.0, lasts]), np.stack([position, velocity, acceleration / 2])[None])
            return Present(PlannedMotion(stamp_ns, motion), False, now_ns)

    def _require_states(self, now_ns: int) -> None:
        """Refuse to go on where joint states were received, but are too old."""
        if self._joint_states.age_s(now_ns) is not None or self._joint_states.jumped_back:
            self._joint_states.latest(now_ns, self._parameters.state_timeout)

    def _require_rest(self, velocity: np.ndarray) -> None:
        """Refuse to begin with a robot that moves: it may execute what the node published before it was restarted.

        Raises:
            Rejected: deviation.

        """
        speed = self._joint_states.speed()
        speed = np.abs(velocity) if speed is None else speed
        joint = int((speed / self._allowance.full_speed).argmax())
        if speed[joint] > RESTS * self._allowance.full_speed[joint]:
            raise Rejected(
                RejectionReason.DEVIATION,
                f"{self._parameters.joint_names[joint]} moves at {speed[joint]:.3g}, and it is not known what the "
                "controller does; expected a report of it, or a robot at rest (parameter publish.start_moving)",
            )

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
        bounds, lead = self._bounds, self._published.lead.seconds
        if left_at is None:
            return time
        gap = np.abs(position - left_at)
        for _ in range(_BRIDGED_AGAIN):  # until then, moving joints go on
            distance = gap + np.abs(velocity) * (time - _QUINTIC_MOVING * max(time - lead, 0.0))
            parts = zip(_QUINTIC_PEAKS, bounds.rates, (1, 2, 3), strict=True)
            needed = [float(((peak * distance / bound) ** (1 / order)).max()) for peak, bound, order in parts]
            time = max(time, max(needed) + lead)
        return time
