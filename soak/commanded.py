"""The commands of a controller at 1 kHz for the trajectories that it receives, checked against limits. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kit.controller import SECOND, Controller

_SLACK = 1e-3
"""Relative slack of a limit, for the rounding of times to whole nanoseconds and of positions to float32."""


class Commanded(Controller):
    """A controller that replaces trajectories at once, its commands checked against limits.

    Args:
        joints: names.
        position: at which they rest at first `[dof]`, rad.
        velocity: limits `[dof]`, rad/s.
        acceleration: limits `[dof]`, rad/s^2.
        now_ns: when the first cycle is.

    """

    def __init__(
        self, joints: Sequence[str], position: np.ndarray, velocity: np.ndarray, acceleration: np.ndarray, now_ns: int
    ) -> None:
        super().__init__(joints, hard_replacement=True)
        self.set_state(position)
        self.faults: Counter[str] = Counter()
        """Commands beyond a limit, the worst of each trajectory and quantity, and what the controller refused."""
        self.peaks = {"velocity": 0.0, "acceleration": 0.0, "jerk": 0.0, "of_limit": 0.0, "late_jump": 0.0}
        """Largest of any joint, SI units; of_limit: largest acceleration as a share of its joint's limit; late_jump:
        largest acceleration where a trajectory was taken that came too late."""
        self.taken = self.late = 0
        """Trajectories executed, and how many of them came too late to be joined: the machine missed their time."""
        self._limits = {"velocity": velocity, "acceleration": acceleration}
        self._next_ns = self._begin_ns = now_ns - now_ns % self.period
        self._is_new = self._is_late = False

    def receive(self, *fields: object, now_ns: int, stamp_ns: int = 0, **more: object) -> bool:
        """Hand over a trajectory received at a time, which must not decrease, as `Controller.receive`."""
        now_ns = max(-(-now_ns // self.period) * self.period, self._next_ns)
        self.judge(now_ns)
        if not super().receive(*fields, now_ns=now_ns, stamp_ns=stamp_ns, **more):
            if self.refusal != "ends in the past":
                self.faults[f"joint_trajectory: the controller refuses it: {self.refusal}"] += 1
            return False
        self.taken += 1
        self._begin_ns, self._is_new, self._is_late = now_ns, True, 0 < stamp_ns < now_ns - self.period
        return True

    def at(self, time_ns: int) -> np.ndarray:
        """The command for a time, which must not decrease, `[3, dof]`: that of the cycle before it."""
        self.judge(time_ns)
        return np.stack(self._state.parts)

    def judge(self, until_ns: int) -> None:
        """Check the cycles since the last checked one until a time against the limits."""
        if until_ns <= self._next_ns:
            return
        before = np.stack(self._state.parts)
        commands, first_ns = self.run(self._next_ns, until_ns), self._next_ns
        self._next_ns += commands.shape[1] * self.period
        if self._is_new:
            before = self._judge_jump(before, commands[:, 0], first_ns)
        _, velocity, acceleration = commands
        self._hold_against("velocity", np.abs(velocity), first_ns + self.period)
        self._hold_against("acceleration", np.abs(acceleration), first_ns + self.period)
        # From cycle to cycle: the motion of a piece shorter than a cycle is never commanded.
        jerk = np.diff(acceleration, axis=0, prepend=before[2:]) * SECOND / self.period
        self.peaks["jerk"] = max(self.peaks["jerk"], float(np.abs(jerk).max()))

    def _judge_jump(self, before: np.ndarray, after: np.ndarray, now_ns: int) -> np.ndarray:
        """A command that jumps from one cycle to the next is an acceleration, too; returns the command before it."""
        self._is_new, cycle_s = False, self.period / SECOND
        step = after[0] - before[0] - (before[1] + after[1]) / 2 * cycle_s
        jump = np.maximum(np.abs(step) / cycle_s, np.abs(after[1] - before[1])) / cycle_s
        if self._is_late and (jump > self._limits["acceleration"]).any():
            self.late += 1
            self.peaks["late_jump"] = max(self.peaks["late_jump"], float(jump.max()))
            return after
        self._hold_against("acceleration", jump[None], now_ns, " (a jump)")
        return before

    def _hold_against(self, quantity: str, values: np.ndarray, begin_ns: int, what: str = "") -> None:
        """Check absolute values `[cycles, dof]`, the first of them of a time, against a limit."""
        share = values / self._limits[quantity]
        self.peaks[quantity] = max(self.peaks[quantity], float(values.max()))
        if quantity == "acceleration":
            self.peaks["of_limit"] = max(self.peaks["of_limit"], float(share.max()))
        cycle, joint = np.unravel_index(int(share.argmax()), share.shape)
        if share[cycle, joint] > 1 + _SLACK:
            into_s = (begin_ns + cycle * self.period - self._begin_ns) / SECOND
            most, got, name = self._limits[quantity][joint], values[cycle, joint], self.joints[joint]
            found = f"expected at most {most:g}, got {got:.4g} {into_s:.4f} s into the motion{what}"
            self.faults[f"commanded {quantity} of {name}: {found}"] += 1
