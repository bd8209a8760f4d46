"""Tracking monitor: the tracking error of each joint, and the growth of that error. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, SECOND_NS, whole_ns
from ..parameters.parameters import NodeParameters
from ..parameters.table import BASE, BINARY, GRIPPER
from .robot_clock import Slack

_LAGS_S = np.linspace(0.0, 0.2, 21)[:, None]
"""Lags, s, with which a joint may follow: stiction at 0.1 rad/s looks like a lag of 0.39 s where 0.09 s is right."""
_FIRST_LAG_S = 0.125
"""Longest lag, s, that is likely before a longer one is learned: hobby servos lag 0.10 to 0.12 s."""
_LAG_SLACK_S = 0.01
"""Scatter of a lag, s, that is always likely: stamps are those of cycles, and an arm is more than a delay."""
_SCATTER_S = 0.05
"""Scatter of each lag, s, before joints have moved."""
_KNOWN_S = 0.0001, 0.5
"""Motion from which scatter is known, the time integral of the squared share of full speed, s: assumed at first, and
remembered at most. Faster motion teaches more, so that slow motion does not displace what it has taught.
"""
_STEP_NS = 10_000_000
"""Time between two recorded commands, ns; commands between them are interpolated."""
_ROWS = 112
"""Number of recorded commands, 1.1 s: joints lag, and may have been measured 0.5 s before others."""
_SPEED_ROWS = 36
"""Number of the newest commands, 0.35 s, from which the speed is taken: errors outlast a motion by some 0.3 s."""
_EVERY_NS = 3_500_000
"""Shortest time between two comparisons, ns: joint states at 1 kHz are compared every 4 ms, which is often enough for a
supervision that runs every 10 ms.
"""
_MOVES = 0.01
"""Share of full speed from which on a joint counts as moving."""
_LATELY_S = 2.0
"""Time constant, s, of the recent error, to which growth is relative. In a contact at 0.03 rad/s, the error grows by
the smallest threshold within 0.51 s.
"""
_USUAL_S = 10.0
"""Time constant, s, of the sag: that of 2.5 kg, 14 mrad, changes within seconds."""
_REMEMBERED_S = 600.0
"""Time constant, s, with which the growth that free motions have needed is forgotten."""
_FLOOR = 0.16, 0.75
"""Smallest threshold of growth, as a share of the allowance: in slow motion, and its rise to full speed. Pushes of 80 N
at 0.5 rad/s cause 26 mrad of growth, where 27 are allowed.
"""
_NEED_OF_SPEED = 0.25
"""Rise of the learned threshold to full speed, as a share of the allowance: hobby arms need 16 mrad at 0.05 rad/s and
19 mrad at 0.8 rad/s, industrial arms 2 and 7 mrad.
"""
_MARGIN = 2.0
"""Factor by which a quantity may exceed its learned value."""
_UNKNOWN = 0.3
"""Growth, as a share of the allowance, that a joint is assumed to need before it has moved in both directions. Soft
drives need 0.15, hobby arms 0.35, and hobby arms that hang in their play, without reports, 0.6.
"""
_EXERCISED_S = 0.4
"""Time of motion in each direction, s, after which a joint has shown its play."""


class Allowance(NamedTuple):
    """Allowed distance of joints from their command, `[dof]`: infinite for grippers and what is switched."""

    distance: np.ndarray
    """Largest tracking error, rad or m; infinite: any."""
    full_speed: np.ndarray
    """Full speed, rad/s or m/s: in slower motions, the tracking error may grow less. It is infinite for grippers and
    what is switched, whose motion says nothing about the arm.
    """
    start: np.ndarray
    """Largest distance from the robot at which a plan may begin, rad or m; infinite: any."""
    grip: np.ndarray
    """Distance from which on a gripper that stands counts as held back, rad or m; infinite for other joints."""
    is_base: np.ndarray
    """Joints of a base, bool: what their free motions need is learned apart from the arm."""

    @property
    def watched(self) -> np.ndarray:
        """Joints of arm and base, bool `[dof]`."""
        return np.isfinite(self.full_speed)


def allowance_of(parameters: NodeParameters) -> Allowance:
    """Return the allowance: `supervision.deviation`, scaled by the range of joints with less than 1 rad or m."""
    size, low, high = (np.ones(len(parameters.joint_names)), *parameters.joint_limits.of("position"))
    if low is not None and high is not None:
        size = np.minimum(high - low, size)
    deviation, grips = _or_any(parameters.supervision_deviation * size), parameters.of_kind(GRIPPER)
    free = grips | parameters.of_kind(BINARY)
    return Allowance(
        distance=np.where(free, np.inf, deviation),
        full_speed=np.where(free, np.inf, size),
        start=np.where(free, np.inf, _or_any(np.full_like(size, parameters.limits_start_deviation))),
        grip=np.where(grips, deviation, np.inf),
        is_base=parameters.of_kind(BASE),
    )


def _or_any(distance: np.ndarray) -> np.ndarray:
    """Return distances of which 0, as a parameter, allows any."""
    return np.where(distance > 0, distance, np.inf)


class TrackingMonitor:
    """Compares joints with their command: tracking error, its growth, and the threshold of that.

    A joint is expected where its command was a lag ago. The scatter of the error at each of several lags, relative to
    the speed, tells which of them are likely; the error is the least at any of these, less the joint's sag. The growth
    of the error is what was added within the last seconds while any joint was commanded to move: in a contact, it goes
    on as long as the command does. The threshold of the growth follows what the robot's own free motions have needed.
    """

    def __init__(self) -> None:
        self.error, self.growth, self.threshold = np.zeros((3, 0))
        """Tracking error at the last measured state, its growth, and the threshold of growth, rad or m, `[dof]`."""
        self.velocity, self.off = np.zeros((2, 0))
        """Velocity commanded at that state, rad/s, and distance of the joints from the command, rad, `[dof]`."""
        self.lag_s: float | None = None
        """Lag of the joint whose lag is known best, s; None if none is known."""
        self.commanded, self.held_by = np.zeros((2, 0))
        """Position commanded at that state, and the command that would hold the joints in place, rad, `[dof]`."""
        self._known_dof(0)

    def _known_dof(self, dof: int) -> None:
        self.usual, self._need, self._peak = np.zeros((3, dof))
        """Sag, rad, `[dof]`, growth that free motions have needed, and that of the excursion in progress, as shares of
        the allowance.
        """
        self._scatter = np.repeat(np.where(_LAGS_S > _FIRST_LAG_S, 4.0 * _SCATTER_S, _SCATTER_S) ** 2, dof, axis=1)
        """Mean square of the error, less the recent one, by that of the velocity, s^2, `[lags, dof]`."""
        self._known, self._exercised = np.full(dof, _KNOWN_S[0]), np.zeros((2, dof))
        self._compared_ns, self._is_new = 0, True
        self.forget_command()

    def forget_command(self) -> None:
        """Forget errors and growth, because another motion is executed than the one that was compared."""
        self.error, self.growth, self.off, self._speed, self._peak = np.zeros((5, len(self.usual)))
        self.left = np.zeros_like(self.usual)
        """Distance from their command, rad, `[dof]`, at which a brake left joints; it shrinks as they come nearer."""
        self.threshold = np.full_like(self.usual, np.inf)
        self._lately: np.ndarray | None = None
        """Recent error at each lag, rad, `[lags, dof]`."""
        self.forget_line()

    def forget_line(self) -> None:
        """Forget recorded commands, because the motion was another one than recorded."""
        self._line, self._line_ns = np.zeros((0, len(self.usual))), 0
        """Recorded commands, one every 10 ms, rad, `[n, dof]`, and the time of the last, ns."""

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a state measured at that time is to be compared: of states at 1 kHz, every fourth is."""
        return not 0 <= stamp_ns - self._compared_ns < _EVERY_NS

    def take(
        self,
        position: np.ndarray,
        stamps_ns: np.ndarray,
        commanded: Callable[[int], State | None],
        allowance: Allowance,
        slack: Slack,
        *,
        free: bool = True,
    ) -> None:
        """Compare measured positions `[dof]` with the commands before their stamps.

        Args:
            position: rad.
            stamps_ns: when each joint was measured.
            commanded: returns the state commanded at a time, ns; None if it is unknown.
            allowance: of the joints.
            slack: of the stamps.
            free: whether the motion is free, as far as is known: only then properties of joints are learned.

        """
        if len(self.usual) != len(position):
            self._known_dof(len(position))
        newest_ns = int(stamps_ns.max())
        elapsed_s = 0.0 if self._lately is None else max(newest_ns - self._compared_ns, 0) * NANOSECOND_S
        self._compared_ns = newest_ns
        if not self._extended(newest_ns + whole_ns(slack.early), commanded):
            self.forget_command()
            return
        steps = np.diff(self._line[-_SPEED_ROWS:], axis=0) / (_STEP_NS * NANOSECOND_S)
        self._speed = np.where(allowance.watched, np.abs(steps).max(axis=0), 0.0)
        now = self._commanded_at(stamps_ns - np.array([[0.0], [_STEP_NS]]))
        self.commanded, self.off = now[0], position - now[0]
        self.velocity = (now[0] - now[1]) / (_STEP_NS * NANOSECOND_S)
        errors = position - self._commanded_at(stamps_ns - (_LAGS_S - slack.early) * SECOND_NS)
        self._compare(errors, elapsed_s, allowance, slack, free)
        self.held_by = position - self.usual

    def _compare(self, errors: np.ndarray, elapsed_s: float, allowance: Allowance, slack: Slack, free: bool) -> None:
        """Set the error, its growth and the threshold of growth from errors at all lags, rad, `[lags, dof]`."""
        pace, zeros = min(float((self._speed / allowance.full_speed).max()), 1.0), np.zeros_like(self.usual)
        if self._lately is None or not pace:
            self._lately = errors
        scatter, added = np.sqrt(self._scatter), errors - self._lately
        lags_s = _LAGS_S - slack.early
        lag = lags_s[scatter.argmin(axis=0), 0]
        likely = lags_s <= np.maximum(lag, _FIRST_LAG_S + slack.late)
        likely &= scatter <= _MARGIN * scatter.min(axis=0) + _LAG_SLACK_S
        error, growth = _least(errors, likely), _least(added, likely)
        if self._is_new:
            self.usual, self._is_new = np.where(np.abs(error) <= _MARGIN * allowance.distance, error, 0.0), False
        # A joint that comes nearer to its command does not count as growth.
        nearer = np.maximum(np.sign(growth) * (self.usual - self._lately[0]), 0.0)
        self.growth = np.sign(growth) * np.maximum(np.abs(growth) - nearer, 0.0)
        self.left = np.clip(self.left, np.minimum(error, 0.0), np.maximum(error, 0.0))
        self.error = _least(error - np.stack([self.usual, zeros, self.left]))
        unknown = self._exercised.min(axis=0) < _EXERCISED_S
        # The joints of an arm are alike, and so are those of a base.
        alike = allowance.is_base[:, None] == allowance.is_base
        need = np.maximum((self._need * alike).max(axis=1, initial=0.0), np.where(unknown, _UNKNOWN, 0.0))
        most = np.maximum(_MARGIN * need + _NEED_OF_SPEED * pace, _FLOOR[0] + _FLOOR[1] * pace)
        self.threshold = allowance.distance * np.minimum(most, 1.0) if pace else zeros + np.inf
        if pace:
            self._lately = self._lately + added * (1 - np.exp(-elapsed_s / _LATELY_S))
            self.usual = self.usual + free * (error - self.usual) * (1 - np.exp(-elapsed_s / _USUAL_S))
        if free:
            self._learn(added, lag, elapsed_s, allowance, pace)

    def _learn(self, added: np.ndarray, lag: np.ndarray, elapsed_s: float, allowance: Allowance, pace: float) -> None:
        """Learn growth from excursions that are over (in contact, they do not end), and the scatter at each lag."""
        share = np.maximum(np.abs(self.growth) / allowance.distance - _NEED_OF_SPEED * pace, 0.0)
        # At rest, nobody knows whether an excursion is over.
        self._peak = np.maximum(self._peak, share) * (pace > 0)
        over = share < self._peak / 2
        kept = np.exp(-elapsed_s / _REMEMBERED_S)
        self._need = np.where(over, np.maximum(self._need, self._peak), self._need * kept)
        self._peak = np.where(over, share, self._peak)
        speed = self.velocity / allowance.full_speed
        goes = np.stack([speed, -speed]) > _MOVES
        self._exercised = self._exercised + goes * elapsed_s
        # Joints that stop late, after their command, show their lags, too.
        went = self._speed > _MOVES * allowance.full_speed
        learns = went & (np.abs(self.growth) <= self.threshold / _MARGIN)
        known = self._known + speed**2 * elapsed_s
        scatter = (self._scatter * self._known + (added / allowance.full_speed) ** 2 * elapsed_s) / known
        self._scatter = np.where(learns, scatter, self._scatter)
        self._known = np.where(learns, np.minimum(known, _KNOWN_S[1]), self._known)
        if learns.any():
            self.lag_s = float(lag[self._known.argmax()])

    def _extended(self, until_ns: int, commanded: Callable[[int], State | None]) -> bool:
        """Record commands until a time, at most 10 ms from now; returns False if they are unknown."""
        begin_ns = max(self._line_ns, until_ns - _ROWS * _STEP_NS)
        states = [commanded(time_ns) for time_ns in range(begin_ns + _STEP_NS, until_ns + _STEP_NS, _STEP_NS)]
        if states and states[-1] is None:
            return False
        rows = [state.position for state in states if state is not None]
        if rows:
            self._line, self._line_ns = np.vstack([self._line, *rows])[-_ROWS:], begin_ns + len(states) * _STEP_NS
        return len(self._line) > 1

    def _commanded_at(self, times_ns: np.ndarray) -> np.ndarray:
        """Return the commanded position of each joint at times `[n, dof]`, ns, interpolated linearly."""
        last, joints = len(self._line) - 1, np.arange(times_ns.shape[1])
        place = np.clip((times_ns - self._line_ns) / _STEP_NS + last, 0, last)
        row = np.minimum(place.astype(int), last - 1)
        return self._line[row, joints] + (place - row) * (self._line[row + 1, joints] - self._line[row, joints])

    @property
    def knows_command(self) -> bool:
        """Whether the command at the last measured state is known."""
        return len(self._line) > 0

    @property
    def behind(self) -> np.ndarray:
        """Distance by which moving joints are behind their command, rad, `[dof]`: their lag times their speed."""
        return np.where(self._speed > 0, self.usual - self.off, 0.0)


def _least(values: np.ndarray, likely: np.ndarray | bool = True) -> np.ndarray:
    """Return the least of values, `[n, dof]`, that are likely, if these have the same sign; otherwise 0."""
    low, high = values.min(axis=0, where=likely, initial=np.inf), values.max(axis=0, where=likely, initial=-np.inf)
    return np.maximum(low, 0.0) + np.minimum(high, 0.0)
