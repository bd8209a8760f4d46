"""A goal's tolerances, and which joint exceeds them."""

from __future__ import annotations

import numpy as np
import pytest
from pipelines import rejected

from traj_integrator_ros.execution.motion import State
from traj_integrator_ros.parameters.parameters import NodeParameters, default_values
from traj_integrator_ros.requests.goals import GoalFields, exceeded, goal_tolerances
from traj_integrator_ros.requests.rejection import RejectionReason

VALUES = default_values() | {
    "joint_names": ["a", "b"],
    "constraints.goal_time": 0.5,
    "constraints.a.trajectory": 0.05,
    "constraints.b.goal": 0.03,
}
PARAMETERS = NodeParameters.from_values(VALUES)
ANY = np.inf


@pytest.mark.parametrize(
    ("given", "path", "goal"),
    [
        ((0.0, 0.0), ([0.05, ANY], [ANY, ANY]), ([ANY, 0.03], [0.01, 0.01])),  # the parameters' tolerances
        ((0.2, 0.3), ([0.05, 0.2], [ANY, 0.3]), ([ANY, 0.2], [0.01, 0.3])),
        ((-1.0, -1.0), ([0.05, ANY], [ANY, ANY]), ([ANY, ANY], [0.01, ANY])),
        ((ANY, 0.0), ([0.05, ANY], [ANY, ANY]), ([ANY, ANY], [0.01, 0.01])),
    ],
    ids=["none", "given", "erased", "infinite"],
)
def test_a_goals_tolerance_goes_before_the_parameter(given, path, goal):
    one = [("b", *given)]
    found = goal_tolerances(GoalFields(one, one, given[0], False), PARAMETERS)
    assert found.goal_time == {0.0: 0.5, -1.0: ANY}.get(given[0], given[0])
    np.testing.assert_array_equal(np.array(found.path[:2]), path)
    np.testing.assert_array_equal(np.array(found.goal[:2]), goal)


@pytest.mark.parametrize(
    ("tolerances", "reason", "named"),
    [
        ([("c", 0.1, 0.0)], RejectionReason.UNKNOWN_JOINT, "goal_tolerance.name"),
        ([("a", 0.1, 0.0)] * 2, RejectionReason.DUPLICATE_JOINT, "goal_tolerance.name"),
        ([("a", np.nan, 0.0)], RejectionReason.NOT_FINITE, "goal_tolerance.position"),
    ],
)
def test_tolerances_that_make_no_sense_are_refused(tolerances, reason, named):
    error = rejected(goal_tolerances, GoalFields([], tolerances, 0.0, False), PARAMETERS)
    assert error.reason is reason and error.message.startswith(named)


def test_what_is_exceeded_names_the_joint_that_is_beyond_by_most():
    allowed = goal_tolerances(GoalFields([("b", 0.1, 0.2)], [], 0.0, False), PARAMETERS).path
    for position, velocity, expected in (
        ([0.04, 0.09], [9.0, 0.2], ""),
        ([0.06, 0.3], [0.0, 0.0], "b: position 0.3 away from its command, expected at most 0.1"),
        ([0.0, 0.0], [0.0, -0.3], "b: velocity 0.3 away from its command, expected at most 0.2"),
    ):
        error = State(np.array(position), np.array(velocity))
        assert exceeded(error, allowed, PARAMETERS.joint_names, "its command") == expected
