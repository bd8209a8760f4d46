"""The controller's reports about itself, in the node's joint order, compared with a motion. Knows no ROS."""

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
"""The reference is compared with own motions within this time, s: stamps are those of cycles, and blending shifts them.
"""
_MATCH_RAD, _MATCH_RAD_S, _HOLDS_RAD_S = 2e-5, 7e-3, 2e-4
"""Deviation that blending adds to a motion; and largest speed of a motion that may be taken for a hold."""
_STEPS, NEAR_NS = 4, 20_000_000
"""Steps of a search for the time at which a motion was like that, and its span around the expected time."""
_MOST_SCALING = 1e9
"""Largest speed scaling that is taken; 1e306, a number, made times of motions infinite."""
_HELD_RAD = 2e-8
"""Largest distance of a motion from a reference that stands: a restarted controller holds another one."""


class ControllerStatus(Enum):
    """The controller's activity, as far as the node knows."""

    UNKNOWN = "unknown"
    """It does not report, and nothing has been published to it that it would execute."""
    ASSUMED = "assumed"
    """It does not report; joint states agree with the published motion."""
    HOLDING = "holding"
    """It reports a reference at rest."""
    EXECUTING = "executing"
    LATE = "late"
    """It still executes a motion that has been replaced: the new one has not arrived in time."""
    BLENDING = "blending"
    """It executes the motion, up to 3 ms early or late, as after a replacement that blends."""
    RESTARTED = "restarted"
    """It has dropped the motion: restarted, aborted, or refused it."""
    OTHER = "other"
    """It executes a motion that this node has not published."""
    FASTER = "faster"
    """It executes motions faster than planned."""
    SILENT = "silent"
    """It reported, and does not any more."""


@dataclass(frozen=True)
class ControllerReport:
    """One message of the controller about itself, in the node's joint order, float64 `[dof]`."""

    stamp_ns: int
    reference: State
    speed_scaling: float = 1.0
    has_velocity: bool = True
    """True if it says the velocity of its reference, of all joints: of the others it is 0."""


class ControllerReports:
    """Checks the controller's reports, and brings them into the node's joint order."""

    def __init__(self, joint_names: tuple[str, ...]) -> None:
        self._joint_names = joint_names
        self._scales = False
        self.told: float | None = None
        """Speed scaling that somebody else than the controller tells; None: nobody does."""

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
            speed_scaling: 0 counts as 1 until it has been another number: then the controller does not fill it in.

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
        return ControllerReport(stamp_ns, state, own if self.told is None else self.told, has_velocity)


def check_speed_scaling(field: str, scaling: float) -> None:
    """Check that times of motions at this speed are finite, too. Raises Rejected: not_finite."""
    if not (np.isfinite(scaling) and scaling <= _MOST_SCALING):
        raise Rejected(
            RejectionReason.NOT_FINITE, f"{field}: expected a number of at most {_MOST_SCALING:g}, got {scaling}"
        )


def matches(report: ControllerReport, planned: PlannedMotion) -> bool | None:
    """Return whether a reference is a motion's exactly (True), within 3 ms (False), or not at all (None)."""
    own = planned.state_at(report.stamp_ns)
    apart = np.abs(report.reference.position - own.position)
    speed = np.maximum(np.abs(own.velocity), np.abs(report.reference.velocity))
    turn = np.abs(own.acceleration) * _MATCH_S**2
    least = np.where(np.abs(report.reference.velocity) < STANDS_RAD_S, _HELD_RAD, _MATCH_RAD)
    if (apart > speed * _MATCH_S + turn + least).any() or _is_at_another_speed(report, planned, own):
        return None
    return bool((apart <= speed * _MATCH_S / 2 + turn + least).all())


def found_in(planned: PlannedMotion, report: ControllerReport, near_ns: int, within_ns: int = NEAR_NS) -> int | None:
    """The time near another one at which a motion is as reported, by its velocity; None: there is none, or it rests."""
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
    """Return whether a reference only passes where a motion passes: its velocity is not the motion's within 3 ms."""
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
