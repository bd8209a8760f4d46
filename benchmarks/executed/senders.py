"""Senders of joint trajectories: the node, and an early version of it, which published the rows of the maps."""

from __future__ import annotations

import numpy as np
import torch

from soak.streams.core import ActionFields, Message, NodeCore
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.rows import Points, motion_of_points
from traj_integrator_ros.handling.courses import Course
from traj_integrator_ros.kernels import ControlSpace, control_map


class Node(NodeCore):
    """The node's processing, from the numbers of a message to those of another.

    Args:
        dof: joints.
        parameters: of the node, `__` for dots.

    """

    def __init__(self, dof: int, **parameters: object) -> None:
        super().__init__([f"joint{i}" for i in range(dof)], **{"limits__assumed_velocity": 10.0, **parameters})

    def begin(self, state: State, now_ns: int) -> None:
        """The controller is in a state, in the middle of a motion of this node's: it is taken over from there."""
        self.measure(state, now_ns)
        p, v, a = state
        motion = Motion(np.array([0.0, 2.0]), np.stack([p - v + a / 2, v - a, a / 2])[None])
        since_ns = now_ns - 10**9
        self.published.present.published(Course(since_ns, motion), since_ns, since_ns)

    def measure(self, state: State, now_ns: int) -> None:
        """A joint state."""
        self.joint_state(self.parameters.joint_names, *state[:2], now_ns, now_ns)

    def send(
        self,
        actions: np.ndarray,
        *,
        dt: float,
        now_ns: int,
        stamp_ns: int = 0,
        space: ControlSpace = ControlSpace.POSITION,
        start: State | None = None,
    ) -> Message:
        """The message that it publishes for actions `[H, dof]`; raises Rejected."""
        rows = [np.asarray(row, np.float32) for row in start or () if row is not None]
        fields = ActionFields(stamp_ns, space.value, dt, np.asarray(actions, np.float32), rows)
        return self.answer(fields, now_ns, now_ns)


class RowsAsPoints:
    """The same, as the node was at first: the rows are the points, and start on arrival.

    An end in motion is followed by a point that rests there, a step later; a trajectory starts where the last message
    says that the robot is by now.
    """

    def __init__(self, dof: int, **parameters: object) -> None:
        self._replaces = parameters.get("start_from") == "previous"
        self._stops = parameters.get("publish__end", "stop") == "stop"
        self._measured: State | None = None
        self._last: tuple[int, Points] | None = None

    def measure(self, state: State, now_ns: int) -> None:
        """A joint state."""
        self._measured = state

    begin = measure

    def send(
        self,
        actions: np.ndarray,
        *,
        dt: float,
        now_ns: int,
        stamp_ns: int = 0,
        space: ControlSpace = ControlSpace.POSITION,
        start: State | None = None,
    ) -> Message:
        """Drops the actions that are over according to the stamp, as senders did."""
        over = round((now_ns - stamp_ns) * 1e-9 / dt) if stamp_ns else 0
        if start is None:
            start = self._measured
            if self._replaces and self._last is not None:
                begin_ns, points = self._last
                start = State(*motion_of_points(points).states_at(np.array([(now_ns - begin_ns) * 1e-9]))[:3, 0])
        given = [None if part is None else torch.from_numpy(np.array(part, np.float32)[None]) for part in start[:3]]
        data = torch.from_numpy(np.asarray(actions[over:], np.float32)[None])
        trajectory = control_map(space).step(data, *given, dt=dt)
        rows = np.stack([part[0].numpy().astype(float) for part in trajectory[:3]])
        if self._stops and np.abs(rows[1, -1]).max() > 0:
            rest = np.stack([rows[0, -1], *np.zeros((2, rows.shape[2]))])
            rows = np.concatenate([rows, rest[:, None]], axis=1)
        points = Points(np.rint(np.arange(rows.shape[1]) * dt * 1e9).astype(np.int64), *rows)
        self._last = now_ns, points
        return Message(0, points)
