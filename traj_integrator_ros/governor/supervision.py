"""Brakes of the robot, when it does not follow its command or somebody stops it, until they end. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..execution.tolerances import NANOSECOND_S, RESTS, ROUNDING
from ..requests.rejection import Rejected, RejectionReason
from .monitor import Allowance, TrackingMonitor

REST_S = 0.1
"""Time for which a robot has to stand to count as resting."""
_STAYS_S = 1.0
"""A robot that stood still comes back to a held command within this time, or not at all."""
NEAR = 0.3
"""Share of the allowance with three uses. A braked robot that is this near counts as being at its command. The command
gives way to an obstacle this far, since integrators of drives would press on. Plans may lead on against it this far.
"""
REACHED = 0.05
"""Share of the allowance within which a robot has reached its command, which then need not give way to it; walls hold
it back by 0.16 and more.
"""


class Contact(NamedTuple):
    """The obstacle of a robot that was braked because joints came away from their command."""

    push: np.ndarray
    """Direction in which it pushes joints, in shares of the allowance, `[dof]`, of length 1."""
    place: np.ndarray
    """Positions where joints stood."""
    again: bool = False
    """True if the robot met it twice without having been away in between."""


class Yields(NamedTuple):
    """Number of times that the command went to a braked robot's place."""

    count: int = 0
    settled: int = 0
    """Number of motions among them that began at rest or near the end of the last one: arms sink with a command."""
    last_ns: int = 0


class Finding(NamedTuple):
    """Why the robot is braked."""

    text: str
    kind: RejectionReason
    joint: int = -1
    """Index of the joint that does not follow; -1: another reason."""


class Guard:
    """Decides when the robot is braked because it does not follow its command, and until when.

    A deviation is held against the robot until its command and its joints rest.
    """

    def __init__(self, held: bool = False) -> None:
        self.monitor = TrackingMonitor()
        self.reason = ""
        """Why the robot was braked; empty: it was not, or that is over."""
        self._kind = RejectionReason.DEVIATION
        self.stopped_until_rest = False
        self.held = held
        """True if a stop holds on until it is released: by a call, never because something else is forgotten."""
        self.stop_waits = False
        """True if a stop was requested that cannot be made yet."""
        self.brakes = 0
        self.stood = False
        """True if a joint stood, and nothing has begun since at its place."""
        self.contact: Contact | None = None
        """The obstacle; None: nothing, or the robot has been away from there since."""
        self.yields = Yields()
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
        if self.contact is not None and not self.reason and np.abs(self._against(position, allowance)) > 1.0:
            self.contact = None

    def exceeded(self, allowance: Allowance, names: tuple[str, ...]) -> Finding | None:
        """The joint that is furthest beyond its thresholds; None: none is."""
        monitor, distance = self.monitor, allowance.distance
        if not len(monitor.error) or not distance.all():
            return None
        beyond = np.stack([self.deviation / distance, np.abs(monitor.growth) / monitor.threshold])
        kind, joint = np.unravel_index(beyond.argmax(), beyond.shape)
        if beyond[kind, joint] <= 1.0:
            return None
        found, allowed, what = (
            (self.deviation, distance, "is {:.4g} away from its command"),
            (np.abs(monitor.growth), monitor.threshold, "gets {:.4g} further away from its command"),
        )[kind]
        told = what.format(found[joint])
        parameter = "(parameter supervision.deviation)"
        told = f"{names[joint]} {told}, expected at most {allowed[joint]:.4g} {parameter}"
        return Finding(told, RejectionReason.DEVIATION, int(joint))

    def is_away(self, allowance: Allowance) -> bool:
        """Return whether a joint stood, and is still away from its command, which rests."""
        return self.stood and bool((self.deviation > NEAR * allowance.distance).any())

    def leads_on(self, places: np.ndarray, measured: np.ndarray, allowance: Allowance) -> float:
        """Share of the allowance by which a motion leads on against the obstacle.

        The first time, only if its plan begins there, further than the robot is: the obstacle may have gone.

        Args:
            places: where the plan begins, and those of the motion, rad, `[1 + n, dof]`.
            measured: where the robot is.
            allowance: of the joints.

        """
        begins, *against = self._against(places, allowance).tolist()
        left = next((k for k, place in enumerate(against) if place < -1.0), len(against))
        most = max(against[:left], default=-1.0)
        if most <= against[0] + ROUNDING:
            return 0.0  # it leads away from there
        if self.contact.again:
            return most
        return min(most, begins) - max(float(self._against(measured, allowance)), 0.0)

    def _against(self, places: np.ndarray, allowance: Allowance) -> np.ndarray:
        """Distance of places beyond the contact's, against its push, as shares of the allowance."""
        return ((self.contact.place - places) / allowance.distance) @ self.contact.push

    def require_following(self) -> None:
        """Refuse sequences, and what is in execution, while the robot is stopped or braked. Raises Rejected."""
        if self.held or self.stopped_until_rest:
            held = "and holds until it is released (~/stop with hold: false)" if self.held else "and is not over"
            raise Rejected(RejectionReason.STOPPED, f"node: a stop was requested {held}")
        if self.reason:
            raise self.refusal()

    def refusal(self) -> Rejected:
        """The refusal of sequences while the robot is braked."""
        is_off = self._kind is RejectionReason.CONTROLLER_UNAVAILABLE
        source, until = ("controller_state", "it is back") if is_off else ("node", "the robot rests")
        return Rejected(self._kind, f"{source}: {self.reason}; rejecting until {until}")

    def brake(self, finding: Finding, allowance: Allowance) -> None:
        """The robot is braked for a reason."""
        self.reason, self._kind, joint = finding
        self.brakes += 1
        self.stood = joint >= 0
        self.yields = Yields()
        if self.stood and (push := self._push(allowance)).any():
            again = self.contact is not None and bool(self.contact.push @ push > 0)
            self.contact = Contact(_unit(push + self.contact.push) if again else push, self._rested_at, again)

    def _push(self, allowance: Allowance) -> np.ndarray:
        """Direction in which a contact pushes joints: those that give way, and back those that went against it.

        They need not be the same: a weak wrist gives way where the arm moves its first joint.
        """
        growth, velocity = self.monitor.growth / allowance.distance, self.monitor.velocity / allowance.full_speed
        went = np.where(growth * velocity < 0, velocity, 0.0)
        return _unit(_unit(growth) - _unit(went))

    def rests(self, now_ns: int, away: bool = False) -> bool:
        """Return whether the joints have been at rest for a moment; `away` from their command, for longer."""
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if away else REST_S)

    def recover(self, allowance: Allowance) -> None:
        """The robot rests: the next sequence may begin where it is.

        If it has come to its command by itself, no obstacle is there: it was held, or its drive was off, for a moment.
        """
        self.reason = ""
        if not self.yields.count and (self.deviation <= REACHED * allowance.distance).all():
            self.contact = None
        if self.contact is not None:
            self.contact = self.contact._replace(place=self._rested_at)
        self.monitor.compare_anew()


def _unit(vector: np.ndarray) -> np.ndarray:
    return vector / (np.linalg.norm(vector) or 1.0)
