"""Until when the robot is braked where it does not follow its command, or somebody stops it. Knows no ROS."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..execution.tolerances import NANOSECOND_S, RESTS
from .monitor import Allowance, TrackingMonitor

_REST_S = 0.1
"""For which a robot has to stand to be at rest."""
_STAYS_S = 1.0
"""A robot that stood still comes back to a command that is held by then, if it does."""
_STOOD = 0.2
"""Share of the allowance beyond which a joint that stood is still away from its command."""
_INSISTS = 0.3
"""Share of the allowance by which a plan may lead against what pushed a joint: a first row at 0.4 rad/s does not reach
it, a stream that goes on into an obstacle does.
"""


class Yields(NamedTuple):
    """Number of times that the command went to where a braked robot is."""

    count: int = 0
    resting: int = 0
    """Those while its joints rested: an arm that sinks with its command is not followed for ever."""
    last_ns: int = 0


class Finding(NamedTuple):
    """Why the robot is braked."""

    text: str
    joint: int = -1
    """The one that does not follow; -1: that is not why."""


class Guard:
    """Decides when the robot is braked because it does not follow its command, and until when.

    A deviation is held against the robot until its command and its joints rest.
    """

    def __init__(self, held: bool = False) -> None:
        self.monitor = TrackingMonitor()
        self.reason = ""
        """Why the robot was braked; empty: it was not, or that is over."""
        self.joint = -1
        """The joint that deviated."""
        self.stopped_until_rest = False
        self.held = held
        """Whether a stop holds on until it is released: by a call, never because something else is forgotten."""
        self.stop_waits = False
        """Whether a stop was requested that cannot be made yet."""
        self.brakes = 0
        self.stood = False
        """Whether a joint stood, and nothing has been begun since where it stands."""
        self.pressed = np.zeros(0)
        """Direction, 1 or -1, in which what it met pushes each joint that came away when it was braked; 0: none."""
        self.yields = Yields()
        self._resting_since_ns, self._rested_at = 0, np.zeros(0)

    @property
    def deviation(self) -> np.ndarray:
        """Tracking error of each joint at the last measured state, rad, `[dof]`."""
        return np.abs(self.monitor.error)

    def set_clock(self, now_ns: int) -> None:
        """The clock was set: nothing is known of what was before."""
        self.monitor.compare_anew()
        self._resting_since_ns = now_ns

    def measured(self, position: np.ndarray, velocity: np.ndarray, full_speed: np.ndarray, stamp_ns: int) -> None:
        """Take note of whether the joints move, by positions, too: some drivers give no velocities."""
        if len(self._rested_at) != len(position):
            self._rested_at = position
        moved = np.abs(position - self._rested_at) > RESTS * _REST_S * full_speed
        if (moved | (np.abs(velocity) > RESTS * full_speed)).any():
            self._resting_since_ns, self._rested_at = stamp_ns, position

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
        return Finding(f"{names[joint]} {told}, expected at most {allowed[joint]:.4g} {parameter}", int(joint))

    def is_away(self, allowance: Allowance) -> bool:
        """Whether a joint stood, and is away from its command, which rests, yet."""
        return self.stood and bool((self.deviation > _STOOD * allowance.distance).any())

    def insists(self, lead: np.ndarray, allowance: Allowance) -> np.ndarray:
        """Share of the allowed distance that each joint would use up by a plan that begins `lead` rad from it, `[dof]`.

        A plan may begin anywhere within the allowance, but against what pushed a joint away, only a part of that.
        """
        pressing = np.where(self.pressed != 0, -lead * self.pressed, 0.0) if len(self.pressed) else 0.0 * lead
        return np.maximum(np.abs(lead), pressing / _INSISTS) / allowance.distance

    def brake(self, finding: Finding) -> None:
        """The robot is braked for a reason."""
        self.reason, self.joint = finding
        self.brakes += 1
        self.stood = self.joint >= 0
        self.pressed = self.monitor.pressed
        self.yields = Yields()

    def rests(self, now_ns: int, away: bool = False) -> bool:
        """Whether the joints have been at rest for a moment; `away` from their command, for so long that they stay."""
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if away else _REST_S)

    def recover(self, *, away: bool) -> None:
        """The robot rests: the next sequence may begin where it is."""
        self.reason, self.joint = "", -1
        self.stood = away or self.yields.count > 0
        self.monitor.compare_anew()
