"""The commands of a controller at 1 kHz for the trajectories that it receives, judged as the rig does. Knows no ROS."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from kit.controller import SECOND, Controller
from rig.judge import differences, held_against

_NAMES = {"v": "velocity", "a": "acceleration", "j": "jerk"}
_BACK = np.arange(3, 0, -1)[:, None]


class Commanded(Controller):
    """A controller that replaces trajectories at once, its commands held against limits.

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
        """Commands beyond a limit, the worst of each time and quantity, and what the controller refused."""
        self.peaks = {"velocity": 0.0, "acceleration": 0.0, "jerk": 0.0, "of_limit": 0.0, "late_jump": 0.0}
        """Largest of any joint, SI units; of_limit: largest acceleration as a share of its joint's limit; late_jump:
        largest acceleration where a trajectory was taken that came too late."""
        self.taken = self.late = 0
        """Trajectories executed, and how many of them came too late to be joined: the machine missed their time."""
        self._limits = {"v": velocity, "a": acceleration}
        self._next_ns = self._begin_ns = now_ns - now_ns % self.period
        self._judged = np.tile(self._state.position, (3, 1))  # the last positions that were
        self._is_late = False

    def receive(self, *fields: object, now_ns: int, stamp_ns: int = 0, **more: object) -> bool:
        """Hand over a trajectory received at a time, which must not decrease, as `Controller.receive`."""
        now_ns = max(-(-now_ns // self.period) * self.period, self._next_ns)
        self.judge(now_ns)
        if not super().receive(*fields, now_ns=now_ns, stamp_ns=stamp_ns, **more):
            if self.refusal != "ends in the past":
                self.faults[f"joint_trajectory: the controller refuses it: {self.refusal}"] += 1
            return False
        self.taken += 1
        self._begin_ns, self._is_late = now_ns, 0 < stamp_ns < now_ns - self.period
        return True

    def at(self, time_ns: int) -> np.ndarray:
        """The command for a time, which must not decrease, `[3, dof]`: that of the cycle before it."""
        self.judge(time_ns)
        return np.stack(self._state.parts)

    def judge(self, until_ns: int) -> None:
        """Hold the cycles since the last ones against the limits until a time."""
        if until_ns <= self._next_ns:
            return
        commands, rate = self.run(self._next_ns, until_ns), SECOND / self.period
        parts = differences(np.concatenate([self._judged, commands[0]]), rate)
        if self._is_late:
            self._is_late, jump = False, np.abs(parts[2][:2])
            if (jump > self._limits["a"]).any():
                self.late += 1
                self.peaks["late_jump"] = max(self.peaks["late_jump"], float(jump.max()))
                position, velocity, acceleration = commands[:, 0]  # as if it had been executed before
                self._judged = position - velocity * _BACK / rate + acceleration * (_BACK / rate) ** 2 / 2
                parts = differences(np.concatenate([self._judged, commands[0]]), rate)
        for name, values in zip(_NAMES.values(), parts[1:], strict=True):
            self.peaks[name] = max(self.peaks[name], float(np.abs(values).max()))
        for found in held_against(parts, self._limits):
            if found.quantity == "a":
                self.peaks["of_limit"] = max(self.peaks["of_limit"], found.value)
            if not found.good:
                into_s = (self._next_ns - self._begin_ns) / SECOND + (found.cycle + 1) / rate
                most = self._limits[found.quantity][found.joint]
                what = f"commanded {_NAMES[found.quantity]} of {self.joints[found.joint]}"
                got = f"got {found.value * most:.4g} {into_s:.4f} s into the motion"
                self.faults[f"{what}: expected at most {most:g}, {got}"] += 1
        self._judged = np.concatenate([self._judged, commands[0]])[-3:]
        self._next_ns += commands.shape[1] * self.period
