"""When the robot is braked, because it does not follow or somebody stops it, and for how long. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import NANOSECOND_S, RESTS, STANDS_RAD_S
from ..requests.rejection import Rejected, RejectionReason
from .grips import Grips
from .measured import MeasuredState, unexplained
from .monitor import Allowance, TrackingMonitor

REST_S = 0.1
"""Time, s, for which a robot has to stand to count as resting."""
_STAYS_S = 1.0
"""Time, s, in which a robot that stands away from its command comes back, if it does so at all."""
_AWAY = 0.3
"""Tracking error, as a share of the allowance, from which on a robot stands away from its command. A wall holds a joint
back by 0.16.
"""
_REACHED = 0.05
"""Distance from the command, as a share of the allowance, below which a joint is at its command."""
_JUMPED = 0.5
"""Share of a tracking error. If a step of the measured position that no velocity explains makes up more than that, it
is unknown where the joint is.
"""
_FOLLOWS = 0.05
"""Distance, as a share of the joint's range (at most 1 rad or m), over which a joint that was stopped must have
followed to count as following again.
"""


class Finding(NamedTuple):
    """Why the robot is braked."""

    text: str
    kind: RejectionReason
    deviates: bool = False
    """True if the reason is that a joint does not follow."""


class Guard:
    """Decides when the robot is braked because it does not follow its command, and until when.

    After a brake the command stands, whatever is measured. If joints were held back or pushed, it goes back once, at
    most to where the joints were at the brake.
    """

    def __init__(self, held: bool = False) -> None:
        self.monitor, self.grips = TrackingMonitor(), Grips()
        self.reason = ""
        """Why the robot is braked; empty if it is not."""
        self.kind = RejectionReason.DEVIATION
        self.stopped_until_rest = False
        self.held = held
        """True if a stop holds until a call releases it. Nothing else releases it."""
        self.stop_waits = False
        """True if a stop was requested that is not possible yet."""
        self.brakes = 0
        self.back_to: np.ndarray | None = None
        """Where joints were at the brake, rad, `[dof]`; None if the command may not go back there, or has gone back."""
        self._explained: np.ndarray | None = None
        """Joints, bool `[dof]`, whose measured velocity explained their position at the brake; None if all followed."""
        self.offset: np.ndarray | float = 0.0
        """Distance of measured joints from their command that nothing explains, rad, `[dof]`."""
        self.stopped: np.ndarray | float = 0.0
        """Directions in which joints were stopped, -1, 0 or 1, `[dof]`; 0 once they have followed again."""
        self._met: np.ndarray | float = 0.0
        """The directions at the last brake, which following again does not change."""
        self._began: np.ndarray | None = None
        """Measured and commanded positions, `[2, dof]`, when the last brake was over."""
        self._resting_since_ns, self._rested_at = 0, np.zeros(0)

    @property
    def is_busy(self) -> bool:
        """Return whether a brake or a stop is not over yet."""
        return bool(self.reason) or self.stopped_until_rest or self.stop_waits

    @property
    def deviation(self) -> np.ndarray:
        """Tracking error of each joint at the last measured state, rad, `[dof]`."""
        return np.abs(self.monitor.error)

    def measured(self, position: np.ndarray, allowance: Allowance, stamp_ns: int) -> None:
        """Record from positions whether joints move: velocities of some drivers are noise, or missing."""
        if len(self._rested_at) != len(position):
            self._rested_at = position
        if (np.abs(position - self._rested_at) > RESTS * REST_S * allowance.full_speed).any():
            self._resting_since_ns, self._rested_at = stamp_ns, position
        if self._began is not None and not self.reason:
            went, led = np.stack([position, self.monitor.commanded]) - self._began
            follows = (went * led > 0) & (np.minimum(abs(went), abs(led)) >= _FOLLOWS * allowance.full_speed)
            self.stopped = np.where(follows, 0.0, self.stopped)

    def exceeded(self, allowance: Allowance, names: tuple[str, ...]) -> Finding | None:
        """Return the finding about the joint that exceeds its thresholds most; None if none does."""
        monitor, distance = self.monitor, allowance.distance
        if not len(monitor.error):
            return None
        threshold = monitor.threshold
        # It moves away from what it met, against which the integrators of drives press for a while.
        if np.count_nonzero(self.stopped) and (self._met * monitor.velocity).sum() < 0:
            threshold = np.maximum(threshold, distance)
        beyond = np.stack([self.deviation / distance, np.abs(monitor.growth) / threshold])
        kind, joint = np.unravel_index(beyond.argmax(), beyond.shape)
        if beyond[kind, joint] <= 1.0:
            return None
        found, allowed, what = (
            (self.deviation, distance, "is {:.4g} away from its command"),
            (np.abs(monitor.growth), threshold, "gets {:.4g} further away from its command"),
        )[kind]
        message = what.format(found[joint])
        parameter = "(parameter supervision.deviation)"
        message = f"{names[joint]} {message}, expected at most {allowed[joint]:.4g} {parameter}"
        return Finding(message, RejectionReason.DEVIATION, deviates=True)

    def require_following(self) -> None:
        """Refuse sequences, and goals in execution, while the robot is stopped or braked. Raises Rejected."""
        if self.held or self.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if self.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if self.reason:
            raise self.refusal()

    def refusal(self) -> Rejected:
        """Return the refusal of sequences while the robot is braked."""
        is_off = self.kind is RejectionReason.CONTROLLER_UNAVAILABLE
        source, until = ("controller_state", "it is back") if is_off else ("node", "the robot rests")
        return Rejected(self.kind, f"{source}: {self.reason}; rejecting until {until}")

    def brake(self, finding: Finding, states: Sequence[MeasuredState], allowance: Allowance) -> None:
        """Record that the robot is braked, why, and its states before (the last of them is the present one)."""
        self.reason, self.kind, deviates = finding
        self.brakes += 1
        self.back_to, self._explained, monitor = None, None, self.monitor
        if not deviates:
            return
        self.back_to, watched = monitor.held_by, allowance.watched
        self._explained = (unexplained(states) <= _JUMPED * np.abs(monitor.off)) | ~watched
        away = np.where(np.abs(monitor.off) > _AWAY * allowance.distance, -np.sign(monitor.off), 0.0)
        met = np.where(np.abs(monitor.velocity) > STANDS_RAD_S, np.sign(monitor.velocity), away)
        self.stopped = np.where(watched, met, 0.0)
        self._met = self.stopped

    def way_back(self, command: np.ndarray, most: float, allowance: Allowance) -> np.ndarray | None:
        """Return how far the command goes back, once after a brake, rad, `[dof]`; None if it stands where it is.

        It goes back to where the joints were at the brake, unless they have come to their command since. All joints go
        back, since where one gives way, another one may have pressed it against something. Grippers keep their grip.

        Args:
            command: rad, `[dof]`.
            most: largest distance, rad or m; 0 allows any.
            allowance: of the joints.

        """
        place, self.back_to = self.back_to, None
        if (np.abs(self.monitor.held_by - command) <= _REACHED * allowance.distance).all():
            return None
        return np.clip(place - command, -(most or np.inf), most or np.inf) * (self._explained & allowance.watched)

    def rests(self, now_ns: int, allowance: Allowance) -> bool:
        """Return whether the joints have rested for 0.1 s, or for 1 s if they stand away from their command."""
        is_away = bool(self.reason) and self.back_to is None and self._is_away(allowance)
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if is_away else REST_S)

    def was_moved(self, allowance: Allowance) -> bool:
        """Return whether the robot was moved away from its command, and stands there."""
        return self._explained is not None and bool(self._explained.all()) and self._is_away(allowance)

    def _is_away(self, allowance: Allowance) -> bool:
        return bool((self.deviation > _AWAY * allowance.distance).any())

    def recover(self) -> None:
        """End a brake, since the robot rests: the next sequence may begin where the command stands."""
        self.reason, explained, off = "", self._explained, self.monitor.off
        self.monitor.compare_anew()
        if explained is not None:
            self._began = self.monitor.commanded + np.stack([off * explained, np.zeros_like(off)])
            self.monitor.left, self.offset = off * explained, self.offset + off * ~explained

    def forget_command(self) -> None:
        """Forget errors, because the next motion begins where the joints are measured."""
        self.monitor.forget_command()
        self.offset = 0.0
