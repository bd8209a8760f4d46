"""Whether the robot follows its command, and until when it is braked where it does not. Knows no ROS."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from ..execution.motion import State
from ..execution.tolerances import NANOSECOND_S, RESTS, SECOND_NS, whole_ns
from .allowance import SLOW, Allowance
from .robot_clock import Slack

LONGEST_LAG_S = 0.12
"""While nothing is known about the lag of a joint, it may be where the command was up to so long ago."""
_LAG_SLACK_S, _LAG_SLACK = 0.015, 0.25
"""By how much a lag that was learned may be another one: stamps of cycles, and arms that are no mere delays."""
_AHEAD_S = 3e-3
"""By how much a robot may seem to be ahead of its command: by a cycle, and by when its stamp is taken."""
_LEARNED_OVER = 2.0
"""A lag is known up to so many standard deviations of the velocity from which it was learned."""
_STEP_NS = 10_000_000
"""From one row of what was commanded to the next: between them it is interpolated."""
_WITHIN_S = 0.3
"""Motion within this time is compared: what an arm hangs low, or was pushed away, is not in it."""
_OLDER_S = 0.5
"""By how much a joint with a publisher of its own may have been measured before the others."""
_ROWS = whole_ns(_WITHIN_S + 2 * LONGEST_LAG_S + _OLDER_S) // _STEP_NS
_FASTEST_ROWS = whole_ns(_WITHIN_S + 0.06) // _STEP_NS
"""Rows for the speed of joints: one that stood for a moment and has caught up is allowed as much as when it stood."""
_LATELY = 0.3
"""Share of what is missing that is so in the second half of the time, too: otherwise the joint has caught up."""
_SHARES = np.linspace(0.0, 1.0, 7)[:, None]
"""Shares of the span of lags of a joint, at which the command is compared."""
_EVERY_NS = 3_500_000
"""A robot that reports at 1 kHz is compared every 4 ms: that is more often than anybody looks."""
_FORGETTING = 0.995
_LEAST_WEIGHT = 10
"""Share of what was learned that is kept at each comparison, and after how many a lag is known."""
_MOVES = 1e-4
"""Variance of velocity, relative to full speed, below which nothing is said about the lag."""
_FOLLOWS_S = 0.02
"""A joint whose motion is short of its command by more than it goes in this time says nothing about the lag."""
_GOES = 0.3
"""Share of the commanded speed from which a joint goes: with less, a lag is not learned."""
_REST_S = 0.1
"""For which a robot has to stand to be at rest."""
_STAYS_S = 1.0
"""A robot that stood still comes back to a command that is held by then, if it does."""
_USUAL_S = 1.0
"""Time within which a joint may come to hang otherwise."""
_HANGS_S = 0.01
"""Full speed times this is the most by which an arm is taken to hang otherwise than usual."""
_REMEMBERED_NS, _REMEMBERED = 750_000_000, 5
"""Period and number of what is remembered of how joints hang: longer than a slow contact is not noticed."""


class _Seen(NamedTuple):
    """A measured state: when, and when each joint, `[dof]`; and where."""

    newest_ns: int
    stamps_ns: np.ndarray
    position: np.ndarray
    away: np.ndarray
    """Distance outside of what was commanded within the lags that it may have, rad."""
    off: np.ndarray
    """Distance beside its command, lag included, but for what is usual, rad."""


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
    """Compares the robot with its command, and decides when it is braked because it does not follow, and until when.

    A joint is where its command was a lag ago, which is learned for each joint while its speed changes, and up to
    0.12 s until then. It deviates by its distance from what was commanded within the lags that it may have; and by how
    much the motion of the last 0.3 s was another one, which an arm that hangs low does not change. A deviation is held
    against the robot until its command and its joints rest. Where it begins away from its command, which a plan may do
    that leads back to it, that distance is allowed, and shrinks with it.
    """

    def __init__(self, held: bool = False) -> None:
        self.deviation = np.zeros(0)
        """rad, `[dof]`, of the last measured state."""
        self.lag_s: float | None = None
        """By how much the joint that says most about it lags behind its command; None: not known."""
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
        self._allowed: np.ndarray | None = None
        self.stood = False
        """Whether a joint stood, and nothing has been begun since where it stands."""
        self.yields = Yields()
        self._resting_since_ns = 0
        self._lag, self._learned, self._usual = np.zeros((3, 0))
        """s; the standard deviation of velocity that it was learned from, rad/s, or 0: it is not known; and how far
        joints are beside their command where they follow, rad.
        """
        self._slack = Slack()
        self._usual_before: deque[tuple[int, np.ndarray]] = deque(maxlen=_REMEMBERED)
        self.held_by = np.zeros(0)
        """Command, rad, `[dof]`, by which joints stay where they were measured last."""
        self._compare_anew(0)

    def _compare_anew(self, dof: int) -> None:
        """Forget the comparison; the lag of the joints stays what it was."""
        self._moments, self._weight = np.zeros((4, dof)), np.zeros(dof)
        self._compared_ns = 0
        self.forget_command(dof)

    def forget_command(self, dof: int | None = None) -> None:
        """What was commanded is not executed any more, or another motion is than the one before."""
        dof = len(self.deviation) if dof is None else dof
        self.deviation, self._away, self._off, self._short, self._speed = np.zeros((5, dof))
        self._line, self._line_ns = np.zeros((0, dof)), 0
        """What was commanded every 10 ms, and when that begins."""
        self._begun_ns = 0
        """When the first state was measured since a motion is compared anew."""
        self._seen: deque[_Seen] = deque()

    def forget_line(self) -> None:
        """What was commanded lately is known to be another motion than was taken down: look it up again."""
        self._line, self._line_ns = self._line[:0], 0

    def set_clock(self, now_ns: int) -> None:
        """The clock was set: nothing is known of what was before."""
        self._compare_anew(len(self.deviation))
        self._resting_since_ns = now_ns

    def is_due(self, stamp_ns: int) -> bool:
        """Whether a state measured then is to be compared: of those that come faster than every 4 ms, most are not."""
        return not 0 <= stamp_ns - self._compared_ns < _EVERY_NS

    def take(
        self,
        position: np.ndarray,
        velocity: np.ndarray,
        stamps_ns: np.ndarray,
        commanded: Callable[[int], State | None],
        full_speed: np.ndarray,
        slack: Slack,
    ) -> None:
        """Compare a measured state `[dof]` with what was commanded before its stamps.

        Args:
            position: rad.
            velocity: rad/s.
            stamps_ns: when each joint was measured.
            commanded: state commanded at a time, ns; None: not known.
            full_speed: see `Allowance`.
            slack: of the stamps.

        """
        self._slack = slack
        if len(self.deviation) != len(position):
            self._lag, self._learned, self._usual = np.zeros((3, len(position)))
            self._compare_anew(len(position))
        newest_ns = int(stamps_ns.max())
        self._compared_ns = newest_ns
        if self._extended(newest_ns + whole_ns(_AHEAD_S + slack.early), commanded):
            self._compare(position, stamps_ns, newest_ns, full_speed)
            if self._allowed is not None:
                self._allowed = np.minimum(self._allowed, self.deviation)
        else:
            self.forget_command()
        if (np.abs(velocity) > RESTS * full_speed).any():
            self._resting_since_ns = newest_ns

    def _extended(self, until_ns: int, commanded: Callable[[int], State | None]) -> bool:
        """Know what was commanded up to a time, which may be up to 13 ms from now; False: that is not known."""
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
        """Positions at times `[n, dof]` of each joint, linear between 10 ms; before the first, that."""
        place = np.clip((times_ns - self._line_ns) / _STEP_NS, 0, len(self._line) - 1)
        row = np.minimum(place.astype(int), len(self._line) - 2)
        joints = np.arange(place.shape[1])
        return self._line[row, joints] + (place - row) * (self._line[row + 1, joints] - self._line[row, joints])

    def _compare(self, position: np.ndarray, stamps_ns: np.ndarray, newest_ns: int, full_speed: np.ndarray) -> None:
        steps = np.diff(self._line[-_FASTEST_ROWS:], axis=0) / (_STEP_NS * NANOSECOND_S)
        self._speed = np.abs(steps).max(axis=0)
        lags_ns = self._lags() * SECOND_NS
        then = self._commanded_at(stamps_ns - lags_ns)
        self._away = _outside(position, then)
        self.deviation = np.abs(self._away)
        seen = self._seen
        while seen and newest_ns - seen[0].newest_ns > _WITHIN_S * SECOND_NS:
            seen.popleft()
        now = self._commanded_at(stamps_ns - np.array([[0.0], [_STEP_NS]]))
        self._off, self.held_by = position - now[0], position - self._usual
        self._short = np.zeros_like(position)
        if seen:
            whole, half = (
                _outside(position - before, then - self._commanded_at(their_stamps_ns - lags_ns))
                for their_stamps_ns, before in ((it.stamps_ns, it.position) for it in (seen[0], seen[len(seen) // 2]))
            )
            nearer = np.minimum(np.abs(whole), np.maximum(-np.sign(whole) * seen[0].off, 0.0))
            whole -= np.sign(whole) * nearer  # what brought it towards its command is no deviation
            self._short = np.where(np.abs(half) > _LATELY * np.abs(whole), whole, 0.0)
        moved = self._speed if not seen else _speed_between(seen[-1], stamps_ns, position)
        if not seen or newest_ns - seen[-1].newest_ns >= _STEP_NS:
            if not self.stood and self._allowed is None:
                if seen:
                    share = min((newest_ns - seen[-1].newest_ns) * NANOSECOND_S / _USUAL_S, 1.0)
                    most = _HANGS_S * full_speed  # an arm that stands while its controller restarts does not hang
                    self._usual = self._usual + share * np.clip(self._away - self._usual, -most, most)
                    if not self._usual_before or newest_ns - self._usual_before[-1][0] > _REMEMBERED_NS:
                        self._usual_before.append((newest_ns, self._usual))
                else:  # an arm that is where its controller has just begun may yet come to hang as before
                    self._usual = np.where(np.abs(self._away) > np.abs(self._usual), self._away, self._usual)
            self._begun_ns = self._begun_ns if seen else newest_ns
            seen.append(_Seen(newest_ns, stamps_ns, position, self._away, self._off - self._usual))
        velocity = (now[0] - now[1]) / (_STEP_NS * NANOSECOND_S)
        goes = moved >= _GOES * np.abs(velocity)  # one that stands has no lag, but does not follow
        self._learn_lag(velocity, -self._off, full_speed, goes)

    @property
    def behind(self) -> np.ndarray:
        """Distance by which joints in motion are behind their command, rad, `[dof]`: their lag times their speed."""
        return np.where(self._speed > 0, self._usual - self._off, 0.0)

    def _lags(self) -> np.ndarray:
        """Lags that each joint may have, s, `[7, dof]`, the shortest first.

        None is too short: a joint that stood for a moment, which taught a long one, follows as before when it goes on.
        """
        known = self._learned > 0
        slack = np.maximum(_LAG_SLACK_S, _LAG_SLACK * self._lag)
        faster = np.where(known, self._speed / np.where(known, _LEARNED_OVER * self._learned, 1.0), 1.0)
        most = LONGEST_LAG_S + self._slack.late
        longest = np.where(known, np.maximum(self._lag + slack, most), most)
        slack = np.where(known, slack * np.maximum(faster, 1.0), longest)
        low = -_AHEAD_S - self._slack.early
        return low + _SHARES * (np.minimum(self._lag + slack, longest) - low)

    def _learn_lag(self, velocity: np.ndarray, error: np.ndarray, full_speed: np.ndarray, goes: np.ndarray) -> None:
        """By linear regression of the error on the velocity, old values forgotten; a droop does not count."""
        follows = goes & (np.abs(self._short) <= _FOLLOWS_S * self._speed)
        moments = self._moments * _FORGETTING + np.stack([velocity, error, velocity**2, velocity * error])
        self._moments = np.where(follows, moments, self._moments)
        self._weight = np.where(follows, self._weight * _FORGETTING + 1.0, self._weight)
        v, e, vv, ve = self._moments / np.maximum(self._weight, 1.0)
        variance = vv - v * v
        # What was learned from a faster motion says more than what a slower one does.
        least = np.maximum(_MOVES * full_speed**2, self._learned**2 / 4)
        learns = follows & (self._weight > _LEAST_WEIGHT) & (variance > least)
        self._lag = np.where(learns, np.maximum((ve - v * e) / np.where(learns, variance, 1.0), 0.0), self._lag)
        self._learned = np.where(learns, np.sqrt(np.maximum(variance, 0.0)), self._learned)
        if learns.any():
            self.lag_s = float(self._lag[self._learned.argmax()])

    def exceeded(self, allowance: Allowance, names: tuple[str, ...]) -> Finding | None:
        """The joint that is furthest beyond the allowance; None: none is."""
        if not len(self.deviation) or not allowance.distance.all():
            return None
        if self._allowed is not None and self._seen and not _beside(self._away, self._usual, allowance):
            self._allowed = None
        distance, short = allowance.distance, np.abs(self._short)
        if self._allowed is not None:
            more = np.where(self._allowed > distance, self._allowed + distance / 2, 0.0)
            distance = np.maximum(distance, more)
        begins = bool(self._seen) and self._seen[0].newest_ns == self._begun_ns
        # Where a motion begins, or is led back to, a joint may move as it likes to where it usually is.
        if begins or (self._seen and self._allowed is not None):
            now, then = (np.abs(away - self._usual) for away in (self._away, self._seen[0].away))
            short = np.minimum(short, now - then)
        missing = allowance.of_motion(self._speed)
        beyond = np.stack([self.deviation / distance, short / missing])
        kind, joint = np.unravel_index(beyond.argmax(), beyond.shape)
        if beyond[kind, joint] <= 1.0:
            return None
        found, allowed, what = (
            (self.deviation, distance, "is {:.4g} away from its command"),
            (short, missing, "moved {:.4g} otherwise than commanded"),
        )[kind]
        told = what.format(found[joint])
        parameter = "(parameter supervision.deviation)"
        return Finding(f"{names[joint]} {told}, expected at most {allowed[joint]:.4g} {parameter}", int(joint))

    def is_away(self, allowance: Allowance) -> bool:
        """Whether a joint stood, and is away from its command, which rests, yet: further than it was before."""
        return self.stood and (
            _beside(self._off, self._usual, allowance) or bool((self.deviation > allowance.distance).any())
        )

    def of_place(self, allowance: Allowance) -> tuple[np.ndarray, np.ndarray]:
        """Where joints usually are beside their command, rad, and by how much more they may be where a motion begins.

        After a brake because one of them stood, that is less: nothing is to lead further away from one that stands.
        """
        if not self.stood:
            return np.zeros_like(allowance.distance), allowance.distance
        return self._usual, SLOW * allowance.distance

    def allow(self, gap: np.ndarray | None) -> None:
        """A motion begins, this far from the command, rad, `[dof]`; None: where the robot is."""
        self.stood = False
        if gap is not None:
            self._allowed = gap.copy()

    @contextmanager
    def unchanged(self) -> Iterator[None]:
        """Allow, within, what is then allowed no more."""
        before = self._allowed, self.stood
        try:
            yield
        finally:
            self._allowed, self.stood = before

    def brake(self, finding: Finding) -> None:
        """The robot is braked for a reason."""
        self.reason, self.joint = finding
        self.brakes += 1
        self.stood = self.joint >= 0
        self.yields = Yields()
        if self.stood and self._usual_before:  # since then, it may have been pressed against something
            self._usual = self._usual_before[0][1]

    def rests(self, now_ns: int, away: bool = False) -> bool:
        """Whether the joints have been at rest for a moment; `away` from their command, for so long that they stay."""
        return (now_ns - self._resting_since_ns) * NANOSECOND_S >= (_STAYS_S if away else _REST_S)

    def recover(self, *, away: bool) -> None:
        """The robot rests: the next sequence may begin where it is."""
        self.reason, self.joint = "", -1
        self._allowed = None
        self.stood = away or self.yields.count > 0
        self._compare_anew(len(self.deviation))


def _beside(away: np.ndarray, usual: np.ndarray, allowance: Allowance) -> bool:
    """Whether a joint is elsewhere beside its command than it usually is."""
    return bool((np.abs(away - usual) > SLOW * allowance.distance).any())


def _outside(values: np.ndarray, within: np.ndarray) -> np.ndarray:
    """By how much values `[dof]` are above the largest, or (negative) below the least of others, `[n, dof]`."""
    return np.maximum(values - within.max(axis=0), 0.0) + np.minimum(values - within.min(axis=0), 0.0)


def _speed_between(before: _Seen, stamps_ns: np.ndarray, position: np.ndarray) -> np.ndarray:
    """Mean speed of joints since a state that was seen, rad/s, `[dof]`; infinite where none was measured since."""
    elapsed_ns, way = stamps_ns - before.stamps_ns, np.abs(position - before.position)
    return np.where(elapsed_ns > 0, way / (np.maximum(elapsed_ns, 1) * NANOSECOND_S), np.inf)
