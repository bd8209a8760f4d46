"""What the controller reports of its reference, in the node's joint order, compared with a motion. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import STANDS_RAD_S, whole_ns
from ..requests.joint_order import named_joints, values_of_joints
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .reference import PlannedMotion

_MATCH_S = 3e-3
"""Time, s, by which a reported reference may be early or late in a motion: stamps are those of cycles, and a controller
that blends shifts them.
"""
_MATCH_RAD = 2e-5
"""Largest difference of position, rad, that a controller's blending adds to a motion."""
_MATCH_RAD_S = 7e-3
"""Largest difference of velocity, rad/s, that a controller's blending adds to a motion."""
_HOLDS_RAD_S = 2e-4
"""Largest speed, rad/s, of a motion that may be taken for a hold."""
_STEPS = 4
"""Iterations of the search for the time at which a motion was as reported: near that time they converge fast."""
NEAR_NS = 20_000_000
"""Largest distance, ns, of that time from the expected one: controllers enter messages late."""
_MOST_SCALING = 1e9
"""Largest speed scaling that is accepted: 1e306, which is finite, makes times of motions infinite."""
_HELD_RAD = 2e-8
"""Largest distance, rad, of a motion at rest from a reference that is held: a restarted controller holds another."""


class ControllerStatus(Enum):
    """The controller's activity, as far as the node knows."""

    UNKNOWN = "unknown"
    """The controller does not report, and no published motion can be in execution."""
    ASSUMED = "assumed"
    """The controller does not report; joint states agree with the published motion."""
    HOLDING = "holding"
    """The controller reports a reference at rest."""
    EXECUTING = "executing"
    LATE = "late"
    """The controller still executes a motion that has been replaced: the new one has not arrived in time."""
    BLENDING = "blending"
    """The controller executes the motion up to 3 ms early or late, as one does that blends on replacement."""
    RESTARTED = "restarted"
    """The controller has dropped the motion, because it restarted, aborted or refused it."""
    OTHER = "other"
    """The controller executes a motion that this node has not published."""
    FASTER = "faster"
    """The controller executes motions faster than planned."""
    SILENT = "silent"
    """The controller has stopped reporting."""


@dataclass(frozen=True)
class ControllerReport:
    """One report of the controller, in the node's joint order, float64 `[dof]`."""

    stamp_ns: int
    reference: State
    speed_scaling: float = 1.0
    has_velocity: bool = True
    """True if the report gives the velocity of every joint; otherwise missing velocities are 0."""


class ControllerReports:
    """Checks the controller's reports, and brings them into the node's joint order."""

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        self._scales = False
        self.reported_scaling: float | None = None
        """Speed scaling from a topic of the driver; None if the controller's reports give it, or nobody does."""

    def report(
        self,
        names: tuple[str, ...],
        position: np.ndarray,
        velocity: np.ndarray,
        acceleration: np.ndarray,
        stamp_ns: int,
        speed_scaling: float,
    ) -> ControllerReport:
        """Check a report.

        Args:
            names: joints of the controller, in any order.
            position: of the reference, one value for each name, rad.
            velocity: of the reference, rad/s. Empty counts as 0, and so does NaN, ros2_control's value when unset.
            acceleration: of the reference, rad/s^2; the same.
            stamp_ns: of the cycle.
            speed_scaling: the factor. 0 counts as 1 until another number comes: the controller may not fill it in.

        Raises:
            Rejected: joint_missing, duplicate_joint, joint_count or not_finite.

        """
        columns, joints = named_joints(names, self._joint_names, "controller_state.joint_names")
        if len(joints) < len(self._joint_names):
            missing = [name for name in self._joint_names if name not in names]
            raise Rejected(
                RejectionReason.JOINT_MISSING,
                f"controller_state.joint_names: expected all {len(self._joint_names)} joints of the node, missing "
                f"{shown_names(missing)}",
            )

        def values_of(part: str, values: np.ndarray, *, optional: bool = True) -> np.ndarray:
            field = f"controller_state.reference.{part}"
            return values_of_joints(field, values, columns, len(names), optional=optional, nan=optional)

        rates = values_of("velocities", velocity), values_of("accelerations", acceleration)
        has_velocity = bool(len(velocity)) and not np.isnan(rates[0]).any()
        given = (np.where(np.isnan(rate), 0.0, rate) for rate in rates)
        state = State(values_of("positions", position, optional=False), *given)
        check_speed_scaling("controller_state.speed_scaling_factor", speed_scaling)
        self._scales = self._scales or speed_scaling != 0.0
        own = speed_scaling if self._scales else 1.0
        return ControllerReport(
            stamp_ns, state, own if self.reported_scaling is None else self.reported_scaling, has_velocity
        )


