"""The command in every cycle, while trajectories replace each other, to joints that follow it with a lag."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

import numpy as np

from soak.streams.core import Message
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.tools.controller_model import CYCLE_NS, ControllerModel

CYCLE_S = CYCLE_NS * 1e-9


class BlendingModel:
    """A controller of a module that models one with blending, behind the interface of ControllerModel."""

    def __init__(self, module: ModuleType, start: State) -> None:
        self._joints = [f"joint{i}" for i in range(len(start.position))]
        self._controller = module.Controller(self._joints, 1 / CYCLE_S, allow_nonzero_velocity_at_trajectory_end=True)
        self._controller.set_state(*start)

    def take(self, stamp_ns: int, points: Points, now_ns: int, measured: State) -> bool:
        """Take a trajectory."""
        if not self._controller.receive(self._joints, *points, now=now_ns * 1e-9, stamp=stamp_ns * 1e-9):
            raise RuntimeError(self._controller.refusal)
        return True

    def states(self, times_ns: np.ndarray) -> np.ndarray:
        """What it commands for consecutive cycles, each in the cycle before."""
        updates = [np.stack(self._controller.update((int(time_ns) - CYCLE_NS) * 1e-9)) for time_ns in times_ns]
        return np.stack(updates, axis=1)


class Controller:
    """Executes messages cycle by cycle; each cycle commands the state for the next one.

    Args:
        start: initial state of the joints.
        begin_ns: the first cycle, a whole number of cycles.
        lag: s, by which the measured state is behind the command.
        model: of the controller, from the start.
        options: of the model.

    """

    def __init__(
        self,
        start: State,
        begin_ns: int,
        *,
        lag: float = 0.0,
        model: Callable[..., ControllerModel | BlendingModel] = ControllerModel,
        **options: bool,
    ) -> None:
        self._model = model(start, **options)
        self._commands = [np.stack(start)[:, None]]  # [3, cycles, D], the first one for begin_ns
        self._begin_ns = self._cycle_ns = begin_ns
        self._lag_cycles = round(lag / CYCLE_S)
        self._joining: list[slice] = []

    def receive(self, message: Message, now_ns: int) -> None:
        """A message that arrives; the first cycle from now on takes it. Times must not decrease."""
        self.run(now_ns)
        commands = np.concatenate(self._commands, axis=1)
        measured = State(*commands[:, max(commands.shape[1] - 1 - self._lag_cycles, 0)])
        stamp_ns, now_ns = message.stamp_ns, self._cycle_ns
        if self._model.take(stamp_ns, message.points, now_ns, measured):
            ahead_ns = max(int(message.points.time_ns[0]) + (stamp_ns - now_ns if stamp_ns else 0), 0)
            cycle = (now_ns - self._begin_ns) // CYCLE_NS
            if ahead_ns or isinstance(self._model, BlendingModel):  # which sends one command twice
                self._joining.append(slice(cycle, cycle - -ahead_ns // CYCLE_NS + 2))

    def run(self, until_ns: int) -> None:
        """All cycles before a time."""
        cycles_ns = np.arange(self._cycle_ns, until_ns, CYCLE_NS)
        if len(cycles_ns):
            self._commands.append(self._model.states(cycles_ns + CYCLE_NS))
            self._cycle_ns = int(cycles_ns[-1]) + CYCLE_NS

    def commanded(self) -> Commanded:
        """All commands, the first one for the first cycle."""
        commands = np.concatenate(self._commands, axis=1)
        joining = np.zeros(commands.shape[1], bool)
        for cycles in self._joining:
            joining[cycles] = True
        return Commanded(*commands[:2], joining)


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
