"""Tracking monitor: the tracking error of each joint, and the growth of that error. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, SECOND_NS
from ..parameters.parameters import NodeParameters
from ..parameters.table import BASE, BINARY, GRIPPER

_LONGEST_LAG_S = 0.12
"""Longest lag, s, that a joint may have before its lag is learned: hobby servos lag 0.10 to 0.12 s."""
_MOST_LAG_S = 0.2
"""Longest lag, s, that is learned: stiction at 0.1 rad/s looks like a lag of 0.39 s where 0.09 s is right."""
_LAG_SLACK_S = 0.02
"""Largest error of a learned lag, s: stamps are those of cycles, and an arm is more than a delay."""
_STEP_NS = 10_000_000
"""Time between two recorded commands, ns; commands between them are interpolated."""
_ROWS = 112
"""Number of recorded commands, 1.1 s: joints lag, and may have been measured 0.5 s before others."""
_SPEED_ROWS = 36
"""Number of the newest commands, 0.35 s, from which the speed is taken: errors outlast a motion by some 0.3 s."""
_SHARES = np.linspace(0.0, 1.0, 7)[:, None]
"""Lags at which a joint is compared with its command, as shares between its shortest and its longest lag."""
_EVERY_NS = 3_500_000
"""Shortest time between two comparisons, ns: joint states at 1 kHz are compared every 4 ms, which is often enough for a
supervision that runs every 10 ms.
"""
_MOVES = 0.01
"""Share of full speed from which on a joint counts as moving: smaller changes of velocity teach no lag."""
_GOES = 0.3
"""Share of the commanded speed from which on a joint counts as following: a standing joint teaches no lag."""
_LATELY_S = 2.0
"""Time constant, s, of the recent error, to which growth is relative, and of lags. In a contact at 0.03 rad/s, the
error grows by the smallest threshold within 0.51 s.
"""
_USUAL_S = 10.0
"""Time constant, s, of the sag: that of 2.5 kg, 14 mrad, changes within seconds."""
_REMEMBERED_S = 600.0
"""Time constant, s, with which the growth that free motions have needed is forgotten."""
_FLOOR = 0.16
"""Smallest threshold of growth, in slow motion, as a share of the allowance."""
_OF_SPEED = 0.75
"""Addition to that threshold at full speed, as a share of the allowance: pushes of 80 N at 0.5 rad/s cause 26 mrad of
growth, where 27 are allowed.
"""
_NEED_OF_SPEED = 0.25
"""Addition to the learned threshold at full speed, as a share of the allowance: hobby arms need 16 mrad at 0.05 rad/s
and 19 mrad at 0.8 rad/s, industrial arms 2 and 7 mrad.
"""
_MARGIN = 2.0
"""Factor by which a quantity may exceed its learned value."""
_UNKNOWN = 0.3
"""Growth, as a share of the allowance, that a joint is assumed to need before it has moved in both directions. Soft
drives need 0.15, hobby arms 0.35, and hobby arms that hang in their play, without reports, 0.6.
"""
_EXERCISED_S = 0.5
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

    A joint is expected where its command was a lag ago. Lag and sag are learned in free motion. The tracking error is
    the distance from all commands within the lags that the joint may have, less its sag. The growth of the error is
    what was added within the last seconds while any joint was commanded to move: in a contact, it goes on as long as
    the command does. The threshold of the growth follows what the robot's own free motions have needed.
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
        self._lag, self._learned, self.usual, self._need, self._peak = np.zeros((5, dof))
        """Learned properties, `[dof]`: lag, s; standard deviation of the velocity from which the lag was learned, rad/s
        (0: not learned); sag, rad; growth that free motions have needed; growth of the excursion in progress. The last
        two are shares of the allowance.
        """
        self._exercised, self._is_new = np.zeros((2, dof)), True
        self.compare_anew()

    def compare_anew(self) -> None:
        """Forget the comparison, but not the learned properties of joints."""
        self._moments, self._weight = np.zeros((4, len(self._lag))), np.zeros(len(self._lag))
        self._compared_ns = 0
        self.forget_command()

    def forget_command(self) -> None:
        """Forget errors and growth, because another motion is executed than the one that was compared."""
        dof = len(self._lag)
        self.error, self.growth, self.off, self._behind, self._speed, self._peak = np.zeros((6, dof))
        self.left = np.zeros(dof)
        """Distance from their command, rad, `[dof]`, at which a brake left joints; it shrinks as they come nearer."""
        self.threshold = np.full(dof, np.inf)
        self._lately: np.ndarray | None = None
        self._before: tuple[np.ndarray, np.ndarray] | None = None
        self.forget_line()

    def forget_line(self) -> None:
        """Forget recorded commands, because the motion was another one than recorded."""
        self._line, self._line_ns = np.zeros((0, len(self._lag))), 0
        """Recorded commands, one every 10 ms, rad, `[n, dof]`, and the time of the first, ns."""

    def is_due(self, stamp_ns: int) -> bool:
        """Return whether a state measured at that time is to be compared: of states at 1 kHz, every fourth is."""
        return not 0 <= stamp_ns - self._compared_ns < _EVERY_NS

    def take(
        self,
        position: np.ndarray,
        stamps_ns: np.ndarray,
        commanded: Callable[[int], State | None],
        allowance: Allowance,
        *,
        free: bool = True,
    ) -> None:
        """Compare measured positions `[dof]` with the commands before their stamps.

        Args:
            position: rad.
            stamps_ns: when each joint was measured.
            commanded: returns the state commanded at a time, ns; None if it is unknown.
            allowance: of the joints.
            free: whether the motion is free, as far as is known: only then properties of joints are learned.

        """
        if len(self._lag) != len(position):
            self._known_dof(len(position))
        newest_ns = int(stamps_ns.max())
        since_ns = newest_ns if self._lately is None else self._compared_ns
        elapsed_s = max(newest_ns - since_ns, 0) * NANOSECOND_S
        self._compared_ns = newest_ns
        if not self._extended(newest_ns, commanded):
            self.forget_command()
            return
        steps = np.diff(self._line[-_SPEED_ROWS:], axis=0) / (_STEP_NS * NANOSECOND_S)
        self._speed = np.where(allowance.watched, np.abs(steps).max(axis=0), 0.0)
        errors = position - self._commanded_at(stamps_ns - self._lags() * SECOND_NS)
        now = self._commanded_at(stamps_ns - np.array([[0.0], [_STEP_NS]]))
        self.commanded, self.off = now[0], position - now[0]
        self.velocity = (now[0] - now[1]) / (_STEP_NS * NANOSECOND_S)
        self._grow(errors, elapsed_s, allowance, free)
        if free:
            self._learn_need(elapsed_s, allowance)
            self._learn_lag(position, stamps_ns, elapsed_s, allowance.full_speed)
        self.held_by = position - self.usual

    def _grow(self, errors: np.ndarray, elapsed_s: float, allowance: Allowance, free: bool) -> None:
        """Set the error, its growth and the threshold of growth from errors `[7, dof]` at the lags of `_lags`."""
        fastest = float((self._speed / allowance.full_speed).max())
        zeros = np.zeros_like(self.usual)
        error = _outside(zeros, -errors)
        if self._is_new:
            self.usual, self._is_new = np.where(np.abs(error) <= _MARGIN * allowance.distance, error, 0.0), False
        if self._lately is None or not fastest:
            self._lately, self._behind = errors, self.off
        else:
            share = 1 - np.exp(-elapsed_s / _LATELY_S)
            self._lately = self._lately + (errors - self._lately) * share
            self._behind = self._behind + (self.off - self._behind) * share
            self.usual = self.usual + free * (error - self.usual) * (1 - np.exp(-elapsed_s / _USUAL_S))
        growth = _outside(zeros, self._lately - errors)
        # A joint that comes nearer to its command does not count as growth.
        nearer = np.maximum(np.sign(growth) * (self.usual - self._behind), 0.0)
        self.growth = np.sign(growth) * np.maximum(np.abs(growth) - nearer, 0.0)
        self.left = np.clip(self.left, np.minimum(error, 0.0), np.maximum(error, 0.0))
        self.error = _outside(error, np.stack([self.usual, zeros, self.left]))
        distance = allowance.distance
        self._share, self._of_speed = np.abs(self.growth) / distance, _NEED_OF_SPEED * min(fastest, 1.0)
        unknown = self._exercised.min(axis=0) < _EXERCISED_S
        # The joints of an arm are alike, and so are those of a base.
        alike = [self._need.max(where=allowance.is_base == kind, initial=0.0) for kind in (False, True)]
        need = np.maximum(np.where(allowance.is_base, *alike[::-1]), np.where(unknown, _UNKNOWN, 0.0))
        most = np.maximum(_MARGIN * need + self._of_speed, _FLOOR + _OF_SPEED * min(fastest, 1.0))
        self.threshold = distance * np.minimum(most, 1.0) if fastest else np.full_like(error, np.inf)

    def _learn_need(self, elapsed_s: float, allowance: Allowance) -> None:
        """Learn growth from excursions that are over: an excursion in contact does not end, or ends with a brake."""
        share = np.maximum(self._share - self._of_speed, 0.0)
        # At rest, nobody knows whether an excursion is over.
        self._peak = np.maximum(self._peak, share) * self._speed.any()
        over = share < self._peak / 2
        kept = np.exp(-elapsed_s / _REMEMBERED_S)
        self._need = np.where(over, np.maximum(self._need, self._peak), self._need * kept)
        self._peak = np.where(over, share, self._peak)
        goes = np.stack([self.velocity, -self.velocity]) > _MOVES * allowance.full_speed
        self._exercised = self._exercised + np.where(goes, elapsed_s, 0.0)

    def _extended(self, until_ns: int, commanded: Callable[[int], State | None]) -> bool:
        """Record commands until a time, at most 13 ms from now; returns False if they are unknown."""
        rows, end_ns = [], self._line_ns + (len(self._line) - 1) * _STEP_NS
        if len(self._line) and until_ns - end_ns < _ROWS * _STEP_NS:
            while end_ns < until_ns:
                end_ns += _STEP_NS
                if (state := commanded(end_ns)) is None:
                    return False
                rows.append(state.position)
            if rows:
                self._line = np.vstack([self._line, *rows])[-_ROWS:]
        else:
            end_ns = -(-until_ns // _STEP_NS) * _STEP_NS
            while len(rows) < _ROWS and (state := commanded(end_ns - len(rows) * _STEP_NS)) is not None:
                rows.append(state.position)
            self._line = np.array(rows[::-1])
        self._line_ns = end_ns - (len(self._line) - 1) * _STEP_NS
        return len(self._line) > 1

    def _commanded_at(self, times_ns: np.ndarray) -> np.ndarray:
        """Return the commanded position of each joint at times `[n, dof]`, ns, interpolated linearly."""
        place = np.clip((times_ns - self._line_ns) / _STEP_NS, 0, len(self._line) - 1)
        row = np.minimum(place.astype(int), len(self._line) - 2)
        joints = np.arange(place.shape[1])
        return self._line[row, joints] + (place - row) * (self._line[row + 1, joints] - self._line[row, joints])

    @property
    def knows_command(self) -> bool:
        """Whether the command at the last measured state is known."""
        return len(self._line) > 0

    @property
    def behind(self) -> np.ndarray:
        """Distance by which moving joints are behind their command, rad, `[dof]`: their lag times their speed."""
        return np.where(self._speed > 0, self.usual - self.off, 0.0)

    def _lags(self) -> np.ndarray:
        """Return seven lags that each joint may have, s, `[7, dof]`, the shortest first.

        They begin at 0: a joint that stood for a moment, and so taught a long lag, follows as before when it goes on.
        """
        known = self._learned > 0
        faster = self._speed / np.where(known, _MARGIN * self._learned, 1.0)
        longest = np.maximum(self._lag + _LAG_SLACK_S, _LONGEST_LAG_S)
        spread = np.where(known, _LAG_SLACK_S * np.maximum(faster, 1.0), longest)
        return _SHARES * np.minimum(self._lag + spread, longest)

    def _learn_lag(self, position: np.ndarray, stamps_ns: np.ndarray, elapsed_s: float, full_speed: np.ndarray) -> None:
        """Learn the lag by linear regression of the error on the velocity, which a constant sag does not change."""
        before, self._before = self._before, (stamps_ns, position)
        if before is None:
            return
        velocity, error = self.velocity, -self.off
        went_s = np.maximum((stamps_ns - before[0]) * NANOSECOND_S, 1e-9)
        goes = np.abs(position - before[1]) / went_s >= _GOES * np.abs(velocity)  # A standing joint has no lag.
        follows = goes & (np.abs(self.growth) <= self.threshold / _MARGIN)
        kept = np.exp(-elapsed_s / _LATELY_S)
        moments = self._moments * kept + np.stack([velocity, error, velocity**2, velocity * error])
        self._moments = np.where(follows, moments, self._moments)
        self._weight = np.where(follows, self._weight * kept + 1.0, self._weight)
        v, e, vv, ve = self._moments / np.maximum(self._weight, 1.0)
        variance = vv - v * v
        # A faster motion teaches more than a slower one.
        least = np.maximum(_MOVES * full_speed, self._learned / _MARGIN)
        learns = follows & (variance > least**2)
        variance = np.where(learns, variance, 1.0)
        lag = (ve - v * e) / variance
        self._lag = np.where(learns, np.clip(lag, 0.0, _MOST_LAG_S), self._lag)
        self._learned = np.where(learns, np.sqrt(variance), self._learned)
        if learns.any():
            self.lag_s = float(self._lag[self._learned.argmax()])


def _outside(values: np.ndarray, within: np.ndarray) -> np.ndarray:
    """Return by how much values `[dof]` exceed the largest of others, `[n, dof]`; negative below the least."""
    return np.maximum(values - within.max(axis=0), 0.0) + np.minimum(values - within.min(axis=0), 0.0)