def check_speed_scaling(field: str, scaling: float) -> None:
    """Check that times of motions at this speed are finite, too. Raises Rejected: not_finite."""
    if not (np.isfinite(scaling) and scaling <= _MOST_SCALING):
        raise Rejected(
            RejectionReason.NOT_FINITE, f"{field}: expected a number of at most {_MOST_SCALING:g}, got {scaling}"
        )


def matches(report: ControllerReport, planned: PlannedMotion) -> bool | None:
    """Return True if a reference is the motion's exactly, False if within 3 ms, and None if it is another one's."""
    own = planned.state_at(report.stamp_ns)
    apart = np.abs(report.reference.position - own.position)
    speed = np.maximum(np.abs(own.velocity), np.abs(report.reference.velocity))
    turn = np.abs(own.acceleration) * _MATCH_S**2
    least = np.where(np.abs(report.reference.velocity) < STANDS_RAD_S, _HELD_RAD, _MATCH_RAD)
    if (stands := (own.velocity == 0) & (apart > least)).any():  # A joint that is switched may have jumped meanwhile.
        span_ns = whole_ns(_MATCH_S)
        around = np.stack([planned.state_at(report.stamp_ns + by_ns).position for by_ns in (-span_ns, 0, span_ns)])
        place = report.reference.position
        beyond = np.maximum(place - around.max(axis=0), around.min(axis=0) - place)
        apart = np.where(stands, np.maximum(beyond, 0.0), apart)
    if (apart > speed * _MATCH_S + turn + least).any() or _is_at_another_speed(report, planned, own):
        return None
    return bool((apart <= speed * _MATCH_S / 2 + turn + least).all())


def found_in(planned: PlannedMotion, report: ControllerReport, near_ns: int, within_ns: int = NEAR_NS) -> int | None:
    """Return the time near `near_ns` at which a motion is as reported; None if there is none, or the motion rests."""
    time_ns = near_ns
    for _ in range(_STEPS):
        own = planned.state_at(time_ns)
        speed = float(own.velocity @ own.velocity)
        if speed < _MATCH_RAD_S**2:
            return None
        missing = report.reference.position - own.position
        time_ns += whole_ns(float(missing @ own.velocity) / speed)
        if abs(time_ns - near_ns) > within_ns:
            return None
    found = matches(replace(report, stamp_ns=time_ns), planned)
    return time_ns if found else None


def _is_at_another_speed(report: ControllerReport, planned: PlannedMotion, own: State) -> bool:
    """Return whether a reference passes a position of the motion at a velocity that the motion has not within 3 ms."""
    if not report.has_velocity:
        return False
    least = _HOLDS_RAD_S if rests(report.reference) else _MATCH_RAD_S
    if (np.abs(report.reference.velocity - own.velocity) <= least).all():
        return False
    span_ns = whole_ns(_MATCH_S)
    near = np.stack([own.velocity, *(planned.state_at(report.stamp_ns + by).velocity for by in (-span_ns, span_ns))])
    beyond = np.maximum(report.reference.velocity - near.max(axis=0), near.min(axis=0) - report.reference.velocity)
    return bool((beyond > least).any())


def rests(state: State) -> bool:
    """Return whether a reference is held."""
    return float(np.abs(state.velocity).max(initial=0.0)) < STANDS_RAD_S
