"""The node's processing without the node, from joint states, reports and sequences to trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.polynomials import powers_of
from traj_integrator_ros.execution.rows import Points
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.executor import Executor
from traj_integrator_ros.governor.planner import Refuse
from traj_integrator_ros.parameters.parameters import NodeParameters
from traj_integrator_ros.requests.inputs import Actions, Positions

from .plans import Bounds


class Message(NamedTuple):
    """A trajectory for the controller."""

    stamp_ns: int
    """Start time, ns; with 0 it starts in the cycle in which it is taken."""
    points: Points
    slowed: bool = False
    """True if its plan was slowed to limits, given or assumed."""

    @staticmethod
    def of(made: ExecutableTrajectory) -> Message:
        """Return the message of a motion."""
        return Message(made.stamp_ns, made.points, slowed=made.delay > 0)


class NodeCore(Executor):
    """A node's execution without the node; all times are ns of its clock, which must not go back.

    Args:
        joints: names.
        refuse: called with each plan that is refused after it had to wait.
        parameters: the node's parameters that differ from their defaults, with `__` for dots.

    """

    def __init__(self, joints: Sequence[str], refuse: Refuse | None = None, **parameters: object) -> None:
        super().__init__(NodeParameters.of(joints, **{"device": "cpu", **parameters}), refuse=refuse)

    def answer(self, plan: Actions | Positions, now_ns: int) -> Message | None:
        """Execute a plan, and return the message published at once; None: it has to wait. Raises Rejected."""
        made = self.execute(plan, now_ns)
        return made and Message.of(made)

    def controller_state(self, stamp_ns: int, reference: Sequence[np.ndarray], now_ns: int) -> None:
        """Take a report of the controller: reference (p, v, a), joints in the node's order."""
        if stamp_ns:
            self.report(ControllerReport(stamp_ns, State(*reference).known), now_ns)

    def begin(self, state: State, now_ns: int) -> None:
        """Put the controller in the middle of a motion of this node, in a state from which it continues."""
        p, v, a = state
        self.joint_state(p, v, now_ns)
        pieces = powers_of([part[None] for part in (p - v + a / 2, v - a, a / 2)])
        since_ns = now_ns - 10**9
        motion = Motion(np.array([0.0, 2.0]), pieces, start_ns=since_ns)
        self.published.record(ExecutableTrajectory(motion), since_ns)

    def assumed_bounds(self) -> Bounds:
        """Return the bounds that the node assumes if none are given."""
        velocity = np.asarray(self.parameters.limits_velocity)
        acceleration = 2 * velocity / self.parameters.publish_brake_time
        return Bounds(velocity, acceleration, 2 * acceleration / self.parameters.publish_brake_time)
