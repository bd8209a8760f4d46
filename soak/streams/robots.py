"""The arm of plant.py with its commands recorded: cycle by cycle as it is, or evaluated in blocks, 20 times faster.

Both are the same robot: a test holds them equal to 1e-10. The blocks are polynomials of the plan in execution,
evaluated for the next cycles at once; whatever changes the plan makes the controller evaluate anew from that cycle on.
"""

from __future__ import annotations

from functools import lru_cache
from types import SimpleNamespace

import numpy as np

from .model import Models

SECOND = 1_000_000_000
_BLOCK = 48
"""Cycles evaluated at once; a stream at 50 Hz uses 20 of them."""


@lru_cache(maxsize=4)
def recorded_robots(models: Models) -> tuple[type, type]:
    """The classes of robots: plain (jtc.py itself in each cycle), and in blocks."""
    jtc, plant = models

    class PlainRobot(plant.Robot):
        """A robot that records its commands.

        Args:
            joints: names.
            begin_ns: first cycle.
            cycles: how many will be run at most.
            options: as for plant.Robot.

        """

        def __init__(self, joints, *, begin_ns: int, cycles: int, **options: object) -> None:
            self.cycle = -1
            self.begin_ns = begin_ns
            self.commands = np.zeros((3, cycles, len(joints)))
            """Position, velocity and acceleration commanded in each cycle, for a period later."""
            self.off = np.zeros(cycles, bool)
            """Cycles in which there was no controller."""
            super().__init__(joints, **options)

        @property
        def now_ns(self) -> int:
            """The time of the next cycle."""
            return self.begin_ns + (self.cycle + 1) * self.period

        def step(self) -> None:
            """Run the next cycle."""
            now_ns = self.now_ns
            self.cycle += 1
            self.commands[:, self.cycle] = self.update(now_ns / SECOND)

        def skip(self) -> None:
            """Let a cycle pass without a controller: the arm stands still."""
            self.cycle += 1
            self.off[self.cycle] = True
            self.commands[:, self.cycle] = np.nan
            self._speed = np.zeros(len(self.joints))

    class BlockRobot(PlainRobot):
        """The same, evaluated in blocks."""

        def __init__(self, joints, **options: object) -> None:
            self._filled = 0  # commands before this cycle are evaluated
            self._held = None
            self._rows: _Rows | None = None
            super().__init__(joints, **options)

        @property
        def _state(self):
            if self._held is None:
                self._held = jtc.Point(0, *(self.commands[k, self.cycle].copy() for k in range(3)))
            return self._held

        @_state.setter
        def _state(self, state) -> None:
            self._held = state
            self._filled = 0

        def receive(self, joints, times, positions, velocities=None, accelerations=None, *, now=0.0, stamp=0.0):
            times = np.asarray(times)
            times = times if times.dtype.kind == "i" else np.rint(times * SECOND).astype(np.int64)
            given = positions, velocities, accelerations
            columns = [None if x is None else np.atleast_2d(np.asarray(x, float)) for x in given]
            now_ns, stamp_ns = round(now * SECOND), round(stamp * SECOND)
            self.refusal = self._refusal(list(joints), times, columns, now_ns, stamp_ns)
            if not self.refusal:
                self._waiting = stamp_ns, list(joints), _Rows.of_message(times, *columns)
            return not self.refusal

        def step(self) -> None:
            now_ns = self.now_ns
            taken = self._waiting is not None
            if taken:
                self._take(now_ns)
            plan = self._plan
            if plan is not None:
                if plan.sampled:
                    self._clock += self.period
                else:
                    self._join(now_ns)
                    self._rows.begin(self._before, plan.start)
                    self._filled = 0
                self._commanded_at = now_ns
            state = self._held
            self.cycle += 1
            k = self.cycle
            if k >= self._filled:
                end = min(k + _BLOCK, self.commands.shape[1])
                if plan is None:
                    self.commands[:, k:end] = np.stack([state.position, state.velocity, state.acceleration])[:, None]
                else:
                    times = self._clock + self.period + np.arange(end - k) * self.period
                    self.commands[:, k:end] = self._rows.states(times)
                self._filled = end
            self._held = None if plan is not None else state
            self._move(k)

        def skip(self) -> None:
            state = self._state
            super().skip()
            self._state = state

        def _move(self, k: int) -> None:
            """The arm follows, as in plant.Robot.update."""
            if self.frozen:
                self._speed = np.zeros(len(self.joints))
                return
            commands = self._commands
            commands.append(self.commands[0, k])
            if len(commands) > self.lag + 500:
                self._commands = commands = commands[-self.lag - 2 :]
            last = len(commands) - 1 - self.lag
            self._place = place = commands[max(last, 0)]
            if self.lag == 0:
                self._speed = self.commands[1, k]
            else:
                self._speed = (place - commands[max(last - 1, 0)]) * (SECOND / self.period)

        def _take(self, now_ns: int) -> None:
            stamp_ns, names, rows = self._waiting
            blends = not self.hard and self._plan is not None and len(self._plan.points) > 1
            if blends or names != self.joints:
                self._waiting = stamp_ns, names, rows.points(jtc.Point)
                super()._take(now_ns)
                self._rows = _Rows.of_points(self._plan.points)
                return
            self._waiting = None
            self._rows = rows
            self._plan = _Plan(stamp_ns, rows, jtc.Point)

    return PlainRobot, BlockRobot


