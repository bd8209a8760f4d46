"""Sequences in, trajectories out, over DDS."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from ros_client import RosClient, sequence, table

from traj_integrator_interfaces.msg import ActionSequence
from traj_integrator_ros.kernels import ControlSpace, control_map

pytestmark = pytest.mark.ros
DOF = 3


def in_float64(message: ActionSequence, start: np.ndarray, dt: object, space: ControlSpace) -> list[np.ndarray]:
    """What the kernels make of the message's own float32 numbers in float64; start is `[3, rows, dof]`."""
    actions = np.asarray(message.data, np.float64).reshape(message.batch, message.horizon, DOF)
    rows = [torch.from_numpy(np.asarray(row, np.float32).astype(np.float64)) for row in start]
    step = dt if isinstance(dt, float) else torch.from_numpy(np.asarray(dt, np.float32).astype(np.float64))
    result = control_map(space).step(torch.from_numpy(actions), *rows, dt=step)
    return [tensor.numpy() for tensor in result]


@pytest.mark.parametrize("space", list(ControlSpace))
def test_numbers_over_the_wire_are_those_of_the_kernels(client: RosClient, space: ControlSpace) -> None:
    rng = np.random.default_rng(space.value)
    actions = rng.normal(scale=0.3, size=(4, 9, DOF))
    start = rng.normal(scale=0.2, size=(3, 1, DOF))
    message = sequence(
        actions, dt=[0.05], control_space=space.value, position=start[0], velocity=start[1], acceleration=start[2]
    )
    message.header.stamp.sec = 1234
    batch, _ = client.answer(message)
    expected = in_float64(message, start, float(np.float32(0.05)), space)
    for name, reference in zip(("position", "velocity", "acceleration", "jerk"), expected, strict=True):
        value = table(getattr(batch, name), 4, DOF)
        assert np.linalg.norm(value - reference) <= 2e-6 * np.linalg.norm(reference), name
    assert (batch.batch, batch.horizon, list(batch.joint_names)) == (4, 9, client.joint_names)
    assert batch.header.stamp.sec == 1234
    assert np.allclose(batch.time_from_start, 0.05 * np.arange(9))


def test_a_sequence_without_start_starts_from_the_latest_joint_state(client: RosClient) -> None:
    client.settle_state([0.1, 0.2, 0.3], [1.0, 2.0, 3.0])
    batch, trajectory = client.answer(sequence(np.zeros((1, 4, DOF)), control_space=ActionSequence.VELOCITY))
    assert np.allclose(table(batch.position, 1, DOF)[0, 0], [0.1, 0.2, 0.3])
    assert np.allclose(table(batch.velocity, 1, DOF)[0, 0], [1.0, 2.0, 3.0])
    assert np.allclose(trajectory.points[0].positions, [0.1, 0.2, 0.3])
