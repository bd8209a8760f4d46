"""The commands of a controller at 1 kHz for the trajectories that it receives, checked against limits. Knows no ROS."""

from __future__ import annotations

from collections import Counter

import numpy as np

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.tools.controller_model import CYCLE_NS, ControllerModel

_CYCLE_S = CYCLE_NS * 1e-9
_SLACK = 1e-3
"""Relative slack of a limit, for the rounding of times since the epoch in float64 and of positions in float32."""


class Commanded(ControllerModel):
    """The command over time, checked against the limits.

    Args:
        position: at which the robot rests at first `[dof]`, rad.
        joint_names: of the columns.
        velocity: limits `[dof]`, rad/s.
        acceleration: limits `[dof]`, rad/s^2.
        now_ns: when the first cycle is.

    """

    def __init__(
        self,
        position: np.ndarray,
        joint_names: tuple[str, ...],
        velocity: np.ndarray,
        acceleration: np.ndarray,
        now_ns: int,
    ) -> None:
        super().__init__(State(position, *np.zeros((2, len(position)))))
        self.faults: Counter[str] = Counter()
        """Commands that exceeded a limit, the worst of each trajectory and quantity."""
        self.peaks = {"velocity": 0.0, "acceleration": 0.0, "jerk": 0.0, "of_limit": 0.0, "late_jump": 0.0}
        """Largest of any joint, SI units; of_limit: largest acceleration as a share of its joint's limit; late_jump:
        largest acceleration where a trajectory was taken that came too late."""
        self.taken = self.late = 0
        """Trajectories executed, and how many of them came too late to be joined: the machine missed their time."""
        self._joint_names = joint_names
        self._limits = {"velocity": velocity, "acceleration": acceleration}
        self._judged_ns = now_ns - now_ns % CYCLE_NS
        self._last_acceleration = np.zeros((1, len(position)))

    def take(self, stamp_ns: int, points: Points, now_ns: int, measured: State | None = None) -> bool:
        """Take a trajectory that was received at a time, which must not decrease, in the cycle after it."""
        now_ns = max(-(-now_ns // CYCLE_NS) * CYCLE_NS, self._judged_ns)
        self.judge(now_ns)
        before = self.at(now_ns)
        if not super().take(stamp_ns, points, now_ns, measured):
            return False
        self.taken += 1
        self._judge_jump(before, now_ns, is_late=0 < stamp_ns < now_ns - CYCLE_NS)
        return True

    def judge(self, until_ns: int) -> None:
        """Check the cycles since the last checked one until a time against the limits."""
        cycles_ns = np.arange(self._judged_ns, until_ns, CYCLE_NS)
        if not len(cycles_ns):
            return
        _, velocity, acceleration = self.states(cycles_ns)
        self._hold_against("velocity", np.abs(velocity), int(cycles_ns[0]))
        self._hold_against("acceleration", np.abs(acceleration), int(cycles_ns[0]))
        # From cycle to cycle: the motion of a piece shorter than a cycle is never commanded.
        jerk = np.diff(acceleration, axis=0, prepend=self._last_acceleration) / _CYCLE_S
        self.peaks["jerk"] = max(self.peaks["jerk"], float(np.abs(jerk).max()))
        self._last_acceleration = acceleration[-1:]
        self._judged_ns = int(cycles_ns[-1]) + CYCLE_NS

    def _judge_jump(self, before: State, now_ns: int, is_late: bool) -> None:
        """A command that jumps from one cycle to the next is an acceleration, too."""
        after = self.at(now_ns)
        steps = np.abs(after.position - before.position) / _CYCLE_S, np.abs(after.velocity - before.velocity)
        jump = np.maximum(*steps) / _CYCLE_S
        if is_late and (jump > self._limits["acceleration"]).any():
            self.late += 1
            self._last_acceleration = after.acceleration[None]
            self.peaks["late_jump"] = max(self.peaks["late_jump"], float(jump.max()))
        else:
            self._hold_against("acceleration", jump[None], now_ns, " (a jump)")

    def _hold_against(self, quantity: str, values: np.ndarray, begin_ns: int, what: str = "") -> None:
        """Check absolute values `[cycles, dof]` against a limit."""
        share = values / self._limits[quantity]
        self.peaks[quantity] = max(self.peaks[quantity], float(values.max()))
        if quantity == "acceleration":
            self.peaks["of_limit"] = max(self.peaks["of_limit"], float(share.max()))
        cycle, joint = np.unravel_index(int(share.argmax()), share.shape)
        if share[cycle, joint] > 1 + _SLACK:
            into_s = (begin_ns + cycle * CYCLE_NS - self.begin_ns) * 1e-9
            most, got, name = self._limits[quantity][joint], values[cycle, joint], self._joint_names[joint]
            found = f"expected at most {most:g}, got {got:.4g} {into_s:.4f} s into the motion{what}"
            self.faults[f"commanded {quantity} of {name}: {found}"] += 1
