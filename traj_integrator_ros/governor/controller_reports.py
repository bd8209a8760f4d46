"""What the controller reports of its reference, in the node's joint order, compared with a motion. Knows no ROS."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from ..execution.motion import Motion, State
from ..execution.tolerances import NANOSECOND_S, STANDS_RAD_S, whole_ns
from ..requests.joint_order import named_joints, values_of_joints
from ..requests.rejection import Rejected, RejectionReason, shown_names
from .measured import outside

_MATCH_S = 3e-3
"""Time, s, by which a reported reference may be early or late in a motion: stamps are those of cycles, and a controller
that blends shifts them. Within half of it, the reference is the motion's.
"""
_AROUND_S = _MATCH_S * np.array([0.0, -0.5, 0.5, -1.0, 1.0])
_MATCH_RAD = 2e-5
"""Largest difference of position, rad, that a controller's blending adds to a motion."""
_HELD_RAD = 2e-8
"""The same for a reference that is held: a restarted controller holds another one."""
_MATCH_RAD_S = 7e-3
"""Largest difference of velocity, rad/s, that a controller's blending adds to a motion."""
_HOLDS_RAD_S = 2e-4
"""Largest speed, rad/s, of a motion that may be taken for a hold."""
_STEPS = 4
"""Iterations of the search for the time at which a motion was as reported: near that time they converge fast."""
_MOST_SCALING = 1e9
"""Largest speed scaling that is accepted: 1e306, which is finite, makes times of motions infinite."""


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
        """Check a report, whose values are one for each name, in any order.

        Rates that are empty count as 0, and so does NaN, ros2_control's value when unset. A scaling of 0 counts as 1
        until another number comes: the controller may not fill it in.

        Raises Rejected: joint_missing, duplicate_joint, joint_count or not_finite.
        """
        columns, joints = named_joints(names, self._joint_names, "controller_state.joint_names")
        if len(joints) < len(self._joint_names):
            missing = [name for name in self._joint_names if name not in names]
            raise Rejected(
                RejectionReason.JOINT_MISSING,
                f"controller_state.joint_names: expected all {len(self._joint_names)} joints of the node, missing "
                f"{shown_names(missing)}",
            )
        given = {"positions": position, "velocities": velocity, "accelerations": acceleration}
        place, *rates = (
            values_of_joints(
                f"controller_state.reference.{part}", values, columns, len(names),
                optional=part != "positions", nan=part != "positions",
            )
            for part, values in given.items()
        )  # fmt: skip
        state = State(place, *(np.where(np.isnan(rate), 0.0, rate) for rate in rates))
        check_speed_scaling("controller_state.speed_scaling_factor", speed_scaling)
        self._scales = self._scales or speed_scaling != 0.0
        scaling = (speed_scaling if self._scales else 1.0) if self.reported_scaling is None else self.reported_scaling
        return ControllerReport(stamp_ns, state, scaling, bool(len(velocity)) and not np.isnan(rates[0]).any())


def check_speed_scaling(field: str, scaling: float) -> None:
    """Check that times of motions at this speed are finite, too. Raises Rejected: not_finite."""
    if not (np.isfinite(scaling) and scaling <= _MOST_SCALING):
        raise Rejected(
            RejectionReason.NOT_FINITE, f"{field}: expected a number of at most {_MOST_SCALING:g}, got {scaling}"
        )


def matches(report: ControllerReport, motion: Motion, time_ns: int) -> bool | None:
    """Return True if a reference is what a motion commands at a time, False if within 3 ms, None if it is another's."""
    reference, place = report.reference, report.reference.position
    times = np.maximum((time_ns - motion.start_ns) * NANOSECOND_S + _AROUND_S, 0.0)
    positions, velocities, accelerations = motion.states_at(times, 3)
    least = _HOLDS_RAD_S if rests(reference) else _MATCH_RAD_S
    if report.has_velocity and (np.abs(outside(reference.velocity, velocities)) > least).any():
        return None
    stands = np.abs(reference.velocity) < STANDS_RAD_S
    least = np.where(stands, _HELD_RAD, _MATCH_RAD) + np.abs(accelerations[0]) * _MATCH_S**2
    if (np.abs(outside(place, positions)) > least).any():
        return None
    return bool((np.abs(outside(place, positions[:3])) <= least).all())


def found_in(motion: Motion, report: ControllerReport, near_ns: int, within_ns: int) -> int | None:
    """Return the time near `near_ns` at which a motion is as reported; None if there is none, or the motion rests."""
    time_ns = near_ns
    for _ in range(_STEPS):
        own = motion.at(time_ns)
        speed = float(own.velocity @ own.velocity)
        if speed < _MATCH_RAD_S**2:
            return None
        missing = report.reference.position - own.position
        time_ns += whole_ns(float(missing @ own.velocity) / speed)
        if abs(time_ns - near_ns) > within_ns:
            return None
    return time_ns if matches(report, motion, time_ns) else None


def rests(state: State) -> bool:
    """Return whether a reference is held."""
    return float(np.abs(state.velocity).max(initial=0.0)) < STANDS_RAD_S
