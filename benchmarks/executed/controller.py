"""A model of joint_trajectory_controller: the command in every cycle, while trajectories replace each other.

Trajectories are replaced as in releases before 6.8, and in later ones with allow_trajectory_replacement: false.
Tracking is perfect unless a lag is given. It is compared with a model that agrees with the controller's own code
(test/benchmarks).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.points import Points, motion_of_points

CYCLE_NS = 1_000_000
CYCLE_S = CYCLE_NS * 1e-9


class Message(NamedTuple):
    """A joint trajectory."""

    stamp_ns: int
    """0: it starts in the cycle in which it is taken."""
    points: Points


class Controller:
    """Executes messages cycle by cycle; each cycle commands the state for the next one.

    Args:
        start: initial state of the joints.
        begin_ns: the first cycle, a whole number of cycles.
        from_desired: interpolate_from_desired_state: the way to a trajectory that begins later is joined from the last
            command instead of the measured state. The controller takes it for one cycle older than it is.
        lag: s, by which the measured state is behind the command.

    """

    def __init__(self, start: State, begin_ns: int, *, from_desired: bool = False, lag: float = 0.0) -> None:
        self._commands = [np.stack(start)[:, None]]  # [3, cycles, D], the first one for begin_ns
        self._begin_ns = self._cycle_ns = begin_ns
        self._from_desired = from_desired
        self._lag_cycles = round(lag / CYCLE_S)
        self._joining: list[slice] = []
        self._motion: Motion | None = None
        self._motion_ns = 0

    def receive(self, message: Message, now_ns: int) -> None:
        """A message that arrives; the first cycle from now on takes it. Times must not decrease."""
        self.run(now_ns)
        now_ns, points = self._cycle_ns, message.points
        times_ns = points.time_ns + (message.stamp_ns or now_ns)
        if times_ns[-1] < now_ns:
            return
        if times_ns[0] > now_ns:
            older_ns = CYCLE_NS if self._from_desired and self._motion is not None else 0
            cycle = (now_ns - self._begin_ns) // CYCLE_NS
            self._joining.append(slice(cycle, cycle - (now_ns - int(times_ns[0])) // CYCLE_NS + 2))
            times_ns = np.append(now_ns - older_ns, times_ns)
            columns = [
                None if values is None else np.vstack([known, values])
                for known, values in zip(self._state(), points[1:], strict=True)
            ]
            points = Points(times_ns, *columns)
        if len(times_ns) == 1:  # to be held
            times_ns = np.append(times_ns, times_ns + CYCLE_NS)
            points = Points(times_ns, *(None if part is None else part[[0, 0]] for part in points[1:]))
        self._motion = motion_of_points(points._replace(time_ns=times_ns))
        self._motion_ns = int(times_ns[0])

    def run(self, until_ns: int) -> None:
        """All cycles before a time."""
        cycles_ns = np.arange(self._cycle_ns, until_ns, CYCLE_NS)
        if not len(cycles_ns):
            return
        if self._motion is None:
            commands = np.repeat(self._commands[-1][:, -1:], len(cycles_ns), axis=1)
        else:
            commands = self._motion.states_at((cycles_ns + CYCLE_NS - self._motion_ns) * 1e-9)[:3]
        self._commands.append(commands)
        self._cycle_ns = int(cycles_ns[-1]) + CYCLE_NS

    def commanded(self) -> Commanded:
        """All commands, the first one for the first cycle."""
        commands = np.concatenate(self._commands, axis=1)
        joining = np.zeros(commands.shape[1], bool)
        for cycles in self._joining:
            joining[cycles] = True
        return Commanded(*commands[:2], joining)

    def _state(self) -> np.ndarray:
        """What the joints are taken to do when a message is taken, `[3, D]`."""
        if self._from_desired or not self._lag_cycles:
            return self._commands[-1][:, -1]
        commands = np.concatenate(self._commands, axis=1)
        return commands[:, max(commands.shape[1] - 1 - self._lag_cycles, 0)]


class Commanded(NamedTuple):
    """Commands of consecutive cycles, `[T, D]` each."""

    position: np.ndarray
    velocity: np.ndarray
    joining: np.ndarray
    """`[T]`, bool: on the controller's own way to a trajectory that begins later."""

    def part(self, cycles: slice) -> Commanded:
        """Some of the cycles."""
        return Commanded(*(values[cycles] for values in self))

    @property
    def acceleration(self) -> np.ndarray:
        """Of the positions, cycle by cycle `[T - 2, D]`: a jump of the command is in it, too."""
        return np.diff(self.position, 2, axis=0) / CYCLE_S**2

    @property
    def jerk(self) -> np.ndarray:
        """Of the positions, cycle by cycle `[T - 3, D]`."""
        return np.diff(self.position, 3, axis=0) / CYCLE_S**3

    def largest_acceleration(self, *, joining: bool) -> float:
        """Of any joint, on the controller's own ways to trajectories, or on those of the trajectories."""
        on_its_own = self.joining[2:] | self.joining[1:-1] | self.joining[:-2]
        values = np.abs(self.acceleration)[on_its_own == joining]
        return float(values.max(initial=0.0))
