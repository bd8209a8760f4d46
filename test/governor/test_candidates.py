"""How a plan is joined: what counts as its own, and what only leads to it."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import SECOND, SimulatedNode

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import State, resting
from traj_integrator_ros.execution.rows import cubic_spline
from traj_integrator_ros.governor.candidates import Candidates, JoinPoint
from traj_integrator_ros.governor.planned_motions import PlannedMotion
from traj_integrator_ros.limits.joint_limits import assumed_limits

DT, LINE = 0.02, 0.23 * 0.02 * np.arange(51)[:, None]


@pytest.mark.parametrize("continues", [True, False])
def test_the_first_pieces_of_a_plan_that_continues_another_one_may_not_raise_an_assumed_jerk(continues):
    """From 0.2 to 0.23 rad/s in 20 ms, which asks for more than 128 rad/s^3; afterwards the plan is a line."""
    motion = cubic_spline(np.full(50, DT), LINE, np.array([0.2]))
    assert np.abs(extremes(motion)[:, 3]).max() > 250
    parameters = SimulatedNode(1, limits__velocity=[2.0], publish__end="as_planned").parameters
    limits = parameters.joint_limits
    assumed = assumed_limits(limits, parameters.publish_brake_time, 0.0).bounds
    state, at_ns = State(np.array([1e-4]), np.array([0.2]), np.zeros(1)), 1000 * SECOND
    nobody = np.zeros(1, bool)
    point = JoinPoint(
        state, at_ns, nobody, nobody, assumed, assumed, resting(state.position, 1e-3), assumed.jerk, limits
    )
    way, finding = Candidates(parameters, limits, assumed).first(
        lambda _: iter([PlannedMotion(at_ns, motion, continues=continues)]), point
    )
    jerk = np.abs(extremes(way.joined)[:, 3]).max()
    assert not finding and (jerk <= 128.0 * (1 + 1e-6)) == continues
