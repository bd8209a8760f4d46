"""Sequences in, trajectories out, over DDS."""

from __future__ import annotations

import time

import numpy as np
import pytest
from builtin_interfaces.msg import Duration
from node_fixtures import table
from ros_client import RosClient

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.client import sequence, stamp_of
from traj_integrator_ros.kernels import ControlSpace

pytestmark = pytest.mark.ros
DOF = 3
SPLINE_STEPS = 4
"""Parameter bspline.steps."""


def test_a_sequence_starts_from_the_latest_state_in_its_own_columns(client: RosClient) -> None:
    client.settle_state([0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    order = ["joint_c", "joint_a", "joint_b"]
    message = sequence(np.zeros((1, 4, DOF)), control_space=ActionSequence.VELOCITY, joint_names=order)
    batch, trajectory = client.answer(message)
    assert list(batch.joint_names) == order and list(trajectory.joint_names) == client.joint_names
    assert np.allclose(table(batch.position, 1, DOF)[0, 0], [0.3, 0.1, 0.2])
    assert np.allclose(table(batch.velocity, 1, DOF)[0, 0], [3.0, 1.0, 2.0])
    # The controller is unknown, so the robot is brought from its measured motion to rest: [1, 2, 3] for 0.02 s ahead.
    assert np.allclose(trajectory.points[0].positions, [0.12, 0.24, 0.36], atol=5e-3)


@pytest.mark.parametrize(("space", "horizon"), [(ControlSpace.POSITION, 1), (ControlSpace.BSPLINE, 12)])
def test_what_is_published_for_the_controller_is_acceptable_to_it(
    client: RosClient, space: ControlSpace, horizon: int
) -> None:
    rng = np.random.default_rng(horizon)
    actions = rng.normal(scale=0.5, size=(2, horizon, DOF))
    before_ns = time.time_ns()
    _, trajectory = client.answer(sequence(actions, control_space=space, position=np.zeros(DOF)))
    # The client checks that all received trajectories are acceptable.
    bridge_s = 0.02  # parameter publish.bridge_time
    assert bridge_s - 1e-3 < (stamp_of(trajectory) - before_ns) * 1e-9 < bridge_s + 5.0, "the controller comes there"
    assert trajectory.points[0].time_from_start == Duration()
    assert np.allclose([trajectory.points[0].positions, trajectory.points[0].velocities], 0.0)
    last = trajectory.points[-1].time_from_start
    step_s = 0.02 * (SPLINE_STEPS if space is ControlSpace.BSPLINE else 1)
    assert last.sec + 1e-9 * last.nanosec >= step_s * horizon - 1e-9, "every action is executed"


def test_the_first_of_a_batch_is_the_one_for_the_controller(client: RosClient) -> None:
    actions = np.broadcast_to(np.array([0.1, 0.2])[:, None, None], (2, 4, DOF))
    batch, trajectory = client.answer(sequence(actions, control_space=ActionSequence.VELOCITY))
    way = np.array(batch.position).reshape(2, -1, DOF)[:, -1, 0] - batch.position[0]
    went = trajectory.points[-1].positions[0] - trajectory.points[0].positions[0]
    assert abs(went - way[0]) < abs(went - way[1]), "the second one is twice as fast"
