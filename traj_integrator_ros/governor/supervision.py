"""Brakes of the robot, when it does not follow its command or somebody stops it, until they end. Knows no ROS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..execution.tolerances import NANOSECOND_S, RESTS, STANDS_RAD_S
from ..requests.rejection import Rejected, RejectionReason
from .measured import MeasuredState, unexplained
from .monitor import Allowance, TrackingMonitor

REST_S = 0.1
"""Time for which a robot has to stand to count as resting."""
_STAYS_S = 1.0
"""A robot that stands away from its command comes back within this time, or not at all."""
_AWAY, _REACHED = 0.3, 0.05
"""Shares of the allowance: a robot further from its command stands away; one nearer is at it. Walls hold back by 0.16.
"""
_JUMPED = 0.5
"""Share of a tracking error that a step of the measured position makes up, which no velocity explains: then nobody
knows where the joint is.
"""
_FOLLOWS = 0.05
"""Way, as a share of the joint's size (1 rad or m, or its smaller range), after which a joint that was stopped follows
again.
"""


class Finding(NamedTuple):
    """Why the robot is braked."""

    text: str
    kind: RejectionReason
    deviates: bool = False
    """True if a joint does not follow."""


class Guard:
    """Decides when the robot is braked because it does not follow its command, and until when.

    After a brake the command stands, whatever is measured. Once it goes back: if joints were held back or pushed, by
    what they were off at the brake at most.
    """

    def __init__(self, held: bool = False) -> None:
        self.monitor = TrackingMonitor()
        self.reason = ""
        """Why the robot was braked; empty: it was not, or that is over."""
        self.kind = RejectionReason.DEVIATION
        self.stopped_until_rest = False
        self.held = held
        """True if a stop holds on until it is released: by a call, never because something else is forgotten."""
        self.stop_waits = False
        """True if a stop was requested that cannot be made yet."""
        self.brakes = 0
        self.back_to: np.ndarray | None = None
        """Where joints were at the brake, rad, `[dof]`, if the command may yet go back towards there."""
        self._explained: np.ndarray | None = None
        """Joints, `[dof]`, whose measured velocity explained at the brake where they were; None: they followed."""
        self.offset: np.ndarray | float = 0.0
        """Distance, rad, `[dof]`, by which joints are measured away from their command where nothing explains it."""
        self.stopped: np.ndarray | float = 0.0
        """Directions, -1, 0 or 1, `[dof]`, in which joints were stopped; 0: they have followed again since."""
        self._met: np.ndarray | float = 0.0
        """The same at the last brake."""
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

    def set_clock(self, now_ns: int) -> None:
        """The clock was set: earlier knowledge is void."""
        self.monitor.compare_anew()
        self._resting_since_ns = now_ns

    def measured(self, position: np.ndarray, allowance: Allowance, stamp_ns: int) -> None:
        """Record whether the joints move, by positions: velocities of some drivers are noise, or missing."""
        if len(self._rested_at) != len(position):
            self._rested_at = position
        if (np.abs(position - self._rested_at) > RESTS * REST_S * allowance.full_speed).any():
            self._resting_since_ns, self._rested_at = stamp_ns, position
        if self._began is not None and not self.reason:
            went, led = np.stack([position, self.monitor.commanded]) - self._began
            follows = (went * led > 0) & (np.minimum(abs(went), abs(led)) >= _FOLLOWS * allowance.full_speed)
            self.stopped = np.where(follows, 0.0, self.stopped)

    def exceeded(self, allowance: Allowance, names: tuple[str, ...]) -> Finding | None:
        """The joint that is furthest beyond its thresholds; None: none is."""
        monitor, distance = self.monitor, allowance.distance
        if not len(monitor.error) or not distance.all():
            return None
        threshold = monitor.threshold
        # Away from what it met: integrators of drives press on that for a while.
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
        told = what.format(found[joint])
        parameter = "(parameter supervision.deviation)"
        told = f"{names[joint]} {told}, expected at most {allowed[joint]:.4g} {parameter}"
        return Finding(told, RejectionReason.DEVIATION, deviates=True)

    def require_following(self) -> None:
        """Refuse sequences, and what is in execution, while the robot is stopped or braked. Raises Rejected."""
        if self.held or self.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if self.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if self.reason:
            raise self.refusal()

    def refusal(self) -> Rejected:
        """The refusal of sequences while the robot is braked."""
        is_off = self.kind is RejectionReason.CONTROLLER_UNAVAILABLE
        source, until = ("controller_state", "it is back") if is_off else ("node", "the robot rests")
        return Rejected(self.kind, f"{source}: {self.reason}; rejecting until {until}")

    def brake(self, finding: Finding, states: Sequence[MeasuredState], allowance: Allowance) -> None:
        """The robot is braked for a reason, and was in these states before, the last one of now."""
        self.reason, self.kind, deviates = finding
        self.brakes += 1
        self.back_to, self._explained, monitor = None, None, self.monitor
        if not deviates:
            return
        self.back_to = monitor.held_by
        self._explained = unexplained(states) <= _JUMPED * np.abs(monitor.off)
        away = np.where(np.abs(monitor.off) > _AWAY * allowance.distance, -np.sign(monitor.off), 0.0)
        self.stopped = np.where(np.abs(monitor.velocity) > STANDS_RAD_S, np.sign(monitor.velocity), away)
        self._met = self.stopped

    def way_back(self, command: np.ndarray, most: float, allowance: Allowance) -> np.ndarray | None:
        """The one way back of a command that stands after a brake, rad, `[dof]`; None: it stands where it is.

        It leads to where joints were at the brake, unless they have come to their command since. All do: where a joint
        gives way, another one may have led it against something.

        Args:
            command: rad.
            most: longest way, rad or m; 0: any.
            allowance: of the joints.

        """
        place, self.back_to = self.back_to, None
        if (np.abs(self.monitor.held_by - command) <= _REACHED * allowance.distance).all():
            return None
        return np.clip(place - command, -(most or np.inf), most or np.inf) * self._explained

    def rests(self, now_ns: int, allowance: Allowance) -> bool:
        """Return whether the joints have been at rest for a moment; away from their command, for longer."""
        is_away = bool(self.reason) and self.back_to is None and self._is_away(allowance)
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if is_away else REST_S)

    def was_moved(self, allowance: Allowance) -> bool:
        """Return whether the robot was brought away from its command, and stands there."""
        return self._explained is not None and bool(self._explained.all()) and self._is_away(allowance)

    def _is_away(self, allowance: Allowance) -> bool:
        return bool((self.deviation > _AWAY * allowance.distance).any())

    def recover(self) -> None:
        """The robot rests: the next sequence may begin where its command stands."""
        self.reason, explained, off = "", self._explained, self.monitor.off
        self.monitor.compare_anew()
        if explained is not None:
            self._began = self.monitor.commanded + np.stack([off * explained, np.zeros_like(off)])
            self.monitor.left, self.offset = off * explained, self.offset + off * ~explained

    def forget_command(self) -> None:
        """Another motion is executed than the one that was compared: from where the joints are measured."""
        self.monitor.forget_command()
        self.offset = 0.0
