"""Where a motion begins: at the controller's command, or at the measured state if that is unknown. Knows no ROS."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np

from ..execution.bounds import Bounds
from ..execution.motion import Motion, State, resting
from ..execution.stopping import fastest_stop
from ..execution.tolerances import MOMENT_S, NANOSECOND_S, RESTS, whole_ns
from ..parameters.parameters import NodeParameters
from ..requests.plan import Plan, turned
from ..requests.rejection import Rejected, RejectionReason, all_finite
from .candidates import Candidate
from .measured import JointStates, MeasuredState, commanded_to_each
from .monitor import Allowance
from .published import PublishedMotion
from .reference import PlannedMotion
from .sent import NotYet, Present, passed_since

_QUINTIC_PEAKS = (1.88, 5.78, 4 * 60.0)
"""Largest velocity, acceleration and four times the largest jerk of a quintic from rest to rest over 1 rad in 1 s."""
_BRIDGED_AGAIN = 8
"""Number of iterations for the bridge: its duration depends on where the joint is at its end. They converge."""
_FURTHEST_RAD = 0.5
"""Largest distance, rad or m, by which a robot that something else moves is assumed to go on."""
_LONGEST_OUTLOOK_S = 0.5
"""Longest time, s, over which a measured velocity is extrapolated to bound how far the robot may have moved."""
_LATEST_S = 1.0
"""A plan without a stamp is assumed to be younger than this, s: the robot may have been at its beginning since."""
_SAYS_ITSELF_S = 0.5
"""A plan whose first row is later than this, s, gives its own speed of approach; the rows of chunks are earlier."""
_AT_START_RAD = 0.01
"""Distance, rad or m, up to which the first row of a path counts as the robot's own position: MoveIt's default."""
_OF_PACE = 1.5
"""Factor on the mean speed of a plan, since its first step may be the fastest one."""
_ANEW = "; a policy that went on while the robot was slowed or stopped begins anew from where it is (~/committed)"
"""What the sender of a plan that begins elsewhere has to do: a part of the refusal."""


class Beginning:
    """Finds the controller's command from now on, and decides whether a plan may begin there."""

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
        """Return the controller's command from now on; where it is unknown, the measured state a little later.

        Raises:
            Rejected: no_joint_state, state_too_old, clock_jumped_back, contradictory_state, controller_unavailable or
                deviation.

        """
        present = self._published.present.at(now_ns)
        if present is not None:
            self._require_states(now_ns)
            return present
        self._joint_states.believed.require_agreement(now_ns, settled=True)
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
        bridge_s = self._bridge_time(position, velocity)
        known_ns = self._published.motion_clock.at(now_ns) + whole_ns(bridge_s)
        if not velocity.any():
            motion = resting(position, MOMENT_S)
        else:  # Something else moves the robot. It is assumed to go on until the controller is there, and then to stop.
            further = velocity * bridge_s
            self._require_near(velocity, further)
            motion = fastest_stop(State(position + further, velocity), self._bounds)
        return Present(PlannedMotion(known_ns, motion), False, known_ns)

    def to_stop(self, now_ns: int) -> Present | None:
        """Return the motion that a stop has to end, even that of another program; None if no motion is known."""
        present = self._published.present
        if present.is_silent(now_ns) and (own := present.own(now_ns)):
            return own  # A silent controller is a reason to stop, and never a reason to go on.
        try:
            return present.at(now_ns, waits=False)
        except Rejected:
            if (report := present.report) is None or present.is_silent(now_ns):
                return None
            # The motion is assumed to go on at its velocity until the stop begins.
            at = self._published.motion_clock.at
            lasts = (at(now_ns) - at(report.stamp_ns)) * NANOSECOND_S + self._parameters.publish_lead_time + MOMENT_S
            position, velocity, acceleration = report.reference
            motion = Motion(np.array([0.0, lasts]), np.stack([position, velocity, acceleration / 2])[None])
            return Present(PlannedMotion(at(report.stamp_ns), motion), False, at(now_ns))

    def without_first_row(self, path: Plan, now_ns: int) -> Plan:
        """Return a path without its first row if the robot is, or is commanded to be, there: most planners send it."""
        known = [] if (measured := self._measured(now_ns)) is None else [measured.position]
        with suppress(Rejected, NotYet):
            if (present := self._published.present.at(now_ns)) is not None:
                known.append(present.planned.state_at(self._published.motion_clock.at(now_ns)).position)
        first, turning = path.actions[0], self._parameters.continuous
        away = [np.nanmax(np.abs(turned(first, position, turning) - position)) for position in known]
        if len(path.actions) == 1 or min(away, default=np.inf) > _AT_START_RAD:
            return path
        return replace(path, actions=path.actions[1:])

    def mismatch(self, plan: Plan, present: Present, blend_ns: int, now_ns: int) -> str:
        """Describe how far a plan begins from where the robot is, or may be by then; empty if it is near enough."""
        tolerance, measured = self._allowance.start, self._measured(now_ns)
        if not np.isfinite(tolerance).any():
            return ""
        if plan.start is None:
            return self._leap(plan, present, blend_ns, now_ns, measured)
        if measured is None:
            return ""
        at = self._published.motion_clock.at
        position, measured_ns = plan.start.position, self._published.motion_clock.at_times(measured.stamps_ns)
        until = ((plan.origin_ns or at(now_ns)) - measured_ns) * NANOSECOND_S
        reach = np.abs(measured.velocity) * np.clip(until, 0.0, _LONGEST_OUTLOOK_S)
        beyond = self._apart(measured, position) - reach
        then = commanded_to_each(self._published.present.commanded, measured.stamps_ns)
        now = self._published.present.commanded(measured.stamp_ns)
        # A joint without a recent measurement is assumed to follow its command.
        if then is not None and now is not None:
            moved = measured._replace(position=measured.position + np.nan_to_num(now.position - then.position))
            beyond = np.minimum(beyond, self._apart(moved, position))
        joint = int((beyond - tolerance).argmax())
        if beyond[joint] <= tolerance[joint]:
            return ""
        return (
            f"start.position of {self._parameters.joint_names[joint]}: expected within {tolerance[joint]:g} "
            f"(parameter limits.start_deviation) of the measured {measured.position[joint]:.6g}, "
            f"got {position[joint]:.6g}{_ANEW}"
        )

    def _leap(self, plan: Plan, present: Present, blend_ns: int, now_ns: int, measured: MeasuredState | None) -> str:
        """Describe a joint whose first position is further from the robot than the plan's own speed explains.

        The robot may be anywhere between its measured position, the commands since the plan's origin, and the end of
        the motion in execution: a stream that is slowed is behind its plans, and a plan may arrive late.
        """
        is_goal = plan.is_complete and len(plan.steps) == 1  # A single row is a position, and has no speed.
        if not (plan.is_positions or plan.spline) or not len(plan.steps) or plan.steps[0] > _SAYS_ITSELF_S or is_goal:
            return ""
        first, pace = plan.actions[0], _OF_PACE * plan.pace
        reach = self._allowance.start + pace * plan.steps[0]

        def beyond(places: np.ndarray) -> np.ndarray:
            return np.maximum(first - places.max(axis=0), places.min(axis=0) - first) - reach

        if (beyond(present.planned.state_at(blend_ns).position[None]) <= 0).all():  # Then no other position matters.
            return ""
        executed = present.planned.rest_from(blend_ns)
        places = np.vstack([executed.coefficients[:, 0], executed.end.position])
        if measured is not None:
            places = np.vstack([places, turned(measured.position, places[0], self._parameters.continuous)])
        apart = beyond(places)
        if present.follows and (apart > 0).any():
            at_ns = self._published.motion_clock.at(now_ns)
            passed = passed_since(self._published.present.sent, plan.origin_ns or at_ns - whole_ns(_LATEST_S), at_ns)
            apart = beyond(np.vstack([places, *passed]))
        joint = int(apart.argmax())
        if not apart[joint] > 0:
            return ""
        return (
            f"sequence: its first position of {self._parameters.joint_names[joint]} is {first[joint]:.6g}, expected "
            f"within {reach[joint]:.4g} (parameter limits.start_deviation, and its own pace) of the robot's "
            f"{places[0][joint]:.6g}{_ANEW}"
        )

    def allow(self, candidate: Candidate, present: Present, blend_ns: int, now_ns: int) -> None:
        """Refuse a motion if the robot is away both from its command and from where the plan begins.

        Raises:
            Rejected: deviation.

        """
        at_ns, distance = self._published.motion_clock.at(now_ns), self._allowance.distance
        # A motion that begins later begins at the measured state.
        if present.follows or present.known_from_ns > at_ns or not np.isfinite(distance).any():
            return
        if (measured := self._measured(now_ns)) is None:
            return
        begins = candidate.planned.state_at(max(blend_ns, candidate.planned.valid_from_ns)).position
        gap, lead = (self._apart(measured, there) for there in (present.planned.state_at(at_ns).position, begins))
        joint, away = (int((part / distance).argmax()) for part in (lead, gap))
        if lead[joint] > distance[joint] and gap[away] > distance[away]:
            raise Rejected(
                RejectionReason.DEVIATION,
                f"{self._parameters.joint_names[away]} is {gap[away]:.4g} away from its command, and the plan of "
                f"{self._parameters.joint_names[joint]} begins {lead[joint]:.4g} away from it; expected at most "
                f"{distance[joint]:.4g} (parameter supervision.deviation)",
            )

    def _measured(self, now_ns: int) -> MeasuredState | None:
        """Return the measured state; a joint that is away from its command for no known reason counts as there."""
        measured = self._joint_states.known(now_ns, self._parameters.state_timeout)
        return measured and measured._replace(position=measured.position - self._published.guard.offset)

    def _apart(self, measured: MeasuredState, place: np.ndarray) -> np.ndarray:
        """Return the distance of the robot from a position, rad, `[dof]`."""
        return np.abs(turned(measured.position, place, self._parameters.continuous) - place)

    def _require_states(self, now_ns: int) -> None:
        """Refuse to begin if joint states were received before, but are too old now. Raises Rejected."""
        if self._joint_states.age_s(now_ns) is not None or self._joint_states.jumped_back:
            self._joint_states.latest(now_ns, self._parameters.state_timeout)

    def _require_rest(self, velocity: np.ndarray) -> None:
        """Refuse to begin while the robot moves: it may execute what the node published before its restart.

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
        """Refuse to begin far ahead of a moving robot: it may stop before, or only be on its way back to its command.

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
        """Return the time, s, in which the controller's quintic from its unknown command keeps the limits.

        The quintic may begin with twice its acceleration, since the controller takes its last command for one cycle
        older than it is.
        """
        time, left_at = self._parameters.publish_bridge_time, self._published.present.left_at
        bounds, lead = self._bounds, self._parameters.publish_lead_time
        if left_at is None:
            return time
        gap = np.abs(position - left_at)
        for _ in range(_BRIDGED_AGAIN):  # Until then, moving joints go on.
            distance = gap + np.abs(velocity) * time
            parts = zip(_QUINTIC_PEAKS, bounds.rates, (1, 2, 3), strict=True)
            needed = [float(((peak * distance / bound) ** (1 / order)).max()) for peak, bound, order in parts]
            time = max(time, max(needed) + lead)
        return time
