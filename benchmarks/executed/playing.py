"""Senders of joint trajectories, and the controller that executes them: the command in every cycle.

Senders are the node, and an early version of it, which published the rows that it computed as points.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

from kit.arm import Robot
from soak.streams.core import Message, NodeCore
from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.execution.rows import Points, motion_of_points
from traj_integrator_ros.kernels import ControlSpace, control_map
from traj_integrator_ros.requests.inputs import Actions

CYCLE_NS = 1_000_000
CYCLE_S = CYCLE_NS * 1e-9


class Node(NodeCore):
    """The node's processing; parameters are those of the node, `__` for dots."""

    def __init__(self, dof: int, **parameters: object) -> None:
        super().__init__([f"joint{i}" for i in range(dof)], **{"limits__assumed_velocity": 10.0, **parameters})

    def measure(self, state: State, now_ns: int) -> None:
        """Take a joint state."""
        self.joint_state(*state[:2], now_ns)


class RowsAsPoints:
    """The node's first version: the rows are the points, and start on arrival.

    If the end moves, a point at rest follows a step later. A trajectory starts where the robot is by now according to
    the last message. Actions whose time has passed by the stamp are dropped, as senders did.
    """

    def __init__(self, dof: int, **parameters: object) -> None:
        self._replaces = parameters.get("start_from") == "previous"
        self._stops = parameters.get("publish__end", "stop") == "stop"
        self._measured: State | None = None
        self._last: tuple[int, Points] | None = None

    def measure(self, state: State, now_ns: int) -> None:
        """Take a joint state."""
        self._measured = state

    begin = measure

    def answer(self, fields: Actions, now_ns: int) -> Message:
        """The message that is published for a chunk."""
        start, dt = fields.start or self._measured, fields.dt
        over = round((now_ns - fields.stamp_ns) * 1e-9 / dt) if fields.stamp_ns else 0
        if not fields.start and self._replaces and self._last is not None:
            begin_ns, points = self._last
            start = motion_of_points(points).states_at(np.array([(now_ns - begin_ns) * 1e-9]))[:3, 0]
        rows = fields.data[over:], *start
        action, *given = (torch.from_numpy(np.array(row, np.float32)[None]) for row in rows)
        trajectory = control_map(ControlSpace(fields.space)).step(action, *given, dt=dt)
        rows = np.stack([part[0].numpy().astype(float) for part in trajectory[:3]])
        if self._stops and np.abs(rows[1, -1]).max() > 0:
            rest = np.stack([rows[0, -1], *np.zeros((2, rows.shape[2]))])
            rows = np.concatenate([rows, rest[:, None]], axis=1)
        points = Points(np.rint(np.arange(rows.shape[1]) * dt * 1e9).astype(np.int64), *rows)
        self._last = now_ns, points
        return Message(0, points)


Sender = type[Node] | type[RowsAsPoints]


class Controller:
    """Executes messages cycle by cycle; each cycle commands the state for the next one.

    Args:
        start: initial state of the joints.
        begin_ns: the first cycle, a whole number of cycles.
        lag: time by which the measured state is behind the command, s.
        blending: whether trajectories are blended or replaced at once.

    """

    def __init__(self, start: State, begin_ns: int, *, lag: float = 0.0, blending: bool = False) -> None:
        self._robot = Robot(
            [f"joint{i}" for i in range(len(start.position))],
            lag=lag,
            allow_nonzero_velocity_at_trajectory_end=True,
            hard_replacement=not blending,
        )
        self._robot.set_state(*start)
        self._commands = [np.stack(start)[:, None]]  # [3, cycles, D], the first one for begin_ns
        self._cycle_ns = begin_ns

    def receive(self, message: Message, now_ns: int) -> None:
        """Take a message that arrives; the next cycle uses it. Times must not decrease."""
        self.run(now_ns)
        stamp_ns, now_ns, robot = message.stamp_ns, self._cycle_ns, self._robot
        if not robot.receive(robot.joints, *message.points, now_ns=now_ns, stamp_ns=stamp_ns):
            raise RuntimeError(robot.refusal)

    def run(self, until_ns: int) -> None:
        """Run all cycles before a time."""
        commands = self._robot.run(self._cycle_ns, until_ns)
        self._commands.append(commands)
        self._cycle_ns += commands.shape[1] * CYCLE_NS

    def commanded(self) -> Commanded:
        """All commands; the first one belongs to the first cycle."""
        return Commanded(np.concatenate(self._commands, axis=1))


class Commanded(NamedTuple):
    """Commands of consecutive cycles."""

    states: np.ndarray
    """Position, velocity and acceleration `[3, T, D]`."""

    def part(self, cycles: slice) -> Commanded:
        """The commands of some cycles."""
        return Commanded(self.states[:, cycles])

    def differences(self, order: int) -> np.ndarray:
        """A derivative of the positions, cycle by cycle `[T - order, D]`; it includes jumps of the command."""
        return np.diff(self.states[0], order, axis=0) / CYCLE_S**order
