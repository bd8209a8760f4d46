"""The arm of plant.py with its commands recorded: cycle by cycle as it is, or evaluated in blocks, 20 times faster.

Both are the same robot, as a test holds. Blocks are what ControllerModel commands in the next cycles; whatever changes
the plan makes it evaluate anew from that cycle on. A controller that blends is always run cycle by cycle.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.points import Points
from traj_integrator_ros.tools.controller_model import ControllerModel

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
        """The same, evaluated in blocks; all messages have all joints."""

        def __init__(self, joints, **options: object) -> None:
            super().__init__(joints, **options)
            self._begin()

        def set_state(self, *state) -> None:
            super().set_state(*state)
            self._begin()

        def restart(self) -> None:
            super().restart()
            self._begin()

        def _begin(self) -> None:
            state = State(self._state.position, self._state.velocity, self._state.acceleration)
            self._model = ControllerModel(state, from_desired=self.from_desired, cycle_ns=self.period)
            self._filled = 0  # commands before this cycle are evaluated

        def step(self) -> None:
            if not self.hard:
                super().step()
                return
            now_ns = self.now_ns
            self.cycle += 1
            k = self.cycle
            if self._waiting is not None:
                self._replace(now_ns)
            if k >= self._filled:
                self._filled = min(k + _BLOCK, self.commands.shape[1])
                times_ns = now_ns + self.period * np.arange(1, self._filled - k + 1)
                self.commands[:, k : self._filled] = self._model.states(times_ns)
            self._state = jtc.Point(0, *self.commands[:, k])
            self._move(k)

        def _replace(self, now_ns: int) -> None:
            """Follow the message that has come, joined as in plant.Robot."""
            stamp_ns, _, points = self._waiting
            self._waiting = None
            rows = ([getattr(p, name) for p in points] for name in ("position", "velocity", "acceleration"))
            columns = (None if row[0] is None else np.array(row) for row in rows)
            measured = None
            if not self.from_desired:
                still = self.lag == 0 and not self.frozen
                acceleration = self._state.acceleration if still else np.zeros(len(self.joints))
                measured = State(*self.measured(), acceleration)
            times_ns = np.array([p.time for p in points], np.int64)
            self._model.follow(stamp_ns, Points(times_ns, *columns), now_ns, measured)
            self._filled = 0

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

    return PlainRobot, BlockRobot