class _Plan(SimpleNamespace):
    """As jtc.Plan, with its points made only where they are asked for."""

    def __init__(self, start: int, rows: _Rows, point: type) -> None:
        super().__init__(start=start, sampled=False, rows=rows, point=point)

    @property
    def points(self) -> list:
        return self.rows.points(self.point)


class _Rows:
    """The points of a plan as arrays, and the motion between them.

    Args:
        times: of the points from the start of the plan, ns `[N]`.
        states: position, velocity and acceleration `[3, N, D]`.
        known: whether the points have each of them `[3, N]`.

    """

    def __init__(self, times: np.ndarray, states: np.ndarray, known: np.ndarray) -> None:
        self.times, self.values, self.known = times, states, known
        self._points: list | None = None

    @staticmethod
    def of_message(times: np.ndarray, *columns: np.ndarray | None) -> _Rows:
        known = np.array([np.full(len(times), column is not None) for column in columns])
        nothing = np.zeros_like(columns[0])
        return _Rows(times, np.array([nothing if column is None else column for column in columns]), known)

    @staticmethod
    def of_points(points: list) -> _Rows:
        columns = [(p.position, p.velocity, p.acceleration) for p in points]
        known = np.array([[part is not None for part in row] for row in columns]).T
        states = np.array([[np.zeros_like(row[0]) if part is None else part for part in row] for row in columns])
        return _Rows(np.array([p.time for p in points], np.int64), states.transpose(1, 0, 2), known)

    def points(self, point: type) -> list:
        """The points one by one."""
        if self._points is None:
            self._points = [
                point(int(time), *(self.values[k, i] if self.known[k, i] else None for k in range(3)))
                for i, time in enumerate(self.times)
            ]
        return self._points

    def begin(self, before: object, start_ns: int) -> None:
        """Say from which state the first point is joined, and when the plan starts."""
        first = np.stack([before.position, before.velocity, before.acceleration])
        self._all_times = np.concatenate([[before.time], start_ns + self.times])
        self._all = np.concatenate([first[:, None], self.values], axis=1)
        self._has = np.concatenate([np.ones((3, 1), bool), self.known], axis=1)

    def states(self, times: np.ndarray) -> np.ndarray:
        """Position, velocity and acceleration `[3, T, D]` at increasing times, ns."""
        count = len(self.times)
        piece = np.searchsorted(self._all_times[1:], times, side="right")
        out = np.empty((3, len(times), self.values.shape[2]))
        over = int(np.searchsorted(piece, count))
        if over < len(times):
            last = self.values[:, -1] * self.known[:, -1, None]
            out[:, over:] = last[:, None]
        if over == 0:
            return out
        low, high = int(piece[0]), int(piece[over - 1]) + 1
        span = (self._all_times[low + 1 : high + 1] - self._all_times[low:high])[:, None] / SECOND
        states = self._all[:, low : high + 1]
        quintic = self._has[:, low : high + 1].all(axis=0)
        with_velocity = self._has[1, low : high + 1]
        coefficients = _coefficients(span, states, quintic[:-1] & quintic[1:], with_velocity[:-1] & with_velocity[1:])
        piece = piece[:over]
        t = ((times[:over] - self._all_times[piece]) / SECOND)[:, None]
        c = coefficients[:, piece - low]
        out[0, :over] = ((((c[5] * t + c[4]) * t + c[3]) * t + c[2]) * t + c[1]) * t + c[0]
        out[1, :over] = (((5 * c[5] * t + 4 * c[4]) * t + 3 * c[3]) * t + 2 * c[2]) * t + c[1]
        out[2, :over] = ((20 * c[5] * t + 12 * c[4]) * t + 6 * c[3]) * t + 2 * c[2]
        return out


def _coefficients(span: np.ndarray, states: np.ndarray, quintic: np.ndarray, cubic: np.ndarray) -> np.ndarray:
    """Of the polynomials between points `[6, N - 1, D]`: quintic, without accelerations cubic, else linear."""
    (p0, v0, a0), (p1, v1, a1) = states[:, :-1], states[:, 1:]
    out = np.zeros((6, *p0.shape))
    p, v, a = p1 - p0 - v0 * span - a0 * span**2 / 2, v1 - v0 - a0 * span, a1 - a0
    out[0], out[1], out[2] = p0, v0, a0 / 2
    out[3] = (10 * p - 4 * v * span + a * span**2 / 2) / span**3
    out[4] = (-15 * p + 7 * v * span - a * span**2) / span**4
    out[5] = (6 * p - 3 * v * span + a * span**2 / 2) / span**5
    if not quintic.all():
        p, v = p1 - p0 - v0 * span, v1 - v0
        other = ~quintic
        out[2:, other] = 0.0
        out[2, other] = ((3 * p - v * span) / span**2)[other]
        out[3, other] = ((-2 * p + v * span) / span**3)[other]
        linear = ~cubic
        out[1:, linear] = 0.0
        out[1, linear] = ((p1 - p0) / span)[linear]
    return out
