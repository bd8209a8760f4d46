"""The node's processing without the node, from joint states, reports and sequences to trajectories."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.execution.polynomials import powers_of
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


def put_in_motion(node: Executor, state: State, now_ns: int, lasts: float = 1.0) -> None:
    """Let the controller be in a given state of a motion that began a second ago, and lasts for a time, s."""
    p, v, a = state
    pieces = powers_of([part[None] for part in (p - v + a / 2, v - a, a / 2)])
    since_ns = now_ns - 10**9
    motion = Motion(np.array([0.0, 1.0 + lasts]), pieces, start_ns=since_ns)
    node.published.record(ExecutableTrajectory(motion), since_ns)
