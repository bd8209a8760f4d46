"""What plans mean: each its own rows, whatever is commanded; goals are gone to as fast as limits allow."""

from __future__ import annotations

import numpy as np
import pytest
from execution_cases import bounds

from traj_integrator_ros.execution.limits import extremes
from traj_integrator_ros.execution.motion import Motion, State
from traj_integrator_ros.governor.reference import reference
from traj_integrator_ros.kernels import MAPS
from traj_integrator_ros.parameters.parameters import NodeParameters
from traj_integrator_ros.requests.plan import Plan
from traj_integrator_ros.requests.rejection import Rejected

DT, ORIGIN_NS = 0.02, 10**12
PARAMETERS = NodeParameters.of(("joint",))
LINE = 0.5 * DT * np.arange(1, 33)


def commanded(position: float, velocity: float) -> State:
    return State(np.array([position]), np.array([velocity]), np.zeros(1))


def read(rows: np.ndarray, begin: State, space: str = "clique", **changes: object) -> Motion:
    plan = Plan(MAPS[space], np.full(len(rows), DT), rows[:, None], None, ORIGIN_NS)
    plan = Plan(**{**plan.__dict__, **changes}) if changes else plan
    return reference(plan, ORIGIN_NS, ORIGIN_NS, begin, begin, PARAMETERS, bounds(1)).motion


@pytest.mark.parametrize("place", [0.0, 0.3])
@pytest.mark.parametrize("velocity", [0.0, -0.4])
def test_positions_mean_the_same_whatever_is_commanded(place, velocity):
    planned, other = read(LINE, commanded(place, velocity)), read(LINE, commanded(0.0, 0.5))
    assert planned.start_ns == ORIGIN_NS + round(DT * 1e9), "it begins with its own first row"
    np.testing.assert_array_equal(planned.coefficients, other.coefficients)
    np.testing.assert_allclose(planned.states_at(np.linspace(0, 0.6, 50))[1], 0.5, atol=1e-9)


def test_velocities_lead_on_from_what_is_commanded():
    planned = read(np.full(10, 0.3), commanded(0.7, -0.4), "velocity")
    assert planned.begin.position[0] == 0.7
    np.testing.assert_allclose(planned.states_at(np.linspace(0, 0.19, 40))[1], 0.3, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 10])
def test_one_position_is_a_goal_that_is_not_passed(rows):
    planned = read(np.full(rows, 0.1), commanded(0.0, 0.2))
    assert planned.ends_at_rest and planned.end.position[0] == pytest.approx(0.1)
    assert extremes(planned)[1, 0, 0] <= 0.1 + 1e-6
    np.testing.assert_allclose(np.ravel(planned.begin), [0.0, 0.2, 0.0], atol=1e-12)


def test_a_goal_that_nobody_can_reach_is_refused():
    with pytest.raises(Rejected, match="place: expected one that can be reached"):
        read(np.full(1, 1e30), commanded(0.0, 0.0))
