"""Tracking monitor: the tracking error of each joint, and the growth of that error. Knows no ROS."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, ROUNDING, SECOND_NS
from ..parameters.parameters import NodeParameters
from ..parameters.table import BASE, BINARY, GRIPPER
from .measured import MeasuredState, outside

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
"""Shortest time between two comparisons, ns: of joint states at 1 kHz, every fourth is compared."""
_MOVES = 0.01
"""Share of full speed from which on a joint counts as moving: smaller changes of velocity teach no lag."""
_GOES = 0.3
"""Share of the commanded speed from which on a joint counts as following: a standing joint teaches no lag."""
_LATELY_S = 2.0
"""Time constant, s, of the recent error, on which growth counts: 0.03 rad/s exceed the least threshold in 0.51 s."""
_USUAL_S = 10.0
"""Time constant, s, of the sag: that of 2.5 kg, 14 mrad, changes within seconds."""
_REMEMBERED_S = 600.0
"""Time constant, s, with which the growth that free motions have needed is forgotten."""
_FLOOR = 0.16
"""Smallest threshold of growth, in slow motion, as a share of the allowance."""
_OF_SPEED = 0.75
"""Addition to it at full speed, as a share: pushes of 80 N at 0.5 rad/s cause 26 mrad of growth; 27 are allowed."""
_NEED_OF_SPEED = 0.25
"""Addition to the learned threshold at full speed, as a share: hobby arms need 3 mrad more at 0.8 rad/s."""
_MARGIN = 2.0
"""Factor by which a quantity may exceed its learned value."""
_UNKNOWN = 0.3
"""Growth, as a share, that a joint is assumed to need at first: soft drives need 0.15, hobby arms 0.35 to 0.6."""
_EXERCISED_S = 0.5
"""Time of motion in each direction, s, after which a joint has shown its play."""

Commanded = Callable[[int], State | None]
"""Returns the state commanded at a time, ns; None if it is unknown."""


class Allowance(NamedTuple):
    """Allowed distances of joints from their command, rad or m, `[dof]`; infinite: any."""

    distance: np.ndarray
    """Largest tracking error; infinite for grippers and what is switched."""
    full_speed: np.ndarray
    """Full speed, rad/s or m/s, below which the error may grow less; infinite for grippers and what is switched."""
    start: np.ndarray
    """Largest distance from the robot at which a plan may begin."""
    grip: np.ndarray
    """Distance from which on a gripper that stands counts as held back; infinite for other joints."""
    is_base: np.ndarray
    """Joints of a base, bool: what their free motions need is learned apart from the arm."""

    @property
    def watched(self) -> np.ndarray:
        """Joints of arm and base, bool `[dof]`."""
        return np.isfinite(self.full_speed)


def allowance_of(parameters: NodeParameters) -> Allowance:
    """Return the allowance: `supervision.deviation`, scaled by the range of joints with less than 1 rad or m."""
    low, high = parameters.joint_limits.range_of("position")
    size = np.ones(len(parameters.joint_names)) if low is None or high is None else np.minimum(high - low, 1.0)
    grips, deviation = parameters.of_kind(GRIPPER), parameters.supervision_deviation * size
    deviation = np.where(deviation > 0, deviation, np.inf)  # The parameters' 0 allows any.
    start = np.full_like(size, parameters.limits_start_deviation or np.inf)
    of_joints = np.where(grips | parameters.of_kind(BINARY), np.inf, [deviation, size, start])
    return Allowance(*of_joints, np.where(grips, deviation, np.inf), parameters.of_kind(BASE))


class TrackingMonitor:
    """Compares joints with their command: tracking error, its growth, and the threshold of that.

    A joint is expected where its command was a lag ago. Lag and sag are learned in free motion. The tracking error is
    the distance from all commands within the lags that the joint may have, less its sag. The growth of the error is
    what was added within the last seconds while any joint was commanded to move: in a contact, it goes on as long as
    the command does. The threshold of the growth follows what the robot's own free motions have needed.
    """

    def __init__(self, dof: int = 0) -> None:
        self.lag_s: float | None = None
        """Lag of the joint whose lag is known best, s; None if none is known."""
        self._lag, self._learned, self.usual, self._need = np.zeros((4, dof))
        """Learned properties, `[dof]`: lag, s; standard deviation of the velocity from which the lag was learned, rad/s
        (0: not learned); sag, rad; growth that free motions have needed, as a share of the allowance.
        """
        self._exercised, self._is_new = np.zeros((2, dof)), True
        self.commanded, self.velocity = np.zeros((2, dof))
        """Position and velocity commanded at the last measured state, rad and rad/s, `[dof]`."""
        self.forget_command()

    def forget_command(self) -> None:
        """Forget all but learned properties, because another motion is executed than the one that was compared."""
        dof = len(self._lag)
        self.error, self.growth, self.off, self.left, self._speed, self._peak = np.zeros((6, dof))
        """Tracking error at the last measured state, and its growth, rad or m; distance from the command, rad; distance
        at which a brake left joints, which shrinks as they come nearer; fastest recent command, rad/s; growth of the
        excursion in progress, as a share of the allowance.
        """
        self.threshold, self._moments, self._compared_ns = np.full(dof, np.inf), np.zeros((5, dof)), 0
        self._lately: np.ndarray | None = None
        self._before: tuple[np.ndarray, np.ndarray] | None = None
        self.forget_line()

    def forget_line(self) -> None:
        """Forget recorded commands, because the motion was another one than recorded."""
        self._line, self._end_ns = np.zeros((0, len(self._lag))), 0
        """Recorded commands, one every 10 ms, rad, `[n, dof]`, and the time of the last, ns."""

    def take(self, state: MeasuredState, commanded: Commanded, allowance: Allowance, *, free: bool) -> bool:
        """Compare a measured state with the commands before, if they are known: return whether it was compared.

        The monitor learns while the motion is `free` as far as is known.
        """
        position, newest_ns, stamps_ns = state.position, state.stamp_ns, state.stamps_ns
        if 0 <= newest_ns - self._compared_ns < _EVERY_NS:
            return False
        elapsed_s = 0.0 if self._lately is None else max(newest_ns - self._compared_ns, 0) * NANOSECOND_S
        self._record(newest_ns, commanded)
        if len(self._line) < 2:
            self.forget_command()
            return False
        self._compared_ns = newest_ns
        steps = np.diff(self._line[-_SPEED_ROWS:], axis=0) / (_STEP_NS * NANOSECOND_S)
        self._speed = np.where(allowance.watched, np.abs(steps).max(axis=0), 0.0)
        errors = position - self._commanded_at(stamps_ns - self._lags() * SECOND_NS)
        self.commanded, before = self._commanded_at(stamps_ns - np.array([[0.0], [_STEP_NS]]))
        self.velocity, self.off = (self.commanded - before) / (_STEP_NS * NANOSECOND_S), position - self.commanded
        self._grow(errors, elapsed_s, allowance, free)
        if free:
            self._learn_lag(position, stamps_ns, elapsed_s, allowance.full_speed)
        return True

    def _grow(self, errors: np.ndarray, elapsed_s: float, allowance: Allowance, free: bool) -> None:
        """Set error, growth and its threshold, and learn that, from errors `[7, dof]` at the lags of `_lags`."""
        fastest = float((self._speed / allowance.full_speed).max())
        zeros, distance = np.zeros_like(self.usual), allowance.distance
        error = outside(zeros, -errors)
        if self._is_new:
            self.usual, self._is_new = np.where(np.abs(error) <= _MARGIN * distance, error, 0.0), False
        if self._lately is None or not fastest:
            self._lately = errors
        else:
            self._lately = self._lately + (errors - self._lately) * (1 - np.exp(-elapsed_s / _LATELY_S))
            # A joint that is held, or still stands where a brake left it, teaches no sag.
            follows = free & (np.abs(self.growth) <= self.threshold / _MARGIN)
            follows &= np.abs(self.left) <= np.abs(self.usual)
            self.usual = self.usual + follows * (error - self.usual) * (1 - np.exp(-elapsed_s / _USUAL_S))
        growth = outside(zeros, self._lately - errors)
        # A joint that comes nearer to its command, which is its place without a lag, does not count as growth.
        nearer = np.maximum(np.sign(growth) * (self.usual - self._lately[0]), 0.0)
        self.growth = np.sign(growth) * np.maximum(np.abs(growth) - nearer, 0.0)
        self.left = np.clip(self.left, np.minimum(error, 0.0), np.maximum(error, 0.0))
        self.error = outside(error, np.stack([self.usual, zeros, self.left]))
        share, of_speed = np.abs(self.growth) / distance, _NEED_OF_SPEED * min(fastest, 1.0)
        unknown = np.where(self._exercised.min(axis=0) < _EXERCISED_S, _UNKNOWN, 0.0)
        alike = allowance.is_base == allowance.is_base[:, None]  # The joints of an arm, and those of a base.
        need = np.maximum((self._need * alike).max(axis=1), unknown)
        most = np.maximum(_MARGIN * need + of_speed, _FLOOR + _OF_SPEED * min(fastest, 1.0))
        self.threshold = distance * np.minimum(most, 1.0) if fastest else np.full_like(error, np.inf)
        if not free:
            return
        # Growth is learned from excursions that are over, which nobody knows at rest: one in contact does not end.
        share = np.maximum(share - of_speed, 0.0)
        self._peak = np.maximum(self._peak, share) * self._speed.any()
        over = share < self._peak / 2
        kept = np.exp(-elapsed_s / _REMEMBERED_S)
        self._need = np.where(over, np.maximum(self._need, self._peak), self._need * kept)
        self._peak = np.where(over, share, self._peak)
        goes = np.stack([self.velocity, -self.velocity]) > _MOVES * allowance.full_speed
        self._exercised = self._exercised + np.where(goes, elapsed_s, 0.0)

    def _record(self, until_ns: int, commanded: Commanded) -> None:
        """Record commands until a time, at most 13 ms from now; none before a time at which they are unknown."""
        if until_ns - self._end_ns >= _ROWS * _STEP_NS:
            self.forget_line()
            rows = 0 if commanded(until_ns) is None else _ROWS
            self._end_ns = (until_ns // _STEP_NS - rows) * _STEP_NS
        while self._end_ns < until_ns:
            self._end_ns += _STEP_NS
            state = commanded(self._end_ns)
            self._line = self._line[:0] if state is None else np.vstack([self._line, state.position])[-_ROWS:]

    def _commanded_at(self, times_ns: np.ndarray) -> np.ndarray:
        """Return the commanded position of each joint at times `[n, dof]`, ns, interpolated linearly."""
        last = len(self._line) - 1
        place = np.clip(last + (times_ns - self._end_ns) / _STEP_NS, 0, last)
        row = np.minimum(place.astype(int), last - 1)
        joints = np.arange(place.shape[1])
        return self._line[row, joints] + (place - row) * (self._line[row + 1, joints] - self._line[row, joints])

    @property
    def behind(self) -> np.ndarray:
        """Distance by which joints are behind their command without their sag, rad, `[dof]`."""
        return self.usual - self.off

    def _lags(self) -> np.ndarray:
        """Return seven lags that each joint may have, s, `[7, dof]`, the shortest first.

        They begin at 0: a joint that stood for a moment, and so taught a long lag, follows as before when it goes on.
        """
        faster = self._speed / (_MARGIN * np.maximum(self._learned, ROUNDING))
        longest = np.maximum(self._lag + _LAG_SLACK_S, _LONGEST_LAG_S)
        spread = _LAG_SLACK_S * np.maximum(faster, 1.0)
        return _SHARES * np.minimum(self._lag + spread, longest)

    def _learn_lag(self, position: np.ndarray, stamps_ns: np.ndarray, elapsed_s: float, full_speed: np.ndarray) -> None:
        """Learn the lag by linear regression of the error on the velocity, which a constant sag does not change."""
        before, before_ns = self._before or (position, stamps_ns)
        self._before, velocity, error = (position, stamps_ns), self.velocity, -self.off
        went_s = np.maximum((stamps_ns - before_ns) * NANOSECOND_S, NANOSECOND_S)
        goes = np.abs(position - before) / went_s >= _GOES * np.abs(velocity)  # A standing joint has no lag.
        follows = goes & (np.abs(self.growth) <= self.threshold / _MARGIN)
        new = np.stack([np.ones_like(error), velocity, error, velocity**2, velocity * error])
        self._moments = np.where(follows, self._moments * np.exp(-elapsed_s / _LATELY_S) + new, self._moments)
        _, v, e, vv, ve = self._moments / np.maximum(self._moments[0], 1.0)
        variance = vv - v * v
        # A faster motion teaches more than a slower one.
        learns = follows & (variance > np.maximum(_MOVES * full_speed, self._learned / _MARGIN) ** 2)
        variance = np.where(learns, variance, 1.0)
        self._lag = np.where(learns, np.clip((ve - v * e) / variance, 0.0, _MOST_LAG_S), self._lag)
        self._learned = np.where(learns, np.sqrt(variance), self._learned)
        if learns.any():
            self.lag_s = float(self._lag[self._learned.argmax()])
