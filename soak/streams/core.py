"""The node's processing without the node, from joint states, reports and sequences to trajectories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.polynomials import powers_of
from traj_integrator_ros.governor.controller_reports import ControllerReport
from traj_integrator_ros.governor.executable import ExecutableTrajectory
from traj_integrator_ros.governor.executor import Executor
from traj_integrator_ros.governor.planner import Refuse
from traj_integrator_ros.parameters.parameters import NodeParameters


class NodeCore(Executor):
    """A node's execution without the node; all times are ns of its clock, which must not go back.

    Parameters are the node's that differ from their defaults, with `__` for dots.
    """

    def __init__(self, joints: Sequence[str], refuse: Refuse | None = None, **parameters: object) -> None:
        super().__init__(NodeParameters.of(joints, **{"device": "cpu", **parameters}), refuse=refuse)

    def controller_state(
        self, stamp_ns: int, reference: Sequence[np.ndarray], now_ns: int, scaling: float = 1.0
    ) -> None:
        """Take a report of the controller: reference (p, v, a), joints in the node's order, and the speed scaling."""
        if stamp_ns:
            self.report(ControllerReport(stamp_ns, State(*reference).known, scaling), now_ns)

    def begin(self, state: State, now_ns: int) -> None:
        """Put the controller in the middle of a motion of this node, in a state from which it continues."""
        p, v, a = state
        self.joint_state(p, v, now_ns)
        pieces = powers_of([part[None] for part in (p - v + a / 2, v - a, a / 2)])
        since_ns = now_ns - 10**9
        motion = Motion(np.array([0.0, 2.0]), pieces, start_ns=since_ns)
        self.published.record(ExecutableTrajectory(motion), since_ns)
