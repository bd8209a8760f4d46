"""The node's processing without the node: what it makes of joint states, of the controller's state and of sequences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traj_integrator_ros.engine.integrator import TrajectoryIntegrator
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.pipeline import Pipeline
from traj_integrator_ros.governor.planned_motions import PlannedMotion
from traj_integrator_ros.governor.published import PublishedMotion
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.requests.position_trajectory import PositionFields
from traj_integrator_ros.requests.sequences import SequenceFields

from .plans import Bounds

_NONE, _NO_INDEX = np.zeros(0, np.float32), np.zeros(0, np.uint32)


class Message(NamedTuple):
    """A trajectory for the controller."""

    stamp_ns: int
    """0: it starts in the cycle in which it is taken."""
    points: Points
    slowed: bool = False
    """Whether its plan was slowed to limits, given or assumed."""


class ActionFields(NamedTuple):
    """What an ActionSequence carries of a chunk; joints in the node's order."""

    stamp_ns: int
    space: int
    dt: float
    data: np.ndarray
    """`[H, D]`; sent as float32."""
    start: Sequence[np.ndarray] = ()
    """Position, velocity and acceleration, float32 `[D]` each, or fewer."""

    @property
    def sequence(self) -> SequenceFields:
        """The fields as the node reads them."""
        start = (*self.start, *[_NONE] * (3 - len(self.start)))
        dt, data = np.array([self.dt], np.float32), np.asarray(self.data, np.float32).ravel()
        return SequenceFields((), self.space, 1, len(self.data), dt, *start, _NO_INDEX, data)


class Positions(NamedTuple):
    """What a JointTrajectory on ~/position_trajectory carries."""

    stamp_ns: int
    time_ns: Sequence[int]
    positions: np.ndarray
    """`[N, D]`."""


class NodeCore:
    """The pipeline of a node; all times are ns of its clock, which must not go back.

    Args:
        joints: names.
        parameters: the node's, as far as they do not have their defaults; `__` for dots.

    """

    def __init__(self, joints: Sequence[str], **parameters: object) -> None:
        values = default_values() | {"joint_names": list(joints), "device": "cpu"}
        given = {name.replace("__", "."): value for name, value in parameters.items()}
        self.parameters = NodeParameters.from_values(values | given)
        self.published = PublishedMotion()
        self.pipeline = Pipeline(self.parameters, TrajectoryIntegrator("cpu"), self.published, lambda finding: None)

    def joint_state(self, position: np.ndarray, velocity: np.ndarray, stamp_ns: int, now_ns: int) -> None:
        """Take a joint state, joints in the node's order."""
        self.pipeline.take_joint_state(self.parameters.joint_names, position, velocity, stamp_ns, now_ns)

    def controller_state(self, stamp_ns: int, reference: Sequence[np.ndarray], now_ns: int) -> None:
        """Take what the controller says of itself: reference (p, v, a), joints in the node's order."""
        if stamp_ns:
            self.pipeline.take_controller_state(ControllerReport(stamp_ns, State(*reference), 1.0), now_ns)

    def begin(self, state: State, now_ns: int) -> None:
        """The controller is in a state, in the middle of a motion of this node's: it is taken over from there."""
        p, v, a = state
        self.joint_state(p, v, now_ns, now_ns)
        motion = Motion(np.array([0.0, 2.0]), np.stack([p - v + a / 2, v - a, a / 2])[None])
        since_ns = now_ns - 10**9
        self.published.present.published(PlannedMotion(since_ns, motion), since_ns, since_ns)

    def answer(self, fields: ActionFields | Positions, now_ns: int, done_ns: int) -> Message | None:
        """Answer a sequence or a position trajectory; None: nothing is to be published. Raises Rejected.

        Args:
            fields: of the message.
            now_ns: when it is read.
            done_ns: when the answer is ready.

        """
        if isinstance(fields, Positions):
            times, names = [int(t) for t in fields.time_ns], self.parameters.joint_names
            given = PositionFields(names, fields.stamp_ns, len(times), times, list(fields.positions))
            return self._hand_over(self.pipeline.position_trajectory(given, now_ns), done_ns)
        request = self.pipeline.batches.checked(fields.sequence)
        self.pipeline.batches.started(request, lambda: now_ns)
        return self._hand_over(self.pipeline.trajectory(request, fields.stamp_ns, now_ns, lambda: done_ns), done_ns)

    def tick(self, now_ns: int) -> Message | None:
        """Let the node look at the time; returns what it publishes on its own. Raises Rejected."""
        return self._hand_over(self.pipeline.commands.tick(now_ns), now_ns)

    def stop(self, now_ns: int, done_ns: int) -> Message | None:
        """Call ~/stop; None: nothing moves, or `tick` will publish it."""
        return self._hand_over(self.pipeline.commands.stop(now_ns), done_ns)

    def assumed(self) -> Bounds:
        """Bounds that the node says it assumes where none are given: the parameter publish.brake_time has the rule."""
        velocity = np.asarray(self.parameters.limits_velocity)
        acceleration = 2 * velocity / self.parameters.publish_brake_time
        return Bounds(velocity, acceleration, 2 * acceleration / self.parameters.publish_brake_time)

    def _hand_over(self, made: ExecutableTrajectory | None, done_ns: int) -> Message | None:
        if made is None:
            return None
        self.published.record(made, done_ns)
        return Message(made.start_ns, made.points, slowed=made.delay > 0)
