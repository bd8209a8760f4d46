"""Joining a plan: at most so many readings are tried."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import SECOND, SimulatedNode

from traj_integrator_ros.execution.motion import Motion, State, resting
from traj_integrator_ros.execution.problem import Work
from traj_integrator_ros.governor import candidates
from traj_integrator_ros.governor.candidates import Candidate, Candidates, Ended, JoinPoint, Read
from traj_integrator_ros.governor.reference import PlannedMotion
from traj_integrator_ros.limits.joint_limits import assumed_limits

AT_NS = 1000 * SECOND


def first(read: Read, state: State, **parameters: object) -> tuple[Candidate | None, str]:
    """The first candidate from a state, for planned motions of one joint whose limit of jerk is assumed."""
    given = SimulatedNode(1, limits__velocity=[2.0], publish__end="as_planned", **parameters).parameters
    limits, nobody = given.joint_limits, np.zeros(1, bool)
    assumed = assumed_limits(limits, given.publish_brake_time, 0.0).bounds
    executed = resting(state.position, 1e-3)
    point = JoinPoint(state, AT_NS, nobody, nobody, assumed, assumed, executed, assumed.jerk, limits)
    return Candidates(given, limits, assumed).first(read, point)


@pytest.mark.parametrize(("work", "most"), [(90, 10), (20, 3)])
def test_no_more_readings_are_looked_at_than_work_is_left_for(monkeypatch, work: int, most: int):
    """Each reading is too fast for its joint, so that the next one would be tried."""
    too_fast = Motion(np.array([0.0, 1.0]), np.array([[[0.0], [3.0]]]))
    looked: list[Ended] = []
    monkeypatch.setattr(candidates, "Work", lambda: Work(work))
    monkeypatch.setattr(Candidates, "_judged", lambda self, ended, point: (looked.append(ended), (None, str))[1])
    planned = [PlannedMotion(AT_NS, too_fast)] * 10
    assert first(lambda _: iter(planned), State(*np.zeros((3, 1))), limits__action="reject")[0] is None
    assert len(looked) == most
